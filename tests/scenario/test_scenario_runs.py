"""Contestants in tiny scenarios: learners, the recommended agent, the oracle, guests; interrupted and continued."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import DSR, PLUS, SHARED

from safedsr.agents.value_based.trainer import EVALUATE, PENALTY
from safedsr.cli import main
from safedsr.core.config import MultiplierConfig
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
from safedsr.scenario.course import make_course
from safedsr.scenario.diary import Diary
from safedsr.scenario.file import parse_scenario
from safedsr.scenario.learners import Learner, run_learner
from safedsr.scenario.oracles import reachable
from safedsr.scenario.place import place_at
from safedsr.scenario.results import judge, read_results
from safedsr.scenario.tables import table_text

pytestmark = pytest.mark.usefixtures("compile_quickly")

TINY = """format = 1
name = "tiny"
steps = 3_500

[environment]
map = '''
SC..G
.....
'''
costs = "cost"
budget = 1
time_limit = 12

[[change]]
at = 1_500
announced = ANNOUNCED
costs = '''
S..CG
....C
'''
"""
MADE: dict[str, Any] = {"settings_sha256": "0"}
SIGN: dict[str, Any] = {"multiplier": MultiplierConfig(rule="sign", penalty_start=60)}


def tiny_course(announced="true", ends=(120, 320)):
    """A course with phases of a few steps, fewer than a file may have."""
    course = make_course(parse_scenario(TINY.replace("ANNOUNCED", announced), "tiny.toml"))
    starts = (0, *ends[:-1])
    phases = [p._replace(start=s, end=e) for p, s, e in zip(course.phases, starts, ends, strict=True)]
    return dataclasses.replace(course, phases=tuple(phases))


def diary_of(course, seeds=(4,)):
    return Diary(seeds, len(course.phases), 1)


def tiny_learner(name="safedsr", **how):
    settings = {
        **SHARED,
        **{"safedsr": {**DSR, "freeze": 20, **SIGN}, "safedsr-plus": PLUS}.get(name, {"hidden": (8,)}),
    }
    return Learner(name, settings, {}, **how)


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

    monkeypatch.setattr(learners, "TrainConfig", lambda steps, chunk: TrainConfig(steps, 20))
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


def test_interrupted_and_continued_is_as_if_it_had_never_stopped(tmp_path):
    course, learner = tiny_course(), tiny_learner("safedqn")
    straight, broken = diary_of(course, (4, 5)), diary_of(course, (4, 5))
    run_learner(course, learner, (4, 5), straight, place_at(tmp_path / "a"))

    def stop(step, steps):
        if step == 160:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_learner(course, learner, (4, 5), broken, place_at(tmp_path / "b", stop))
    again = diary_of(course, (4, 5))
    run_learner(course, learner, (4, 5), again, place_at(tmp_path / "b"))  # from the end of the first phase
    assert again.step == 320 and all(same_episodes(straight.episodes(s), again.episodes(s)) for s in (4, 5))
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


def silent_run(folder, costs, stop=None, level="penalty"):
    """An agent that nobody tells, in a run whose costs become these after 240 steps; it is watched from step 180 on."""
    course = make_course(parse_scenario(TINY.replace("ANNOUNCED", "false").replace(AFTER, costs), "tiny.toml"))
    phases = [p._replace(start=s, end=e) for p, s, e in zip(course.phases, (0, 240), (240, 400), strict=True)]
    course = dataclasses.replace(course, phases=tuple(phases))
    diary, here = diary_of(course), place_at(folder / "state", *([stop] if stop else []))
    run_adaptive(course, Adaptive(tiny_learner("safedsr-plus"), level), (4,), diary, here, place_at(folder / "base"))
    return diary


AFTER = "\nS..CG\n....C\n"


@pytest.fixture(scope="module")
def untold(tmp_path_factory):
    """Two runs of the same agent: the costs change, or they do not."""
    folder = tmp_path_factory.mktemp("untold")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learners, "CHUNK", 20)
        patch.setattr(place, "SAVE_SECONDS", 0.0)
        patch.setattr(runner, "SPEND", runner.ClimbConfig(updates=8))
        yield (
            silent_run,
            folder,
            silent_run(folder / "changed", "\nSCCCG\nCCCCC\n"),
            silent_run(folder / "same", "\nSC..G\n.....\n"),
        )


def test_an_agent_that_nobody_tells_notices(untold):
    _, _, changed, same = untold
    assert [note["phase"] for note in same.notes] == []
    assert changed.notes and all(note["alarm"] and note["step"] > 240 for note in changed.notes)
    spent = changed.spent(1, 0)
    assert spent["memory_steps"] > 1_000 and spent["simulated_steps"] == 0 and spent["relabelled"] > 20
    assert changed.rate.min() > 0


def test_nothing_happens_at_a_silent_change_itself(untold):
    """Up to the change, a run with a change and one without are the same, and the watch began before it."""
    _, folder, changed, same = untold
    one, other = changed.episodes(4), same.episodes(4)
    before = one.end_step <= 240
    assert before.sum() > 10 and all(
        np.array_equal(a[before], b[: before.sum()]) for a, b in zip(one, other, strict=True)
    )
    assert place_at(folder / "same" / "base").step(4) == 180
    assert float(same.own[0]["mean"]) > 0 and int(same.own[0]["quiet"]) == silent.PAUSE + (400 - 180) // 20


def test_an_interrupted_silent_run_is_the_same_experiment(untold):
    run_silent, folder, changed, _ = untold

    def stop(step, steps):
        if step == changed.notes[0]["step"] - 20:
            raise KeyboardInterrupt

    costs = "\nSCCCG\nCCCCC\n"
    with pytest.raises(KeyboardInterrupt):
        run_silent(folder / "again", costs, stop)
    again = run_silent(folder / "again", costs)
    assert again.notes == changed.notes and same_episodes(changed.episodes(4), again.episodes(4))


def test_the_page_shows_the_example():
    root = Path(__file__).parents[2]
    shown = (root / "docs" / "benchmark.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert (root / "examples" / "tabular.py").read_text(encoding="utf-8").endswith(shown)
    assert len(shown.strip().splitlines()) <= 32


GUEST = """
import numpy as np

