"""Sweeps through submitit: its local executor runs jobs; a small SLURM for tests takes real job scripts."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sweeps import LONG, Seen, begun, same_results, tiny_sweep, wait_for

from safedsr.cli import main
from safedsr.sweep.base import Where
from safedsr.sweep.executors import make_executor
from safedsr.sweep.finish import saved_step
from safedsr.sweep.run import last_step, run_all
from safedsr.sweep.worker import DONE, Work

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'safedsr[slurm]'")
pytestmark = pytest.mark.usefixtures("compile_quickly")
COMMANDS = ("sbatch", "srun", "sacct", "scontrol", "scancel", "run-job")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a SLURM whose jobs are processes of this computer; see fake_slurm.sh."""
    place, tools = tmp_path / "slurm", tmp_path / "bin"
    place.mkdir()
    tools.mkdir()
    for name in COMMANDS:
        (tools / name).symlink_to(Path(__file__).with_name("fake_slurm.sh"))
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(place))
    yield place
    for file in place.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(file.read_text()), signal.SIGKILL)


def test_jobs_of_submitit_train_what_training_by_hand_trains(tmp_path, corridor_map, by_hand):
    planned = begun(tiny_sweep(corridor_map, LONG, vary={"learning_rate": [0.001]}), tmp_path / "out")
    executor = make_executor("slurm", Where(), tmp_path / "out", 1, cluster="local")
    outcomes = run_all(planned, tmp_path / "out", executor, Seen())
    executor.close()
    assert [outcome.state for outcome in outcomes.values()] == [DONE]
    assert same_results(by_hand[0.001], tmp_path / "out" / planned[0].name)


def test_slurm_gets_an_array_with_partition_cores_and_the_signal_to_save(slurm, tmp_path, corridor_map):
    (slurm / "full").touch()  # nothing starts
    planned = begun(tiny_sweep(corridor_map), tmp_path / "out")
    where = Where(partition="short", cores=2, gpus=1, workers=1, hours=0.5)
    executor = make_executor("slurm", where, tmp_path / "out", 2)
    executor.start([Work(one.name, str(tmp_path / "out" / one.name), one.job.to_dict()) for one in planned])
    script = (slurm / "77.sh").read_text()
    for line in ("--partition=short", "--cpus-per-task=2", "--gpus-per-node=1", "--array=0-1%1", "--time=30"):
        assert f"#SBATCH {line}\n" in script
    assert "#SBATCH --signal=USR2@90\n" in script
    executor.stop()
    assert sorted(file.name for file in slurm.glob("*.cancelled")) == ["77_0.cancelled", "77_1.cancelled"]


@pytest.mark.slow
def test_the_parent_is_killed_a_job_is_preempted_and_the_same_command_waits_for_it(
    slurm, tmp_path, corridor_map, by_hand
):
    out = tmp_path / "out"
    (planned,) = begun(tiny_sweep(corridor_map, LONG, vary={"learning_rate": [0.001]}), out)
    folder = out / planned.name
    command = ["sweep", "--out", str(out), "--executor", "slurm"]
    parent = subprocess.Popen([sys.executable, "-m", "safedsr.cli", *command], stderr=subprocess.DEVNULL)
    wait_for(lambda: last_step(folder) >= 100)
    parent.kill()
    parent.wait()
    executor, seen, saved = make_executor("slurm", Where(), out, 1), Seen(), []

    def update(board):
        if not saved and last_step(folder) >= 300:
            for number in ("TERM", "USR2"):  # what SLURM sends to a job that is preempted
                subprocess.run(["scancel", "77", "--signal", number], check=True)
            wait_for((slurm / "77.requeued").exists)
            saved.append(saved_step(folder))

    seen.update = update
    outcomes = run_all([planned], out, executor, seen)
    assert outcomes[planned.name].state == DONE and 300 <= saved[0] < LONG["steps"]
    assert not (slurm / "78.sh").exists()  # the job that went on was found, no second one was started
    assert same_results(by_hand[0.001], folder)


def test_without_slurm_it_is_told(tmp_path, corridor_map, monkeypatch, capsys):
    begun(tiny_sweep(corridor_map), tmp_path / "out")
    monkeypatch.setenv("PATH", "")
    assert main(["sweep", "--out", str(tmp_path / "out"), "--executor", "slurm"]) == 2
    assert "SLURM cannot be used here" in capsys.readouterr().err
