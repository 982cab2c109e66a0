"""Contestants in tiny scenarios: learners, the recommended agent, the oracle, guests; interrupted and continued."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from tiny_scenarios import TINY, diary_of, tiny_course, tiny_learner

from safedsr.agents.value_based.trainer import EVALUATE, PENALTY
from safedsr.envs.grid.config import GridConfig
from safedsr.paper.adaptation_engine import staged
from safedsr.paper.adaptation_plan import OWN
from safedsr.paper.adaptation_plan import Phase as Stage
from safedsr.paper.adaptation_runs import Stage as Training
from safedsr.paper.adaptation_runs import run_stages
from safedsr.runs.config import TrainConfig
from safedsr.runs.folder import load_run
from safedsr.runs.job import grid_job
from safedsr.scenario import adaptive, learners, place, runner, silent
from safedsr.scenario.adaptive import Adaptive, run_adaptive
from safedsr.scenario.learners import run_learner
from safedsr.scenario.oracles import reachable
from safedsr.scenario.place import OutOfTime, Timer, place_at
from safedsr.scenario.results import judge

pytestmark = pytest.mark.usefixtures("compile_quickly")

MADE: dict[str, Any] = {"settings_sha256": "0"}


def same_episodes(one, other):
    return len(one.end_step) and all(map(np.array_equal, one, other))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(learners, "CHUNK", 20)
    monkeypatch.setattr(learners, "REFIT_UPDATES", 20)


@pytest.mark.slow
def test_the_papers_phases_give_the_numbers_of_reproduce_adaptation(tmp_path, monkeypatch):
    course = tiny_course()
    modes = (OWN, EVALUATE), (EVALUATE, PENALTY, EVALUATE, OWN, EVALUATE)
    starts = (0, 100), (120, 160, 200, 240, 280)
    phases = [Stage(1, m, s, "", m) for ms, ss in zip(modes, starts, strict=True) for m, s in zip(ms, ss, strict=True)]
    assert [(p.start, p.mode) for p in learners.paper_stages(course, 20)] == [(p.start, p.mode) for p in phases]

    monkeypatch.setattr(learners, "TrainConfig", lambda steps, chunk, matmul: TrainConfig(steps, 20))
    learner, diary = tiny_learner(staged=True), diary_of(course)
    run_learner(course, learner, (4,), diary, place_at(tmp_path / "state"))

    monkeypatch.setattr("safedsr.paper.adaptation_plan.LANES", (0,))
    agent = learners.make_job(course, learner, (4,), 120).agent
    job = partial(grid_job, "safedsr", seeds=(4,), agent=agent, grid=GridConfig(time_limit=12))
    before = Training(
        "t", "before", job((course.phases[0].task,), train=TrainConfig(120, 20)), partial(staged, phases=phases)
    )
    later = job((course.phases[1].task,), train=TrainConfig(320, 20))
    after = Training("t", "after", later, lambda j: staged(j, phases[2:]), 120, "t-before", updates=20)
    run_stages([before, after], [before, after], tmp_path)
    found = [load_run(tmp_path / name).by_seed(0)[0] for name in ("t-before", "t-after")]
    theirs = [np.concatenate(pair) for pair in zip(*found, strict=True)]
    assert same_episodes(diary.episodes(4), theirs)


@pytest.mark.slow
def test_interrupted_and_continued_is_as_if_it_had_never_stopped(tmp_path):
    course, learner = tiny_course(), tiny_learner("safedqn")
    straight, broken = diary_of(course, (4, 5)), diary_of(course, (4, 5))
    run_learner(course, learner, (4, 5), straight, place_at(tmp_path / "a"))

    def stop(step, steps):
        if step == 160:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_learner(course, learner, (4, 5), broken, place_at(tmp_path / "b", stop))
    assert [place_at(tmp_path / "b").step(seed) for seed in (4, 5)] == [120, 120]  # the end of the first phase
    for seed in (4, 5):  # each goes on alone, and stops when its time is over
        timed = place_at(tmp_path / "b", timer=Timer(0.0))
        with pytest.raises(OutOfTime):
            run_learner(course, learner, (seed,), diary_of(course, (seed,)), timed)
        again = diary_of(course, (seed,))
        assert timed.step(seed) == 140
        run_learner(course, learner, (seed,), again, place_at(tmp_path / "b"))
        assert again.step == 320 and same_episodes(straight.episodes(seed), again.episodes(seed))
    assert place_at(tmp_path / "b", stamp="other").step(4) == -1
    assert not same_episodes(straight.episodes(4), straight.episodes(5))
    assert [[straight.spent(n, seed)["relabelled"] for seed in (0, 1)] for n in (0, 1)] == [[0, 0], [40, 40]]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The recommended agent, told of the change, at the level 'memory'."""
    folder = tmp_path_factory.mktemp("told")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learners, "CHUNK", 20)
        patch.setattr(runner, "SPEND", runner.ClimbConfig(updates=8))
        course = tiny_course(ends=(240, 320))
        diary = diary_of(course)
        one, base = Adaptive(tiny_learner("safedsr-plus"), "memory"), place_at(folder / "base")
        run_adaptive(course, one, (4,), diary, place_at(folder / "state"), base)
    return course, diary, base