def entry(world):
    rng, obs, told = np.random.default_rng(world.seed), world.reset(), 0
    while not world.over:
        told += len(world.news())
        obs, reward, costs, ended = world.step(rng.choice([1, 3, 3, 3]))
        if ended:
            obs = world.reset()
    assert told == 2 and world.budgets == (1.0,)
    world.spend(updates=7)
"""


def test_guests_and_the_oracle_take_part(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY.replace("ANNOUNCED", "true"))
    (tmp_path / "guest.py").write_text(GUEST)
    out = tmp_path / "out"
    run = ["scenario", "run", str(tmp_path / "tiny.toml"), f"{tmp_path}/guest.py:entry", "oracle", "--quick"]
    assert main([*run, "--out", str(out)]) == 0
    found = read_results(out)
    assert [(one["contestant"], one["seed"]) for one in found] == [("entry", 0), ("oracle", 0)]
    assert found[0]["phases"][1]["updates"] == 7 and found[0]["phases"][0]["episodes"] > 20
    assert found[1]["phases"][1]["safe_share"] > 0.85 and abs(found[1]["phases"][1]["regret"]) < 15
    assert found[0]["phases"][1]["regret"] > 50
    assert "QUICK, NOT COMPARABLE" in table_text(found)
    capsys.readouterr()
    assert main(["scenario", "report", str(out), "--out", str(tmp_path / "report")]) == 0
    assert (tmp_path / "report" / "figures" / "safe-share-tiny.png").exists()
    assert read_results(tmp_path / "report") == found  # packed
    (out / "tiny" / "oracle" / "0.json").unlink()
    assert read_results(tmp_path / "report", out) == found  # both: those of the oracle are packed only
    other = out / "tiny" / "entry" / "0.json"
    other.write_text(other.read_text().replace(found[0]["scenario_sha256"], "0" * 64))
    assert main(["scenario", "report", str(tmp_path / "report"), str(out), "--json"]) == 2
    assert "of different versions of the scenario" in capsys.readouterr().err
    (tmp_path / "report" / "results.json.gz").write_bytes(b"torn")
    capsys.readouterr()
    assert main(["scenario", "report", str(tmp_path / "report")]) == 2
    assert "cannot be read as packed results" in capsys.readouterr().err
    assert main([*run[:-1], "--out", str(out)]) == 2  # not quick, in the same folder
    assert "of a quick run; choose another --out" in capsys.readouterr().err


def test_a_guest_that_ends_early_is_told(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY.replace("ANNOUNCED", "true"))
    (tmp_path / "guest.py").write_text("def entry(world):\n    world.reset()\n    world.step(9)\n")
    run = ["scenario", "run", str(tmp_path / "tiny.toml"), f"{tmp_path}/guest.py:entry", "--quick", "--out"]
    assert main([*run, str(tmp_path / "out")]) == 2
    assert "action is 9; give a number from 0 to 3" in capsys.readouterr().err
