"""Readings of the experiment with changing costs: what is run, and which episodes count."""

import numpy as np
import pytest

from safedsr.cli import main
from safedsr.paper import adaptation_plan as plan
from safedsr.paper import adaptation_readings, adaptation_runs
from safedsr.paper.adaptation_readings import READINGS, config_of, greedy_spans, reading_stages, whole_episodes
from safedsr.runs.metrics import Episodes


def test_half_of_each_evaluation_is_greedy():
    assert greedy_spans(plan.PHASES, plan.END) == [
        (550_000, 600_000),
        (650_000, 700_000),
        (850_000, 900_000),
        (1_050_000, 1_100_000),
    ]


@pytest.mark.parametrize("scale", [plan.Scale(), plan.QUICK], ids=["full", "quick"])
def test_every_reading_continues_agents_that_are_trained(scale):
    names = [stage.name for stage in reading_stages(scale)]
    for stage in reading_stages(scale):
        assert stage.base is None or stage.base in names
        assert stage.job.agent.pretrain == (0 if "encoder" not in stage.name else scale.of(plan.PRETRAIN_UPDATES))
    assert len(names) == len(set(names)) == len(READINGS) + len({reading.trained for reading in READINGS})


def test_what_readings_change():
    by_name = {reading.name: reading for reading in READINGS}
    stages = {stage.name: stage for stage in reading_stages(plan.Scale())}
    fixed = config_of(by_name["absorb-encoder-fixed"], plan.Scale())
    assert fixed.freeze == fixed.train_start and not fixed.pretrain_labels and fixed.terminal == "absorb"
    assert config_of(by_name["cut"], plan.Scale()).multiplier.rule == "sign"
    assert config_of(by_name["absorb-matched"], plan.Scale()).multiplier.rule == "share"
    assert stages["safedsr-cut-past-after"].share == 1 and stages["safedsr-cut-after"].share is None
    for name, phase in (("cut", "frozen"), ("cut-whole", "features")):
        stage = stages[f"safedsr-{name}-after"]
        assert stage.make(stage.job).trainer.phase_at(950_000) == (phase, 1_000_000)


def test_episodes_over_the_middle_do_not_count():
    episodes = Episodes(
        np.array([10, 25, 40]), np.array([10, 15, 15]), np.zeros(3), np.zeros((3, 1)), np.array([True, False, True])
    )
    assert whole_episodes(episodes, 10, 40).end_step.tolist() == [25, 40]
    assert whole_episodes(episodes, 15, 40).end_step.tolist() == [40]
    assert whole_episodes(episodes, 0, 24).end_step.tolist() == [10]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--readings", "cut"], "run by --parts readings; add it"),
        (["--parts", "readings", "--readings", "cutt"], "unknown reading 'cutt'; did you mean 'cut'?"),
    ],
)
def test_readings_that_cannot_be_run_are_refused(flags, words, capsys, tmp_path):
    assert main(["reproduce", "adaptation", "--full", *flags, "--out", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err


def test_only_the_named_readings_are_run(monkeypatch, tmp_path):
    """The summary is also written after an interruption."""
    ran, written = [], []

    def run_stages(chosen, every, out, show):
        ran.append(([stage.name for stage in chosen], len(every)))
        raise KeyboardInterrupt

    monkeypatch.setattr(adaptation_runs, "run_stages", run_stages)
    monkeypatch.setattr(adaptation_readings, "write_readings", lambda *where: written.append(where) or where[0])
    flags = ["--quick", "--parts", "readings", "--readings", "cut", "absorb-whole", "--out", str(tmp_path)]
    assert main(["reproduce", "adaptation", *flags]) == 1
    names = ["safedsr-cut-before", "safedsr-cut-after", "safedsr-absorb-whole-after"]
    assert ran == [(names, len(reading_stages(plan.QUICK)))] and len(written) == 1