def test_a_told_agent_adapts_and_its_policy_stays(told):
    _, diary, base = told
    assert base.step(4) == 240 and diary.step == 320
    assert [(note["phase"], note["seed"], note["level"]) for note in diary.notes] == [(1, 4, "memory")]
    spent = diary.spent(1, 0)
    assert diary.rate[1, 0] == 0 and spent["simulated_steps"] > 1_000
    assert spent["memory_steps"] == 0 and spent["relabelled"] > 20
    assert diary.episodes(4).end_step.max() > 300


def test_a_result_accounts_for_everything(told):
    course, diary, _ = told
    _, known = reachable(course, 1)
    assert known[0]["safe_share"] > 0.9 and known[1]["safe_share"] > 0.9
    found = judge(course, "safedsr-plus-memory", diary, 0, known, MADE)
    first, second = found["phases"]
    assert first["updates"] == pytest.approx(240 * 2 / 5) and second["updates"] == diary.spent(1, 0)["updates"]
    assert second["simulated_steps"] == diary.spent(1, 0)["simulated_steps"] and second["real_steps"] == 80
    assert sum(found["curve"]["episodes"]) == first["episodes"] + second["episodes"] == len(diary.episodes(4).end_step)
    assert second["regret"] == pytest.approx(known[1]["safe"] - second["safe"])


def test_the_automatic_agent_acts_with_what_simulated_episodes_have_shown(tmp_path, monkeypatch):
    """It changes the policy that acts only at a check, goes on from its last save, and accounts for its checks."""
    monkeypatch.setattr(runner, "SPEND", runner.ClimbConfig(updates=8))
    monkeypatch.setattr(adaptive, "CHECK", 20)
    course, learner = tiny_course(ends=(240, 320)), tiny_learner("safedsr-plus")
    acted = []
    let_act = runner.Runner.let_act

    def watched(self, index, agent, share):
        let_act(self, index, agent, share)
        acted.append((self.diary.step, share, bool(self.state.agent.acts[0, index])))

    def stop(step, steps):
        if step == 300:
            raise KeyboardInterrupt

    monkeypatch.setattr(runner.Runner, "let_act", watched)
    monkeypatch.setattr(place, "SAVE_SECONDS", 0.0)
    where, base = (Adaptive(learner, "auto"), (4, 5)), place_at(tmp_path / "base")
    with pytest.raises(KeyboardInterrupt):
        run_adaptive(course, *where, diary_of(course, (4, 5)), place_at(tmp_path / "a", stop), base)
    again, straight = diary_of(course, (4, 5)), diary_of(course, (4, 5))
    run_adaptive(course, *where, again, place_at(tmp_path / "a"), base)
    few = len(acted)
    run_adaptive(course, *where, straight, place_at(tmp_path / "b"), base)
    assert again.step == 320 and all(same_episodes(straight.episodes(s), again.episodes(s)) for s in (4, 5))
    assert {step for step, _, _ in acted[few:]} <= {240, 260, 280, 300} and [step for step, _, _ in acted[few:]][
        :2
    ] == [240, 240]
    assert all(acts == (share >= 0.97) for _, share, acts in acted)
    for index in (0, 1):
        spent = straight.spent(1, index)
        assert spent["simulated_steps"] == again.spent(1, index)["simulated_steps"] > 2_000
        assert 0 < straight.spent(1, index, 260)["simulated_steps"] < spent["simulated_steps"]
    assert straight.rate[1].min() > 0


AFTER, WORSE, SAME = "\nS..CG\n....C\n", "\nSCCCG\nCCCCC\n", "\nSC..G\n.....\n"


