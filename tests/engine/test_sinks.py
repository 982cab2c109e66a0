import csv
import math
import subprocess
import sys

import numpy as np
import pytest
from tiny import tiny_job

from safedsr.engine.sinks import check_sinks
from safedsr.engine.train import STOP_FILE, Stopped, resume, train
from safedsr.errors import UserError
from safedsr.runs.config import TrainConfig
from safedsr.runs.folder import load_run
from safedsr.runs.progress import FILE, read_progress

pytestmark = pytest.mark.usefixtures("compile_quickly")


def with_log(job, *names):
    from dataclasses import replace

    return replace(job, train=replace(job.train, log=names))


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """A run that logged to TensorBoard."""
    return train(with_log(tiny_job("safedqn"), "tensorboard"), tmp_path_factory.mktemp("logged"))


def test_rows_are_those_of_the_tables(trained):
    run, rows = load_run(trained("safedqn")), read_progress(trained("safedqn"))
    assert [(row["step"], row["seed"]) for row in rows] == [
        (step, seed) for step in range(20, 161, 20) for seed in (0, 1)
    ]
    assert {row["environment"] for row in rows} == {"corridor, cost"}
    table = run.episodes
    for row in rows:
        here = (
            (table["seed"] == row["seed"]) & (table["end_step"] > row["step"] - 20) & (table["end_step"] <= row["step"])
        )
        assert row["episodes"] == here.sum()
        for name, column in (
            ("return", "return"),
            ("length", "length"),
            ("cost_0", "cost_0"),
            ("goal_rate", "success"),
        ):
            if here.any():
                assert row[name] == pytest.approx(table[column][here].mean(), rel=1e-5), name
            else:
                assert math.isnan(row[name])
        if here.any():
            assert row["safe_goal_rate"] == pytest.approx((table["success"] & (table["cost_0"] <= 1))[here].mean())
        place = (run.curves["seed"] == row["seed"]) & (run.curves["step"] == row["step"])
        assert row["lam_0"] == pytest.approx(run.curves["lam_0"][place][0])
    assert all(later["seconds"] >= row["seconds"] for row, later in zip(rows, rows[2:], strict=False))


def test_a_resumed_run_has_every_row_once(tmp_path, trained):
    def stop_at_60(progress):
        if progress.step == 60:
            (tmp_path / STOP_FILE).touch()

    with pytest.raises(Stopped):
        train(tiny_job("safedqn", trajectories=40), tmp_path, stop_at_60)
    with (tmp_path / FILE).open("a") as file:  # rows after the checkpoint, the last one half written
        file.write((tmp_path / FILE).read_text().splitlines()[-1].replace("60,", "80,", 1) + "\n100,0.5,corr")
    resume(tmp_path)
    whole = trained("safedqn")
    for one, other in zip(read_progress(tmp_path), read_progress(whole), strict=True):
        for name in one.keys() - {"seconds"}:
            assert one[name] == other[name] or (math.isnan(one[name]) and math.isnan(other[name])), name


def test_any_program_can_read_the_file(trained):
    with (trained("safedqn") / FILE).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16 and "nan" not in (trained("safedqn") / FILE).read_text()


def test_tensorboard_shows_the_same_rows(logged):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    lanes = sorted(path.name for path in (logged / "tensorboard").iterdir())
    assert lanes == ["corridor-cost-seed-0", "corridor-cost-seed-1"]
    rows = [row for row in read_progress(logged) if row["seed"] == 1]
    events = accumulator.EventAccumulator(str(logged / "tensorboard" / lanes[1]))
    events.Reload()
    for name in rows[0].keys() - {"step", "environment", "seed"}:
        known = [row for row in rows if not math.isnan(row[name])]
        found = events.Tensors(name) if known else []
        assert [event.step for event in found] == [row["step"] for row in known]
        values = [event.tensor_proto.float_val[0] for event in found]
        np.testing.assert_allclose(values, [row[name] for row in known], rtol=1e-6)


def test_weights_and_biases_works_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    train(with_log(tiny_job("safedqn", seeds=(0,), steps=40), "wandb"), tmp_path)
    (kept,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    data = kept.read_bytes()
    for word in (b"safe_goal_rate", b"lam_0", b"buffer_size"):  # rows, and the settings of the job
        assert word in data


def test_nothing_is_imported_unless_it_is_asked_for():
    code = "import sys, safedsr.engine.train, safedsr.cli.runs; print({'wandb', 'tensorboard'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_a_missing_package_and_a_wrong_name_are_told_in_one_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"log is 'wandb', which needs .*: pip install 'safedsr\[wandb\]'"):
        check_sinks(("wandb",))
    with pytest.raises(UserError, match=r"log\[0\] is 'tensorbord'; possible: .*; did you mean 'tensorboard'\?"):
        TrainConfig(log=("tensorbord",))  # type: ignore[arg-type]


def test_a_damaged_file_is_told(tmp_path):
    with pytest.raises(UserError, match=r"has no progress.csv"):
        read_progress(tmp_path)
    (tmp_path / FILE).write_text("step,seconds,environment,seed\n20,x,a,0\n")
    with pytest.raises(UserError, match=r"progress.csv is damaged: .*; delete it"):
        read_progress(tmp_path)
