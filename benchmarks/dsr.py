"""How fast SafeDSR learns: beside a plain PyTorch loop, beside bare matrix products, and as its work grows.

Every line of the first table compares two things that took turns in one process; the best turn counts, and a turn ends
when its results are there. What runs on one core is measured in processor time. PyTorch is left out where it is not
installed (`pip install safedsr[bench]`).
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dsr_parts import LEAST_FLOP, STARTS
from rich.console import Console
from rich.table import Table
from timing import interleave, slope

from safedsr.engine.lanes import cores
from safedsr.runs.config import TrainConfig

HERE = Path(__file__).parent
ONE_CORE = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
Line = tuple[str, str, str, str, str]  # what, ours, what is beside it, ratio, wanted


def measure(name: str, quick: bool, one_core: bool = False) -> dict[str, Any]:
    """A measurement in a process of its own, on one core or on all."""
    command = [sys.executable, str(HERE / "dsr_parts.py"), name, *(["--quick"] if quick else [])]
    pin = (lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})) if one_core else None
    environment = {**os.environ, **(ONE_CORE if one_core else {})}
    done = subprocess.run(command, env=environment, preexec_fn=pin, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def core_lines(found: dict[str, Any]) -> list[Line]:
    """An update on one core."""
    lines = []
    for phase, when, wanted in (("features", "before", 3.5), ("frozen", "after", 3.0)):
        ours, plain = found[phase], found.get(f"torch_{phase}")
        beside = (f"PyTorch {plain:.2f} ms", f"{plain / ours:.1f} ×") if plain else ("–", "–")
        lines.append((f"update {when} t_freeze, one core", f"{ours:.2f} ms", *beside, f"≥ {wanted:g} ×"))
    speed, library = (LEAST_FLOP / found[name] / 1e6 for name in ("frozen", "sgemm"))
    title = f"its least {LEAST_FLOP / 1e6:.0f} MFLOP, one core"
    share = f"{100 * speed / library:.0f} %"
    return [*lines, (title, f"{speed:.0f} GFLOP/s", f"sgemm {library:.0f} GFLOP/s", share, "≥ 60 %")]


def machine_lines(found: dict[str, Any]) -> list[Line]:
    """Ten seeds on the whole machine: each phase, and a training that has all of them."""
    steps = TrainConfig().steps
    ends = [*list(STARTS.values())[1:], steps]
    lengths = {phase: end - start for (phase, start), end in zip(STARTS.items(), ends, strict=True)}
    for side in ("", "torch_"):
        if side + "frozen" in found:
            found[side + "all"] = steps / sum(length / found[side + phase] for phase, length in lengths.items())
    titles = {"features": "10 seeds before t_freeze", "frozen": "10 seeds after it", "all": f"10 seeds, {steps} steps"}
    lines = []
    for phase, title in titles.items():
        ours, plain = found[phase], found.get(f"torch_{phase}")
        beside = (f"PyTorch {plain:,.0f} steps/s", f"{ours / plain:.1f} ×") if plain else ("–", "–")
        wanted = "≥ 4 ×" if phase == "all" else ""
        lines.append((f"{title}, {cores()} cores", f"{ours:,.0f} steps/s", *beside, wanted))
    return lines


def start_lines(quick: bool) -> list[Line]:
    """What it takes to start."""
    python = sys.executable
    commands = {
        "pass": [python, "-c", "pass"],
        "import safedsr": [python, "-c", "import safedsr"],
        "safedsr --help": [python, "-m", "safedsr.cli", "--help"],
    }
    works = {
        name: lambda command=command: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        for name, command in commands.items()
    }
    best = interleave(works, 2 if quick else 20)
    bare = best.pop("pass")
    beside, wanted = f"python -c pass {1e3 * bare:.0f} ms", {"import safedsr": "≤ 3 ×", "safedsr --help": ""}
    return [
        (name, f"{1e3 * seconds:.0f} ms", beside, f"{seconds / bare:.1f} ×", wanted[name])
        for name, seconds in best.items()
    ]


def show_work(found: dict[str, list[tuple[float, float]]]) -> Table:
    """Cost against work, with the power it grows by."""
    table = Table(
        "", "amount: ms a step of all seeds", "time ~ amount^…", title="cost against work, after t_freeze, one core"
    )
    for name, points in found.items():
        amounts, times = map(list, zip(*points, strict=True))
        cells = "   ".join(f"{amount:g}: {time:.2f}" for amount, time in points)
        table.add_row(name, cells, f"{slope(amounts, times):.2f}")
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Only to see that it runs; its figures mean nothing.")
    quick = parser.parse_args().quick
    peak = measure("memory", quick)["peak"]
    lines = [
        *core_lines(measure("core", quick, one_core=True)),
        *machine_lines(measure("machine", quick)),
        ("peak memory of 10 seeds", f"{peak:.2f} GiB", "–", "–", "≤ 1.5 GiB"),
        *start_lines(quick),
    ]
    table = Table("", "ours", "beside it", "ratio", "wanted", title="SafeDSR")
    for line in lines:
        table.add_row(*line)
    Console().print(table)
    Console().print(show_work(measure("work", quick, one_core=True)))


if __name__ == "__main__":
    main()