def silent_run(folder, costs, stop=None):
    """An agent that nobody tells, in a run whose costs become these after 240 steps; it is watched from step 180 on."""
    course = tiny_course("false", (240, 400), TINY.replace(AFTER, costs))
    diary, here = diary_of(course), place_at(folder / "state", *([stop] if stop else []))
    run_adaptive(
        course, Adaptive(tiny_learner("safedsr-plus"), "penalty"), (4,), diary, here, place_at(folder / "base")
    )
    return diary


@pytest.fixture(scope="module")
def untold(tmp_path_factory):
    """Two runs of the same agent: the costs change, or they do not."""
    folder = tmp_path_factory.mktemp("untold")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learners, "CHUNK", 20)
        patch.setattr(place, "SAVE_SECONDS", 0.0)
        patch.setattr(runner, "SPEND", runner.ClimbConfig(updates=8))
        yield folder, silent_run(folder / "changed", WORSE), silent_run(folder / "same", SAME)


def test_an_agent_that_nobody_tells_notices(untold):
    _, changed, same = untold
    assert [note["phase"] for note in same.notes] == []
    assert changed.notes and all(note["alarm"] and note["step"] > 240 for note in changed.notes)
    spent = changed.spent(1, 0)
    assert spent["memory_steps"] > 1_000 and spent["simulated_steps"] == 0 and spent["relabelled"] > 20
    assert changed.rate.min() > 0
    course = tiny_course("false", (240, 400), TINY.replace(AFTER, WORSE))
    phases = judge(course, "safedsr-plus", changed, 0, reachable(course, 1)[1], MADE)["phases"]
    assert [phase["alarms"] for phase in phases] == [0, len(changed.notes)]


def test_nothing_happens_at_a_silent_change_itself(untold):
    """Up to the change, a run with a change and one without are the same, and the watch began before it."""
    folder, changed, same = untold
    one, other = changed.episodes(4), same.episodes(4)
    before = one.end_step <= 240
    assert before.sum() > 10 and all(
        np.array_equal(a[before], b[: before.sum()]) for a, b in zip(one, other, strict=True)
    )
    assert place_at(folder / "same" / "base").step(4) == 180
    assert float(same.own[0]["mean"]) > 0 and int(same.own[0]["quiet"]) == silent.PAUSE + (400 - 180) // 20


@pytest.mark.slow
def test_an_interrupted_silent_run_is_the_same_experiment(untold):
    folder, changed, _ = untold

    def stop(step, steps):
        if step == changed.notes[0]["step"] - 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        silent_run(folder / "again", WORSE, stop)
    again = silent_run(folder / "again", WORSE)
    assert again.notes == changed.notes and same_episodes(changed.episodes(4), again.episodes(4))


MIXED = (
    TINY
    + """
[[change]]
at = 2_000
announced = false
costs = '''
SCCCG
CCCCC
'''
"""
)


def test_each_change_of_a_mixed_file_is_announced_or_silent(tmp_path, monkeypatch):
    """The agent, which has no simulator, is told of the first change and notices the second."""
    monkeypatch.setattr(runner, "SPEND", runner.ClimbConfig(updates=8))
    course = tiny_course("true", (240, 300, 420), MIXED)
    diary, where = diary_of(course), (place_at(tmp_path / "state"), place_at(tmp_path / "base"))
    run_adaptive(course, Adaptive(tiny_learner("safedsr-plus"), runner.FROM_MEMORY), (4,), diary, *where)
    told = [note for note in diary.notes if not note["alarm"]]
    assert [(note["phase"], note["step"]) for note in told] == [(1, 240)]
    assert any(note["alarm"] and note["phase"] == 2 for note in diary.notes)
    assert diary.spent(1, 0)["simulated_steps"] == 0 and diary.spent(1, 0)["memory_steps"] > 1_000
    assert [course.known(n).params is course.phases[1].task.params for n in (0, 1, 2)] == [False, True, True]


def test_safedsr_has_no_phases_where_changes_are_silent():
    learner = tiny_learner(staged=True)
    for announced, modes in (("true", {EVALUATE, PENALTY}), ("false", set())):
        course = tiny_course(announced)
        program = learners.make_program(course, learner, learners.make_job(course, learner, (4,), 120))
        found = {program.trainer.phase_at(step)[0] for step in range(0, 320, 20)}
        assert found & {EVALUATE, PENALTY} == modes
