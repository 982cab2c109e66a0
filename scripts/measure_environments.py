"""Measure the examples in environments of others: ten seeds that had no part in any choice.

    pip install "safedsr[envs]" gymnax six
    python scripts/measure_environments.py --out runs/measured --at-once 4 [--minutes 60]

Each job is one call of `examples/measure.py`: all seeds of an algorithm in an environment, on an accelerator if there
is one. Finished parts are skipped, so the same command continues. All lines so far are written to measured.csv in the
folder --out; results/environments/measured.csv is a copy of it.
"""

import argparse
import csv
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEEDS = range(50, 60)
GRIDS = ("minigrid-lava", "resource-gathering", "four-room", "sft-cop-maze")
CARTPOLE = ("cartpole", "cartpole-gymnax")
STAGES = ("trained", "changed", "adapted", "remembered", "continued")
SLOW = {"highway": range(50, 55)}  # fewer seeds
JOBS: list[tuple[str, str]] = [  # the most important first
    ("lunar-lander", "safedqn"),
    *itertools.product((*CARTPOLE, *GRIDS, "highway", "lunar-lander"), ("safedsr-plus",)),
    *itertools.product((*CARTPOLE, *GRIDS, "highway"), ("safedqn",)),
    *itertools.product((*CARTPOLE, "lunar-lander"), ("ppo-lag",)),
    *itertools.product(CARTPOLE, ("cpo",)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="jobs, each on one core")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="jobs that run longer are stopped then")
    args = parser.parse_args()
    end, waiting = time.monotonic() + 60 * args.minutes, [*JOBS]
    running: dict[subprocess.Popen[bytes], str] = {}
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < args.at_once:
            job = waiting.pop(0)
            running[start(args.out, *job)] = " ".join(job)
        time.sleep(1)
        for process in [process for process in running if process.poll() is not None]:
            print(f"{running.pop(process)}: exit code {process.returncode}", flush=True)
            collect(args.out)
    for process in running:
        process.terminate()
    collect(args.out)
    print(f"{len(waiting) + len(running)} jobs are left; the same command continues")


def start(out: Path, environment: str, algorithm: str) -> "subprocess.Popen[bytes]":
    """Start a job; its output goes to a log beside its results."""
    folder = out / environment
    folder.mkdir(parents=True, exist_ok=True)
    one_core = {"SAFEDSR_CORES": "1", "OMP_NUM_THREADS": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
    seeds = map(str, SLOW.get(environment, SEEDS))
    command = [sys.executable, str(ROOT / "examples" / "measure.py"), environment, algorithm, "--seeds", *seeds]
    with (folder / f"{algorithm}.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--out", str(folder)], stdout=log, stderr=log, env={**os.environ, **one_core, **flags}
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
