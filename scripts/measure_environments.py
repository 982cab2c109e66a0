"""Measure the examples in environments of others: ten seeds that had no part in any choice, each on one core.

    pip install "safedsr[envs]" gymnax six
    python scripts/measure_environments.py --out runs/measured --at-once 14 [--minutes 60]

Each job is one seed of `examples/measure.py`. Finished jobs are skipped, so the same command continues. All lines so
far are written to measured.csv in the folder --out; results/environments/measured.csv is a copy of it.
"""

import argparse
import csv
import itertools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEEDS = range(10, 20)
GRIDS = ("minigrid-lava", "resource-gathering", "four-room", "sft-cop-maze")
CARTPOLE = ("cartpole", "cartpole-gymnax")
STAGES = ("trained", "changed", "adapted")
JOBS: list[tuple[str, str]] = [  # the most important first
    ("lunar-lander", "safedqn"),
    *itertools.product((*GRIDS, *CARTPOLE, "highway"), ("safedsr-plus",)),
    *itertools.product((*CARTPOLE, *GRIDS), ("safedqn",)),
    *itertools.product(CARTPOLE, ("ppo-lag", "cpo")),
    ("lunar-lander", "safedsr-plus"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="jobs that run longer are stopped then")
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    waiting = [(*job, seed) for job in JOBS for seed in SEEDS if not result_of(args.out, *job, seed).exists()]
    running: dict[subprocess.Popen[bytes], str] = {}
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < args.at_once:
            job = waiting.pop(0)
            running[start(args.out, *job)] = " ".join(map(str, job))
        time.sleep(1)
        for process in [process for process in running if process.poll() is not None]:
            print(f"{running.pop(process)}: exit code {process.returncode}", flush=True)
            collect(args.out)
    for process in running:
        process.terminate()
    print(f"{len(waiting) + len(running)} jobs are left; the same command continues")


def result_of(out: Path, environment: str, algorithm: str, seed: int) -> Path:
    """The file that a finished job has written."""
    return out / environment / f"{algorithm}-{seed}.csv"


def start(out: Path, environment: str, algorithm: str, seed: int) -> "subprocess.Popen[bytes]":
    """Start a job; its output goes to a log beside its result."""
    result = result_of(out, environment, algorithm, seed)
    result.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(result.with_suffix(""), ignore_errors=True)  # the run of a job that was stopped
    one_core = {"JAX_PLATFORMS": "cpu", "SAFEDSR_CORES": "1", "OMP_NUM_THREADS": "1"}
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
    command = [sys.executable, str(ROOT / "examples" / "measure.py"), environment, algorithm, "--seeds", str(seed)]
    with result.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--out", str(result.parent)], stdout=log, stderr=log, env={**os.environ, **one_core, **flags}
        )


def collect(out: Path) -> None:
    """Write the lines of all finished jobs to one file."""
    rows: list[dict[str, str]] = []
    for path in sorted(out.glob("*/*.csv")):
        with path.open(newline="") as file:
            rows += csv.DictReader(file)
    if not rows:
        return
    rows.sort(key=lambda row: (row["environment"], row["algorithm"], int(row["seed"]), STAGES.index(row["stage"])))
    with (out / "measured.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({name: short(value) for name, value in row.items()} for row in rows)


def short(value: str) -> str:
    """A number with six digits that count; other text as it is."""
    try:
        return value if "." not in value else f"{float(value):.6g}"
    except ValueError:
        return value


if __name__ == "__main__":
    main()
