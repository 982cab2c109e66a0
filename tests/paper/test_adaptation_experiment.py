"""The experiment with changing costs, from trainings to tables and figures: tiny, or on made-up numbers."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import numbers_of
from tiny import tiny_job

from safedsr.agents.value_based.trainer import EVALUATE
from safedsr.cli import main
from safedsr.cli.adaptation import KINDS, LATER, OWNERS, choose
from safedsr.core.config import MultiplierConfig
from safedsr.errors import UserError
from safedsr.figures.adaptation import (
    MARKERS,
    comparison_figure,
    comparison_lines,
    phase_lines,
    phases_figure,
    rung_points,
    walks_figure,
)
from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_arms import Arm, arm_rows, since, time_to_safe, windowed
from safedsr.paper.adaptation_engine import staged
from safedsr.paper.adaptation_plan import OWN, QUICK, Phase, Scale
from safedsr.paper.adaptation_runs import Stage, finish, run_stages, stages
from safedsr.paper.adaptation_summary import Timeline, phase_rows, read_summary
from safedsr.paper.adaptation_tables import comparison_table, middle, phase_table, tables
from safedsr.paper.adaptation_walks import EVALUATIONS, read_walks
from safedsr.runs import folder as runs
from safedsr.runs import storage
from safedsr.runs.metrics import Episodes
from safedsr.runs.tracks import pack_track
from safedsr.runs.writer import load_checkpoint
from safedsr.sweep.finish import standing

PUBLISHED = Path(__file__).parents[2] / "results" / "adaptation"
SIGN: dict[str, Any] = {"multiplier": MultiplierConfig(rule="sign", penalty_start=60)}
PHASES = (
    Phase(1, "training", 0, "everything", OWN),
    Phase(2, "evaluation", 80, "nothing", EVALUATE),
    Phase(3, "evaluation", 120, "nothing", EVALUATE),
    Phase(6, "successor", 160, "M", OWN),
)


def test_phases_are_those_of_the_last_table():
    starts = {phase.number: phase.start for phase in plan.PHASES}
    assert starts == {1: 0, 2: 500_000, 3: 600_000, 4: 700_000, 5: 800_000, 6: 900_000, 7: 1_000_000}
    assert [p.number for p in plan.PHASES if p.mode == EVALUATE] == [2, 3, 5, 7] and plan.CHANGE == 600_000
    assert plan.LANES == (0, 0, 1) and plan.UNSEEN_COSTS == ("square", "inverse-diamond")


@pytest.mark.parametrize("scale", [Scale(), QUICK])
def test_every_training_fits_into_its_phases(scale):
    found = {stage.name: stage for stage in stages(scale)}
    assert set(found) <= {f"{owner}-{kind}" for owner in OWNERS for kind in KINDS}
    for stage in found.values():
        assert stage.base is None or found[stage.base].job.agent == stage.job.agent
        assert stage.job.train.steps % stage.job.chunk == 0 and stage.first_step % stage.job.chunk == 0
        assert stage.work > 0 and len(stage.job.seeds) == scale.seeds
    before, after = (found[f"safedsr-cut-{kind}"].job for kind in ("before", "after"))
    assert before.agent.buffer_size <= scale.of(plan.TRAINED) and before.agent.multiplier.rule == "sign"
    assert before.train.steps == scale.of(600_000) and after.train.steps == scale.of(1_100_000)
    assert [e.cost_names for e in after.tasks] == [("square",), ("inverse-diamond",), ("diamond",)]
    assert found["safedsr-cut-pretrained-before"].job.agent.pretrain == scale.of(10_000)
    assert found["ppo-lag-finetune"].first_step == 0 and found["safedqn-finetune"].first_step == scale.of(500_000)


def tiny_stages():
    job = partial(tiny_job, "safedsr", seeds=(4,), freeze=20, **SIGN)
    before = Stage("tiny", "before", job("SC..G", "S.C.G", steps=120), partial(staged, phases=PHASES))
    make = partial(staged, phases=PHASES[2:], walks=20)
    news = job("S..CG", "S.CCG", "SCCCG", steps=200, trajectories=20)
    return [before, Stage("tiny", "after", news, make, 120, "tiny-before", updates=20)]


@pytest.mark.usefixtures("compile_quickly")
@pytest.mark.slow
def test_killed_and_resumed_is_as_if_it_had_never_stopped(tmp_path, capsys):
    both = tiny_stages()
    shares = []
    run_stages(both, both, tmp_path / "straight", lambda title, p, share: shares.append(share))
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1)
    assert capsys.readouterr().out.startswith("tiny-before: ")

    out = tmp_path / "killed"
    with pytest.raises(UserError, match="tiny-after continues tiny-before, which is not finished; run that part"):
        finish(both[1], both[0], out, lambda p: None)

    def die(title, p, share):
        if p.step == 160:  # what was saved last is step 140
            raise MemoryError

    with pytest.raises(MemoryError):
        run_stages(both, both, out, die)
    run_stages(both, both, out)
    for stage in both:
        assert standing(stage.planned.job, out / stage.name) == "done"
        one, other = (load_checkpoint(tmp_path / where / stage.name) for where in ("straight", "killed"))
        assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
        tables = [runs.load_run(tmp_path / where / stage.name).episodes for where in ("straight", "killed")]
        assert all(np.array_equal(tables[0][name], tables[1][name]) for name in tables[0])
    kept = runs.load_trajectories(out / "tiny-after")
    assert kept["step"].tolist() == list(range(141, 161)) and kept["position"].shape == (20, 3, 1, 2)
    assert runs.load_run(out / "tiny-after").episodes["end_step"].min() > 120


def episodes(ends, cost, success=True):
    ends = np.asarray(ends)
    cost = np.broadcast_to(np.float32(cost), ends.shape)[:, None]
    return Episodes(ends, np.ones_like(ends), np.zeros(len(ends)), cost, np.broadcast_to(success, ends.shape))


def test_windowed_rates_count_whole_episodes():
    one = episodes([1_000, 2_000, 4_000, 5_000, 6_000, 9_000], [9, 0, 0, 9, 0, 0])
    points, rates = windowed(one, 10_000, 5_000, 1_000)
    assert points.tolist() == [5_000, 6_000, 7_000, 8_000, 9_000, 10_000]
    np.testing.assert_allclose(rates, [1 / 2, 3 / 4, 2 / 3, 2 / 3, 2 / 3, 1])
    assert time_to_safe(one, 0.7, 10_000, 5_000, 1_000) == 6_000
    assert time_to_safe(one, 1.1, 10_000, 5_000, 1_000) is None
    assert since(one, 4_000, 4_000).end_step.tolist() == [1_000, 2_000]


def test_an_arm_counts_violations_until_it_is_safe():
    late = episodes(np.arange(1_000, 200_001, 1_000), np.where(np.arange(200) < 20, 9, 0))
    never = episodes(np.arange(1_000, 200_001, 1_000), 9)
    arm = Arm("safedqn", "finetune", 0, (0, 1), [late, never], 1e-4, 0.5)
    first, second = arm_rows(arm, {"square": {"safe_goal_rate": 0.8}}, Scale())
    assert (first["arm"], first["steps"], first["violations"], first["last"]) == ("(d) fine-tuning", 22_000, 20, 1.0)
    assert first["seconds"] == pytest.approx(2.7)
    assert (second["steps"], second["seconds"], second["violations"], second["last"]) == (None, None, 200, 0.0)


def test_phases_are_told_apart_by_where_their_episodes_end():
    ends = [500_000, 600_000, 600_001, 650_000, 1_100_000]
    timeline = Timeline([3], [episodes(ends, [9, 0, 9, 0, 0])], {(3, 700_000): 0.25})
    rows = {row["phase"]: row for row in phase_rows("cut", [timeline], Scale())}
    assert {phase: row["episodes"] for phase, row in rows.items()} == {1: 1, 2: 1, 3: 2, 7: 1}
    assert (rows[3]["safe"], rows[3]["goal"], rows[3]["cost"], rows[3]["lam"]) == (0.5, 1.0, 4.5, 0.25)
    assert rows[7]["lam"] is None


def test_walks_come_back_rounded_to_eighths(tmp_path):
    rng = np.random.default_rng(0)
    track, done = rng.uniform(0, 21, (40, 2)), np.arange(40) % 10 == 9
    codes = [{"variant": 2, "change": change, "phase": 5, "seed": 7 + change} for change in (0, 1)]
    tables = [
        {**{key: np.full(40, value, np.int32) for key, value in code.items()}, **pack_track(track + change, done)}
        for change, code in enumerate(codes)
    ]
    storage.write_table(tmp_path / "walks", storage.concatenate(tables), {})
    walks = read_walks(tmp_path)
    assert set(walks) == {("absorb", 0, 5), ("absorb", 1, 5)} and read_walks(tmp_path / "nowhere") == {}
    seed, found = walks["absorb", 1, 5]
    assert seed == 8 and np.flatnonzero(np.isnan(found[:, 0])).tolist() == [10, 21, 32, 43]
    assert np.abs(found[np.isfinite(found[:, 0])] - track - 1).max() <= 1 / 16
    assert walks_figure(walks, 0).axes[1].get_title() == "5: penalty"


@pytest.fixture
def data():
    curve = {"step": [2_000, 4_000], "iqm": [None, 0.5], "mean": [0.1, 0.4], "low": [0.0, 0.2], "high": [0.2, 0.6]}
    phase = {"change": 0, "phase": 3, "episodes": 9, "goal": 1.0, "cost": 4.5, "lam": 0.5}
    rung = {"variant": "cut", "change": 0, "goal": 1.0, "cost": 1.0, "lam": 0.5}
    arm = {"owner": "safedqn", "arm": "(d) fine-tuning", "change": 0, "last": 0.7}
    return {
        "quick": False,
        "shorten": 1,
        "phases": [{"variant": "cut", "seed": seed, "safe": safe, **phase} for seed, safe in enumerate((0.2, 0.4))],
        "curves": [{"variant": name, "change": 0, **curve} for name in ("cut-pretrained", "cut")],
        "oracle": {costs: {"safe_goal_rate": 0.8} for costs in plan.NEW_COSTS},
        "rungs": [
            {"level": "cost", "seed": seed, "seconds": seconds, "safe": safe, **rung}
            for seed, (seconds, safe) in enumerate(((0.1, 0.5), (0.3, 0.3), (0.2, 0.9)))
        ],
        "arms": [
            {"seed": 0, "steps": 22_000, "seconds": 2.7, "violations": 20, **arm},
            {"seed": 1, "steps": None, "seconds": None, "violations": 200, **arm},
        ],
        "arm_curves": [{**arm, "step_seconds": 1e-4, "change_seconds": 0.5, **curve}],
    }


def test_lines_of_the_figure(data):
    lines = phase_lines(data, 0, "iqm")
    assert [line.label for line in lines] == ["cut", "cut-pretrained"] and not phase_lines(data, 1, "iqm")
    np.testing.assert_array_equal(lines[0].y, [np.nan, 0.5])
    assert lines[0].color == lines[1].color and lines[0].dash != lines[1].dash
    (line,) = comparison_lines(data, 0, seconds=True)
    np.testing.assert_allclose(line.x, [0.7, 0.9])
    assert rung_points(data, 0) == [("cut", "cost", pytest.approx(0.2), pytest.approx(1.7 / 3))]
    drawn = phases_figure(data).axes[0]
    assert drawn.get_title() == "diamond → square" and [text.get_text() for text in drawn.texts] == list("1234567")


def test_the_whole_legend_is_inside_the_figure(data):
    arm, rung = data["arm_curves"][0], data["rungs"][0]
    owners = (*(f"safedsr-{variant.name}" for variant in plan.COMPARED), *plan.BASELINES)
    names = "(c) fine-tuning", "(f) from scratch"
    arms = [{**arm, "owner": owner, "arm": name} for owner in owners for name in names]
    rungs = [{**rung, "variant": variant.name, "level": level} for variant in plan.COMPARED for level in MARKERS]
    figure = comparison_figure({**data, "arm_curves": arms, "rungs": rungs})
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(arms) + len(rungs) + 2  # and the oracle, and half of it
    box, below = legend.get_window_extent(), figure.axes[3].xaxis.label.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
    assert box.y1 <= below.y0


def test_tables_in_words(data):
    (row,) = phase_table(data, 0).rows
    assert row == ("cut", "3 post-adaption evaluation", row[2], "0.300", "1.000 (1.000 … 1.000)", row[5], "0.50")
    assert row[2].startswith("0.300 (") and phase_table(data, 0).note.startswith("IQM over 2 seeds")
    rung, arm = comparison_table(data, 0).rows
    assert rung[:6] == ("safedsr-cut", "(a) refit", "2 of 3", "0", "0.2", "–")
    assert arm[:6] == ("safedqn", "(d) fine-tuning", "1 of 2", "∞", "∞", "110")
    assert middle([1, None, 3]) == "3" and "| safedqn |" in comparison_table(data, 0).markdown()
    assert not comparison_table({**data, "rungs": [], "arms": []}, 0).rows


def test_published_tables_are_those_of_the_published_numbers():
    found = tables(read_summary(PUBLISHED))
    written = numbers_of("\n".join(table.markdown() for table in found))
    assert written == numbers_of((PUBLISHED / "tables.md").read_text(encoding="utf-8")) and sum(map(len, written)) > 500
    expected = {(v.name, change, phase) for v in plan.VARIANTS for change in range(3) for phase in EVALUATIONS}
    assert read_walks(PUBLISHED).keys() == expected


def test_parts_are_chosen_by_name():
    assert choose([]) == (KINDS, LATER)
    assert choose(["summary", "safedqn-before", "after"]) == (("safedqn-before", "after"), ("summary",))
    with pytest.raises(UserError, match="unknown part 'safedsr-cut-befor'; did you mean 'safedsr-cut-before'"):
        choose(["safedsr-cut-befor"])
    assert set(OWNERS) == {stage.owner for stage in stages(Scale())}


def test_the_command_wants_to_know_how_long(capsys, tmp_path):
    assert main(["reproduce", "adaptation"]) == 2
    assert "choose either --quick" in capsys.readouterr().err
    assert main(["reproduce", "adaptation", "--quick", "--parts", "summary", "--out", str(tmp_path)]) == 2
    assert "has no finished part of the experiment" in capsys.readouterr().err
