"""Sweeps beside the same jobs by hand, one after the other: wall time, start-up, memory of an idle Ray.

    python benchmarks/sweep.py [--quick] [--json FILE]

Ten jobs, SafeDQN in two rooms with two seeds each, of about --seconds each on all cores. "By hand" is ten times
`safedsr train`. The sweeps "one at a time" give each run all cores, too, so the time that they take longer is overhead;
the others run as they do without flags. All programs are compiled before. The policies by hand and of the sweeps "one
at a time" must be equal bit for bit. Columns: seconds on the wall; of these, training; the rest for each job, without
the start-up of the command; this start-up, measured with nothing to do; wall time compared with "by hand", with and
without the start-up.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safedsr.engine.lanes import cores
from safedsr.runs import storage
from safedsr.runs.progress import FILE as PROGRESS

CLI = (sys.executable, "-m", "safedsr.cli")
WHAT = ("--layout", "two-rooms", "--costs", "diamond")
SEEDS = 2  # of each job
TRIAL = 20_000  # steps of the run by which the speed is measured
IDLE = """
import json, os, sys, time
from pathlib import Path

def started_by(pid):
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}

def mib(pid):  # memory that is shared with others counts in parts
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024

clock = time.perf_counter
before, began = mib(os.getpid()), clock()
import ray
loaded = clock()
ray.init(num_cpus=int(sys.argv[1]), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ready = clock()
time.sleep(float(sys.argv[2]))
others = started_by(os.getpid())
memory, driver = sum(map(mib, others)), mib(os.getpid()) - before
asked = clock()
ray.shutdown()
print(json.dumps({"import": loaded - began, "start": ready - loaded, "stop": clock() - asked,
                  "processes": len(others), "MiB": memory, "MiB of the parent": driver}))
"""


class Arm(NamedTuple):
    """A way to do all jobs, and what it took."""

    name: str
    seconds: float  # on the wall
    training: float | None  # the part in which runs trained, if one run at a time does
    start: float  # the part before the first and after the last run, measured with nothing to do


def timed(words: Sequence[str], **more: str) -> float:
    """Seconds of a command, which must succeed."""
    began = time.perf_counter()
    done = subprocess.run([*CLI, *words], env=os.environ | more, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed: {done.stderr}")
    return time.perf_counter() - began


def train(out: Path, first: int, steps: int, **more: str) -> float:
    """Seconds of a job by hand."""
    seeds = ("--seeds", str(SEEDS), "--first-seed", str(first))
    return timed(["train", "safedqn", *WHAT, *seeds, "--steps", str(steps), "--out", str(out)], **more)


def trained(folder: Path) -> list[tuple[int, float]]:
    """Steps and seconds since the start of the training, of each line of progress.csv."""
    lines = (folder / PROGRESS).read_text().splitlines()[1:]
    return [(int(step), float(seconds)) for step, seconds, *_ in (line.split(",") for line in lines)]


def steps_for(seconds: float, folder: Path) -> int:
    """Steps that take about that long on all cores; what the jobs need is compiled on the way."""
    train(folder / "one", 0, TRIAL, SAFEDSR_CORES="1")
    train(folder / "all", 0, TRIAL)
    rows = trained(folder / "all")
    rate = (rows[-1][0] - rows[0][0]) / (rows[-1][1] - rows[0][1])
    chunk = rows[0][0]
    return max(round(seconds * rate / chunk), 1) * chunk


def by_hand(out: Path, jobs: int, steps: int) -> Arm:
    """All jobs, one command after the other."""
    seconds = sum(train(out / str(i), SEEDS * i, steps) for i in range(jobs))
    return Arm("by hand", seconds, sum(trained(out / str(i))[-1][1] for i in range(jobs)), 0.0)


def by_sweep(name: str, out: Path, jobs: int, steps: int, where: Sequence[str], single: bool) -> Arm:
    """All jobs as one sweep; then the same command again, which finds everything done."""
    what = ("--algos", "safedqn", *WHAT, "--seeds", str(SEEDS * jobs), "--pack", str(SEEDS))
    words = ["sweep", *what, "--set", f"steps={steps}", "--out", str(out), *where]
    seconds, start = timed(words), timed(words)
    training = sum(trained(folder)[-1][1] for folder in runs(out)) if single else None
    return Arm(name, seconds, training, start)


def runs(out: Path) -> list[Path]:
    """The run folders of a sweep, by their seeds; or of the jobs by hand."""
    parts = [path.parent for path in out.glob(f"*/{PROGRESS}")]
    return sorted(parts, key=lambda path: int(path.name.rpartition("part")[2]))


def idle_ray(seconds: float) -> dict[str, Any]:
    """Start-up and memory of a Ray that does nothing, on this computer."""
    command = [sys.executable, "-c", IDLE, str(cores()), str(seconds)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def table(arms: Sequence[Arm], jobs: int) -> str:
    """The arms beside each other."""
    hand = arms[0].seconds
    titles = {"wall": 8, "training": 10, "rest a job": 12, "start-up": 10, "by hand": 10, "without start-up": 18}
    lines = [" " * 26 + "".join(f"{title:>{width}}" for title, width in titles.items())]
    for arm in arms:
        rest = "" if arm.training is None else f"{(arm.seconds - arm.training - arm.start) / jobs:.2f} s"
        training = "" if arm.training is None else f"{arm.training:.1f} s"
        ratios = (arm.seconds / hand - 1, (arm.seconds - arm.start) / hand - 1)
        lines.append(
            f"{arm.name:26}{arm.seconds:>6.1f} s{training:>10}{rest:>12}{arm.start:>8.1f} s"
            + "".join(f"{ratio:>+{width}.1%}" for ratio, width in zip(ratios, (10, 18), strict=True))
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=9.0, help="of a job, about")
    parser.add_argument("--quick", action="store_true", help="three jobs of two seconds, to see that it works")
    parser.add_argument("--json", type=Path, help="write the numbers to this file, too")
    flags = parser.parse_args()
    jobs, seconds = (3, 2.0) if flags.quick else (flags.jobs, flags.seconds)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        steps = steps_for(seconds, folder)
        print(f"{jobs} jobs of {SEEDS} seeds with {steps} steps each, {cores()} cores", flush=True)
        everything = ("--cores", str(cores()))
        arms = [
            by_hand(folder / "hand", jobs, steps),
            by_sweep("local, one at a time", folder / "local", jobs, steps, ("--workers", "1", *everything), True),
            by_sweep("ray, one at a time", folder / "ray", jobs, steps, ("--executor", "ray", *everything), True),
            by_sweep("local, one for each core", folder / "local2", jobs, steps, (), False),
            by_sweep("ray, one for each core", folder / "ray2", jobs, steps, ("--executor", "ray"), False),
        ]
        policies = [
            [storage.read_tensors(run / "policy.safetensors")[0] for run in runs(folder / name)]
            for name in ("hand", "local", "ray")
        ]
    equal = all(
        one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)
        for others in policies[1:]
        for one, other in zip(policies[0], others, strict=True)
    )
    print(table(arms, jobs))
    idle = idle_ray(2.0 if flags.quick else 20.0)
    print(
        f"Ray: import {idle['import']:.1f} s, start {idle['start']:.1f} s, stop {idle['stop']:.1f} s; idle: "
        f"{idle['MiB']:.0f} MiB in {idle['processes']} processes, and {idle['MiB of the parent']:.0f} MiB in its parent"
    )
    if flags.json:
        found = {"jobs": jobs, "steps": steps, "cores": cores(), "arms": [arm._asdict() for arm in arms], "ray": idle}
        flags.json.write_text(json.dumps(found, indent=2) + "\n")
    if not equal:
        sys.exit("the policies of the arms differ")


if __name__ == "__main__":
    main()
