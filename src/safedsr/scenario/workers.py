"""Processes, each with one seed of the contestants that adapt seed by seed, on a CPU core or sharing the accelerator.

Their first phase is trained here before, all seeds in one batch; the other contestants run here beside the processes.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from safedsr.errors import EnvironmentFailed
from safedsr.runs import storage
from safedsr.scenario.contestants import Contestant
from safedsr.scenario.file import Scenario
from safedsr.scenario.run import How, run

LOGS = ".logs"
ONE_CORE = {"JAX_PLATFORMS": "cpu", "SAFEDSR_CORES": "1", "NPROC": "1"}
SHARED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "SAFEDSR_CORES": "1", "NPROC": "1"}  # memory as it is needed


def run_with_workers(
    scenarios: Sequence[Scenario], contestants: Sequence[Contestant], seeds: tuple[int, ...], how: How, workers: int
) -> None:
    """Like `run`, but the contestants that adapt run in this number of processes."""
    adaptive = [one for one in contestants if one.kind == "adaptive"]
    others = [one for one in contestants if one.kind != "adaptive"]
    for scenario in scenarios:
        if adaptive:
            run([scenario], adaptive, seeds, how._replace(only_first_phase=True))  # they share it
        with ThreadPoolExecutor(workers) as pool:
            jobs = [pool.submit(_finish, scenario, adaptive, seed, how) for seed in seeds if adaptive]
            try:
                run([scenario], others, seeds, how)
            except BaseException:  # processes that run save what they have and end in their time; no more begin
                for job in jobs:
                    job.cancel()
                raise
            for job in jobs:
                job.result()
        how.timer.check()


def _finish(scenario: Scenario, contestants: Sequence[Contestant], seed: int, how: How) -> None:
    """Run one seed in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "safedsr.cli",
        "scenario",
        "run",
        scenario.source,
        *(one.name for one in contestants),
    ]
    command += ["--first-seed", str(seed), "--seeds", "1", "--matmul", how.matmul, "--out", str(how.out)]
    command += ["--quick"] if how.quick else []
    if how.timer.end is not None:
        how.timer.check()
        command += ["--seconds", str(max(int(how.timer.end - time.monotonic()), 1))]
    where = SHARED if how.share_accelerator else ONE_CORE
    log = storage.make_folder(how.out / scenario.name / LOGS) / f"{seed}.txt"
    how.say(f"{scenario.name}: seed {seed} in a process of its own; {log}")
    with log.open("w", encoding="utf-8") as file:
        ended = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | where)
    if ended.returncode:
        raise EnvironmentFailed(f"the process of seed {seed} failed: {_last_line(log)} ({log})")


def _last_line(log: Path) -> str:
    return (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
