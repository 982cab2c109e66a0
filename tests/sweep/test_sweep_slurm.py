"""Sweeps through submitit: its local executor runs the jobs; a fake sbatch shows what SLURM would get."""

import os
import stat
import threading
import time

import pytest
from sweeps import LONG, Seen, begun, same_results, tiny_sweep

from safedsr.errors import UserError
from safedsr.sweep.base import Where
from safedsr.sweep.executors import make_executor
from safedsr.sweep.finish import finish, saved_step
from safedsr.sweep.on_slurm import Requeued
from safedsr.sweep.run import last_step, run_all
from safedsr.sweep.worker import DONE, STOPPED, Work

pytest.importorskip("submitit")
pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_jobs_of_submitit_train_what_training_by_hand_trains(tmp_path, corridor_map, by_hand):
    planned = begun(tiny_sweep(corridor_map, LONG, vary={"learning_rate": [0.001]}), tmp_path / "out")
    executor = make_executor(Where("slurm", cluster="local"), tmp_path / "out", 1)
    outcomes = run_all(planned, tmp_path / "out", executor, Seen())
    executor.close()
    assert [outcome.state for outcome in outcomes.values()] == [DONE]
    assert same_results(by_hand[0.001], tmp_path / "out" / planned[0].name)


def test_slurm_gets_an_array_with_partition_cores_and_requeue(tmp_path, corridor_map, monkeypatch):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (("sbatch", f'cp "$1" {tmp_path}/script.sh; echo Submitted batch job 77'), ("srun", "true")):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    planned = begun(tiny_sweep(corridor_map), tmp_path / "out")
    where = Where("slurm", partition="short", cores=2, gpus=1, workers=1, hours=0.5)
    executor = make_executor(where, tmp_path / "out", 2)
    executor.start([Work(one.name, str(tmp_path / "out" / one.name), one.job.to_dict()) for one in planned])
    script = (tmp_path / "script.sh").read_text()
    for line in ("--partition=short", "--cpus-per-task=2", "--gpus-per-node=1", "--array=0-1%1", "--time=30"):
        assert f"#SBATCH {line}\n" in script
    assert "#SBATCH --signal=" in script  # the signal before the end, on which a run saves and is requeued


def test_a_preempted_job_saves_before_it_is_requeued(tmp_path, corridor_map, by_hand):
    (planned,) = begun(tiny_sweep(corridor_map, LONG, vary={"learning_rate": [0.001]}), tmp_path)
    folder = tmp_path / planned.name
    task = Requeued(Work(planned.name, str(folder), planned.job.to_dict()), 1, str(tmp_path / "log"))
    found = []
    thread = threading.Thread(target=lambda: found.append(task()))
    thread.start()
    while last_step(folder) < 100 and thread.is_alive():
        time.sleep(0.02)
    again = task.checkpoint()
    thread.join()
    assert found[0].state == STOPPED and 100 <= saved_step(folder) < 1200
    assert isinstance(again.function, Requeued) and again.function.work == task.work
    finish(planned.job, folder)
    assert same_results(by_hand[0.001], folder)


def test_without_slurm_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="SLURM cannot be used here"):
        make_executor(Where("slurm"), tmp_path, 1)
