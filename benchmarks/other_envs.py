"""How fast is safedsr in environments of others? Every line is a ratio, measured side by side in one run.

    python benchmarks/other_envs.py
    python benchmarks/other_envs.py --rows 1 4 --quick --venvs /tmp/bench --json speed.json

1. SafeDQN in Gymnasium's CartPole through the host loop, one seed, beside DQN of Stable-Baselines3.
2. SafeDQN in gymnax' CartPole, ten seeds on all cores, beside Stable-Baselines3 with a process for each core.
3. PPO-Lag in gymnax' CartPole beside PPO of rejax, which has no costs.
4. The host loop with a learner that does nothing, beside the vector environments of Gymnasium with random actions.

Every side is a process that has compiled and warmed up before. The sides take turns of a few seconds; the ratio of a
round is our steps per second divided by those beside it, and a line shows the median and the range of all rounds.
With --processor-time, seconds are those of the processor, which other programs on the machine hardly change; rows whose
sides are several processes are left out then. PyTorch has its own number of threads or one, whichever is faster.
Stable-Baselines3 and rejax are installed into virtual environments of their own; rows 2 and 3 run in that of rejax on
both sides, with the same JAX.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from other_envs_common import PROCESSOR_TIME
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
PACKAGES = {  # what is installed into each environment, in this order
    "sb3": [["torch==2.13.0"], ["stable-baselines3"]],
    "rejax": [
        ["rejax", "gymnax<1", "six"],
        ["equinox", "optax", "tyro", "rich", "scipy", "pyarrow", "safetensors", "cloudpickle", "gymnasium>=1.1"],
    ],
}
SEEDS, COPIES, MANY = 10, 4, 32  # COPIES: as many as a training with an update every fourth step has
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
Words = list[str]


class Places(NamedTuple):
    """Where things are."""

    venvs: Path  # the virtual environments of others
    source: Path  # the package safedsr


class Worker:
    """A process of one of the scripts beside this one."""

    def __init__(self, python: Path, source: Path, script: str, words: Sequence[str]) -> None:
        path = os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
        command = [str(python), str(HERE / script), *words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment, text=True, **pipes)  # type: ignore[call-overload]
        self.what = " ".join([script, *words])

    def answer(self) -> dict[str, float]:
        """The next numbers that it says."""
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise SystemExit(f"{self.what} has ended: see its message above")
        return json.loads(line) if line.startswith("{") else self.answer()

    def go(self, seconds: float) -> None:
        """Let it work; `answer` tells the result."""
        assert self.process.stdin
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """End it: it ends at the end of its input."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Side:
    """One side of a comparison: processes that work at the same time."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = workers
        self.start = max(worker.answer()["start"] for worker in workers)  # seconds: imports, compiling, first steps

    def turn(self, seconds: float) -> float:
        """Steps per second of all processes."""
        for worker in self.workers:
            worker.go(seconds)
        return sum(told["steps"] / told["seconds"] for told in [worker.answer() for worker in self.workers])

    def stop(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.stop()


class Line(NamedTuple):
    """A comparison: names of two sides, and the ratio that is expected."""

    ours: str
    beside: str
    expected: float | None


class Row(NamedTuple):
    """Sides that take turns, and the lines that are made of them."""

    what: str
    sides: Mapping[str, list[list[Words]]]  # name -> choices of [interpreter, script, words …] of each process
    lines: Sequence[Line]


def ours(python: str, *words: Any) -> list[list[Words]]:
    """A side of one process of ours."""
    return [[[python, "other_envs_ours.py", *map(str, words)]]]


def theirs(python: str, *words: Any) -> list[list[Words]]:
    """A side of one process beside ours."""
    return [[[python, "other_envs_theirs.py", *map(str, words)]]]


def sb3(copies: int, processes: int = 1) -> list[list[Words]]:
    """A side of Stable-Baselines3: with PyTorch's own number of threads, or with one."""
    return [
        [theirs("sb3", "sb3", "--copies", copies, "--threads", threads, "--seed", n)[0][0] for n in range(processes)]
        for threads in (0, 1)
    ]


def waiting(seconds: float, processes: int = 0) -> Words:
    """The environment that waits."""
    return ["--copies", str(MANY), "--wait", str(seconds), "--processes", str(processes)]


def make_rows() -> dict[int, Row]:
    """All comparisons."""
    default = f"safedsr, {COPIES} copies"
    one, several = "SB3, 1 environment", f"SB3, {COPIES} copies"
    pairs, pairs_several = f"SB3, {CORES} processes", f"SB3, {CORES} processes, {COPIES} copies"
    sync, own = "SyncVectorEnv", "safedsr"
    return {
        1: Row(
            "SafeDQN, CartPole of Gymnasium, 1 seed",
            {
                default: ours("here", "host", "--copies", COPIES),
                one: sb3(1),
                several: sb3(COPIES),
                "safedsr, 1 copy": ours("here", "host", "--copies", 1),
            },
            [Line(default, one, 3), Line(default, several, 3), Line("safedsr, 1 copy", one, None)],
        ),
        2: Row(
            "SafeDQN, CartPole of gymnax, all cores",
            {
                f"safedsr, {SEEDS} seeds": ours("rejax", "compiled", "--seeds", SEEDS),
                pairs: sb3(1, CORES),
                pairs_several: sb3(COPIES, CORES),
            },
            [Line(f"safedsr, {SEEDS} seeds", name, 10) for name in (pairs, pairs_several)],
        ),
        3: Row(
            "PPO-Lag, CartPole of gymnax, 1 seed",
            {
                "PPO-Lag": ours("rejax", "ppo"),
                "rejax PPO, 1 environment": theirs("rejax", "rejax", "--copies", 1),
                "rejax PPO, 16 environments": theirs("rejax", "rejax", "--copies", 16),
            },
            [
                Line("PPO-Lag", "rejax PPO, 1 environment", 0.8),
                Line("PPO-Lag", "rejax PPO, 16 environments", None),
            ],
        ),
        4: Row(
            f"nothing learns, {MANY} copies, steps of 10 µs",
            {own: ours("here", "idle", *waiting(1e-5)), sync: theirs("here", "vector", *waiting(1e-5))},
            [Line(own, sync, 0.7)],
        ),
        5: Row(
            f"nothing learns, {MANY} copies, steps of 1 ms",
            {
                own: ours("here", "idle", *waiting(1e-3)),
                sync: theirs("here", "vector", *waiting(1e-3)),
                f"safedsr, {CORES} processes": ours("here", "idle", *waiting(1e-3, CORES)),
                f"safedsr, {MANY} processes": ours("here", "idle", *waiting(1e-3, MANY)),
                f"AsyncVectorEnv, {MANY} processes": theirs("here", "vector", *waiting(1e-3, MANY)),
            },
            [
                Line(own, sync, 0.95),
                Line(f"safedsr, {MANY} processes", f"AsyncVectorEnv, {MANY} processes", 0.95),
                Line(f"safedsr, {CORES} processes", f"AsyncVectorEnv, {MANY} processes", None),
            ],
        ),
    }


