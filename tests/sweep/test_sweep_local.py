"""Sweeps in processes of this computer, for real: failures, kill -9 of a worker and of the parent, Ctrl-C."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sweeps import LONG, TINY, Seen, begun, same_results, tiny_sweep, wait_for

from safedsr.cli import main
from safedsr.engine.train import Stopped
from safedsr.sweep.finish import finish, saved_step, standing
from safedsr.sweep.local import Local, memory_each
from safedsr.sweep.run import last_step, run_all, run_sweep
from safedsr.sweep.worker import DONE, FAILED, Outcome, Work, finish_in_process

ONE_CORE = ("--workers", "1", "--cores", "1")  # as in this process: what is compiled here is found there
pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_a_sweep_trains_what_training_by_hand_trains_and_a_failure_stops_no_other(
    capsys, tmp_path, corridor_map, monkeypatch
):
    out = tmp_path / "out"
    sweep = tiny_sweep(corridor_map, vary={"learning_rate": [0.001, 0.01]})
    planned = begun(sweep, out)
    broken = out / planned[0].name / "config.json"
    finish(planned[0].job, broken.parent, until=20)
    config = broken.read_text()
    state = next((broken.parent / "checkpoint").glob("state-*"))
    whole = state.read_bytes()
    state.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert main(["sweep", "--out", str(out), "--json", *ONE_CORE]) == 1
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert list(found["failed"]) == [planned[0].name] and "damaged" in found["failed"][planned[0].name]
    assert str(out / planned[0].name) in printed.err and "1 of 2 runs failed" in printed.err
    assert standing(planned[1].job, out / planned[1].name) == "done"
    finish(planned[1].job, tmp_path / "hand")
    assert same_results(tmp_path / "hand", out / planned[1].name)

    state.write_bytes(whole)
    assert config == broken.read_text()
    assert main(["sweep", "--out", str(out), *ONE_CORE]) == 0
    table = capsys.readouterr().out
    assert "by safe-goal-rate" in table and all(one.name in table for one in planned)
    assert main(["report", str(out), "--metric", "return", "--out", str(tmp_path / "report")]) == 0
    assert (tmp_path / "report" / "figures" / "return-learning_rate.png").exists()
    lines = (tmp_path / "report" / "ranking.csv").read_text().splitlines()
    assert len(lines) == 3 and lines[0].startswith("place,configuration,algorithm,learning_rate,return (IQM)")

    monkeypatch.setattr(subprocess, "Popen", lambda *args, **how: pytest.fail("a process was started"))
    assert main(["sweep", "--out", str(out), *ONE_CORE]) == 0  # everything is done
    capsys.readouterr()
    assert main(["sweep", "--best", "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith("safedsr train safedqn --layout ")


@pytest.mark.slow
def test_a_sweep_in_another_environment_and_the_command_of_its_best(capsys, tmp_path):
    cost = tmp_path / "cost.py"
    cost.write_text("def left(obs, action, next_obs, reward, info):\n    return float(action == 0)\n")
    settings = {**{name: TINY[name] for name in ("batch_size", "hidden", "epsilon_end")}, "steps": 120, "chunk": 40}
    settings |= {"buffer_size": 60, "train_start": 40, "train_every": 20, "sync_every": 40}
    given = [word for name, value in settings.items() for word in ("--set", f"{name.replace('_', '-')}={value}")]
    flags = ["--algos", "safedqn", "--env", "CartPole-v1", "--cost-fn", f"{cost}:left", "--budget", "9"]
    out = tmp_path / "out"
    assert main(["sweep", *flags, *given, "--vary", "learning-rate=0.001", "--out", str(out), *ONE_CORE]) == 0
    assert f"{out}, by return" in capsys.readouterr().out
    assert main(["sweep", "--best", "--out", str(out)]) == 0
    command = shlex.split(capsys.readouterr().out)
    assert command[:2] == ["safedsr", "train"] and main(command[1:]) == 0
    assert same_results(out / "safedqn-learning_rate=0.001", tmp_path / "out-best")


def test_a_killed_worker_is_replaced_and_the_result_is_the_same(tmp_path, corridor_map, by_hand):
    (planned,) = begun(tiny_sweep(corridor_map, LONG, vary={"learning_rate": [0.001]}), tmp_path / "out")
    folder = tmp_path / "out" / planned.name
    processes = []
    executor = Local(tmp_path / "out", 1, each=1)
    seen = Seen()

    def update(board):
        if not processes and last_step(folder) >= 200:
            processes.extend(executor._running)
            processes[0].kill()

    seen.update = update
    outcomes = run_all([planned], tmp_path / "out", executor, seen)
    executor.close()
    assert outcomes[planned.name].state == DONE and processes[0].returncode == -signal.SIGKILL
    assert same_results(by_hand[0.001], folder)


def test_a_process_that_dies_without_progress_is_not_started_for_ever(tmp_path, corridor_map, monkeypatch):
    (planned,) = begun(tiny_sweep(corridor_map, vary={"learning_rate": [0.001]}), tmp_path)
    started = []

    def kill(process):
        started.append(process)
        process.kill()

    work = Work(planned.name, str(tmp_path / planned.name), planned.job.to_dict())
    found = finish_in_process(work, 1, {}, tmp_path / "log", kill)
    assert found.state == FAILED and "SIGKILL" in found.reason and "memory" in found.reason
    assert len(started) == 2


def start(out: Path, log: Path) -> subprocess.Popen:
    flags = ["sweep", "--out", str(out), *ONE_CORE]
    with log.open("w") as file:
        return subprocess.Popen([sys.executable, "-m", "safedsr.cli", *flags], stdout=file, stderr=file)


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_the_parent_ends_in_the_middle_and_the_same_command_continues(tmp_path, corridor_map, by_hand, how):
    out = tmp_path / "out"
    (planned,) = begun(tiny_sweep(corridor_map, LONG, vary={"learning_rate": [0.001]}), out)
    folder = out / planned.name
    parent = start(out, tmp_path / "log")
    wait_for(lambda: last_step(folder) >= 200)
    os.kill(parent.pid, how)
    code = parent.wait(60)
    said = (tmp_path / "log").read_text()
    if how == signal.SIGINT:
        assert code == 1 and "0 of 1 runs are done; all is saved, the same command continues" in said
        assert "Traceback" not in said
        assert saved_step(folder) == last_step(folder)
    seen, executor = Seen(), Local(out, 1, each=1)
    outcomes = run_all([planned], out, executor, seen)  # waits for the process that still saves
    executor.close()
    assert outcomes[planned.name].state == DONE
    assert same_results(by_hand[0.001], folder)


def test_stopping_here_lets_the_processes_save(tmp_path, corridor_map):
    (planned,) = begun(tiny_sweep(corridor_map, LONG, vary={"learning_rate": [0.001]}), tmp_path)
    executor, seen = Local(tmp_path, 1, each=1), Seen()

    def update(board):
        if last_step(tmp_path / planned.name) >= 100:
            raise KeyboardInterrupt

    seen.update = update
    with pytest.raises(Stopped, match="0 of 1 runs are done"):
        run_all([planned], tmp_path, executor, seen)
    executor.close()
    assert 100 <= saved_step(tmp_path / planned.name) < 1200


class Here:
    """An executor in this process."""

    def __init__(self, jobs):
        self.jobs, self.works = jobs, []

    def start(self, works):
        self.works = list(works)

    def finished(self, seconds):
        work = self.works.pop()
        finish(self.jobs[work.name], Path(work.folder), until=work.until)
        return [(work.name, Outcome(DONE))]

    def stop(self): ...

    def close(self): ...


def test_successive_halving_stops_the_worst_early_and_is_the_same_again(tmp_path, corridor_map):
    sweep = tiny_sweep(corridor_map, halving=2, metric="return")
    planned = begun(sweep, tmp_path)
    executor, seen = Here({one.name: one.job for one in planned}), Seen()
    outcomes = run_sweep(sweep, planned, tmp_path, executor, seen)
    reached = {one.name: saved_step(tmp_path / one.name) for one in planned}
    assert sorted(reached.values()) == [80, 160]
    assert sum(outcome.reason == "stopped early at step 80" for outcome in outcomes.values()) == 1
    assert seen.boards[-1].done == 1 and seen.boards[-1].failed == 0
    count = len(seen.ends)
    assert run_sweep(sweep, planned, tmp_path, executor, seen) == outcomes and len(seen.ends) == count


def test_processes_divide_the_cores(tmp_path, monkeypatch):
    monkeypatch.setattr("safedsr.sweep.local.cores", lambda: 8)
    monkeypatch.setattr("safedsr.sweep.local.gpus_here", lambda: [])
    for count, workers, each, expected in (
        (20, None, None, (8, 1)),
        (2, None, None, (2, 4)),
        (20, 3, None, (3, 2)),
        (20, None, 4, (2, 4)),
    ):
        executor = Local(tmp_path, count, workers, each)
        assert (executor.workers, executor.cores) == expected
        executor.close()
    monkeypatch.setattr("safedsr.sweep.local.gpus_here", lambda: [("0", 1), ("1", 1)])
    executor = Local(tmp_path, 20)
    assert (executor.workers, executor.cores) == (2, 4)
    assert [executor._slots.get() for _ in range(2)] == [{"CUDA_VISIBLE_DEVICES": one} for one in "01"]
    executor.close()
    assert memory_each(2) == pytest.approx(0.7)
    executor = Local(tmp_path, 20, workers=4)
    slots = [executor._slots.get() for _ in range(4)]
    assert [slot["CUDA_VISIBLE_DEVICES"] for slot in slots] == ["0", "1", "0", "1"]
    assert {slot["XLA_PYTHON_CLIENT_MEM_FRACTION"] for slot in slots} == {"0.375"}  # two processes on each GPU
    executor.close()
    assert memory_each(4) == pytest.approx(0.35)


def test_a_process_uses_the_cores_that_it_is_given(tmp_path):
    code = "from safedsr.engine.lanes import cores; print(cores())"
    env = {**os.environ, "SAFEDSR_CORES": "1"}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout == "1\n"