PARTS = {1: [1], 2: [2], 3: [3], 4: [4, 5]}  # the rows of the command line
SINGLE = (1, 3, 4)  # every side is one process


def interpreter(name: str, folder: Path) -> Path:
    """The Python of an environment, which is made if it is missing."""
    if name == "here":
        return Path(sys.executable)
    home = folder / name
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        print(f"installing {name} into {home}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        for packages in PACKAGES[name]:
            subprocess.run([str(python), "-m", "pip", "install", "-qq", *packages], check=True)
        (home / "ready").touch()
    return python


def start(choices: list[list[Words]], places: Places, seconds: float) -> Side:
    """The side of the choice that is fastest in a first turn; the others are stopped."""
    sides = [
        Side(
            [
                Worker(interpreter(python, places.venvs), places.source, script, words)
                for python, script, *words in choice
            ]
        )
        for choice in choices
    ]
    if len(sides) == 1:
        return sides[0]
    speeds = [max(pair) for pair in zip(*[[side.turn(seconds) for side in sides] for _ in range(2)], strict=True)]
    best = sides[speeds.index(max(speeds))]
    for side in sides:
        if side is not best:
            side.stop()
    return best


def measure(row: Row, places: Places, rounds: int, seconds: float) -> dict[str, Any]:
    """Steps per second of each side in each round, and the seconds of its start."""
    sides = {name: start(choices, places, seconds) for name, choices in row.sides.items()}
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in sides if number % 2 else reversed(sides):
            speeds[name].append(sides[name].turn(seconds))
    for side in sides.values():
        side.stop()
    return {"speeds": speeds, "starts": {name: side.start for name, side in sides.items()}}


def compare(row: Row, found: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of a row: our speed divided by that beside it, round by round."""
    lines = []
    for line in row.lines:
        mine, other = (found["speeds"][name] for name in (line.ours, line.beside))
        ratios = [a / b for a, b in zip(mine, other, strict=True)]
        lines.append(
            {
                "what": row.what,
                "ours": line.ours,
                "beside": line.beside,
                "our steps/s": median(mine),
                "steps/s beside": median(other),
                "ratio": median(ratios),
                "range": [min(ratios), max(ratios)],
                "expected": line.expected,
                "our start": found["starts"][line.ours],
                "start beside": found["starts"][line.beside],
            }
        )
    return lines


def show(lines: Sequence[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table(title="steps per second, ours divided by those beside us; in brackets the seconds of the start")
    for name in ("what", "ours", "beside it", "ratio: median (range)", "expected"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for line in lines:
        low, high = line["range"]
        table.add_row(
            line["what"],
            f"{line['ours']}: {line['our steps/s']:,.0f} ({line['our start']:.0f} s)",
            f"{line['beside']}: {line['steps/s beside']:,.0f} ({line['start beside']:.0f} s)",
            f"{line['ratio']:.2f} ({low:.2f} – {high:.2f})",
            "" if line["expected"] is None else f"≥ {line['expected']:g}",
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", choices=PARTS, default=list(PARTS), help="which comparisons")
    parser.add_argument("--quick", action="store_true", help="three short rounds: does it work?")
    default = Path("~/.cache/safedsr-bench").expanduser()
    parser.add_argument("--processor-time", action="store_true", help="for a busy machine; rows 1, 3 and 4")
    parser.add_argument("--seconds", type=float, help="of a turn")
    parser.add_argument("--venvs", type=Path, default=default, help="folder of the virtual environments")
    parser.add_argument("--source", type=Path, default=HERE.parent / "src", help="src folder of another version")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    options = parser.parse_args()
    places = Places(options.venvs, options.source)
    rounds, seconds = (3, 1.0) if options.quick else (9, 4.0)
    seconds = options.seconds or seconds
    rows, lines, found = make_rows(), [], {}
    numbers = [part for row in options.rows for part in PARTS[row]]
    if options.processor_time:
        os.environ[PROCESSOR_TIME] = "1"  # of the workers
        numbers = [number for number in numbers if number in SINGLE]
    for number in numbers:
        row = rows[number]
        found[row.what] = measure(row, places, rounds, seconds)
        lines += compare(row, found[row.what])
        show(lines[-len(row.lines) :])
    if len(options.rows) > 1:
        show(lines)
    if options.json:
        options.json.write_text(json.dumps({"lines": lines, "rounds": found}, indent=2))


if __name__ == "__main__":
    main()
