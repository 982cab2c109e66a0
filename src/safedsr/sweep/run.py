"""Run a sweep: skip what is done, submit the rest, watch the run folders, and stop early what is not promising."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from safedsr.engine.train import Stopped
from safedsr.runs.progress import FILE as PROGRESS
from safedsr.sweep.base import Executor
from safedsr.sweep.finish import saved_step, standing
from safedsr.sweep.plan import Planned, Sweep
from safedsr.sweep.ranking import rank
from safedsr.sweep.worker import DONE, FAILED, STOPPED, Outcome, Work

TICK = 0.5  # seconds between two looks at the run folders
LOOKING = 0.05  # of the time at most, on a slow shared disk
TAIL = 16_384  # bytes at the end of progress.csv that contain a whole row


class Board(NamedTuple):
    """How far a sweep is."""

    total: int
    done: int
    failed: int
    running: list[tuple[str, int, int]]  # name, step, steps
    rate: float  # environment steps of all lanes a second, since the start
    left: float | None  # estimated seconds; None before it is known
    seconds: float

    @property
    def waiting(self) -> int:
        """The number of runs that have not begun."""
        return self.total - self.done - self.failed - len(self.running)


class Watcher(Protocol):
    """Shows what happens."""

    def ended(self, name: str, outcome: Outcome, seconds: float) -> None:
        """A run has ended."""
        ...

    def update(self, board: Board) -> None:
        """Time has passed."""
        ...


def run_sweep(
    sweep: Sweep, planned: Sequence[Planned], out: Path, executor: Executor, watcher: Watcher
) -> dict[str, Outcome]:
    """Finish the runs of a sweep; with `halving`, only the best part of the configurations goes on after each rung."""
    outcomes: dict[str, Outcome] = {}
    alive = list(planned)
    for until, keep in rungs(sweep, planned):
        outcomes |= run_all(alive, out, executor, watcher, sweep.env, until)
        failed = {one.configuration for one in alive if outcomes[one.name].state == FAILED}
        there = {one.configuration for one in alive} - failed
        best = [one for one in rank(out, sweep.metric, until) if one.configuration in there]
        chosen = {one.configuration for one in best[:keep]}
        for one in alive:
            if one.configuration in there - chosen:
                outcomes[one.name] = Outcome(DONE, f"stopped early at step {until}")
        alive = [one for one in alive if one.configuration in chosen]
    return outcomes | run_all(alive, out, executor, watcher, sweep.env)


def rungs(sweep: Sweep, planned: Sequence[Planned]) -> list[tuple[int, int]]:
    """Successive halving: the steps of each rung, and the number of configurations that go on after it.

    The last part, up to the end, is no rung. A rung ends with a chunk.
    """
    if not sweep.halving:
        return []
    count = len({one.configuration for one in planned})
    steps, chunk = min(one.job.train.steps for one in planned), max(one.job.chunk for one in planned)
    number = round(math.log(count, sweep.halving) - 0.499) if count > 1 else 0
    found = []
    for i in range(number):
        until = -(-steps // sweep.halving ** (number - i) // chunk) * chunk
        count = -(-count // sweep.halving)
        if until < steps:
            found.append((until, count))
    return found


def run_all(
    planned: Sequence[Planned],
    out: Path,
    executor: Executor,
    watcher: Watcher,
    flags: Mapping[str, object] | None = None,
    until: int | None = None,
) -> dict[str, Outcome]:
    """Finish runs, or bring them to the step `until`. Failures do not stop the others; Ctrl-C saves everything."""
    works = {}
    for one in planned:
        folder = out / one.name
        found = standing(one.job, folder)
        if found != "done" and not (until and found == "begun" and saved_step(folder) >= until):
            works[one.name] = Work(one.name, str(folder.absolute()), one.job.to_dict(), dict(flags or {}), until)
    outcomes = {one.name: Outcome(DONE) for one in planned if one.name not in works}
    tracker = _Tracker(planned, out, set(works), until)
    try:
        executor.start(list(works.values()))
        while len(outcomes) < len(planned):
            for name, outcome in executor.finished(TICK):
                outcomes[name] = outcome
                watcher.ended(name, outcome, tracker.seconds())
            if tracker.due() or len(outcomes) == len(planned):
                watcher.update(tracker.board(outcomes))
    except KeyboardInterrupt:
        executor.stop()
        raise Stopped(f"stopped; {_count(planned, out)}; all is saved, the same command continues") from None
    if any(outcome.state == STOPPED for outcome in outcomes.values()):
        raise Stopped(f"runs were stopped; {_count(planned, out)}; all is saved, the same command continues")
    return outcomes


def _count(planned: Sequence[Planned], out: Path) -> str:
    done = sum(standing(one.job, out / one.name) == "done" for one in planned)
    return f"{done} of {len(planned)} runs are done"


class _Tracker:
    """Reads from the run folders how far the runs are."""

    def __init__(self, planned: Sequence[Planned], out: Path, begun: set[str], until: int | None) -> None:
        self._began, self._wall = time.monotonic(), time.time()
        self._out, self._planned = out, planned
        self._steps = {one.name: until or one.job.train.steps for one in planned}
        self._lanes = {one.name: one.job.lanes for one in planned}
        self._first = {name: last_step(out / name) for name in begun}
        self._now, self._ended = dict(self._first), set[str]()
        self._next = 0.0

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def due(self) -> bool:
        """Whether it is time to look at the run folders again."""
        return self.seconds() >= self._next

    def board(self, outcomes: Mapping[str, Outcome]) -> Board:
        began = self.seconds()
        for name in self._first.keys() - self._ended:
            self._now[name] = last_step(self._out / name)
        self._ended = self._first.keys() & outcomes.keys()
        running = [
            (name, step, self._steps[name])
            for name, step in self._now.items()
            if name not in self._ended and _touched(self._out / name, self._wall)
        ]
        gone = sum((step - self._first[name]) * self._lanes[name] for name, step in self._now.items())
        failed = {name for name, outcome in outcomes.items() if outcome.state == FAILED}
        left = sum(max(self._steps[n] - s, 0) * self._lanes[n] for n, s in self._now.items() if n not in failed)
        seconds = self.seconds()
        self._next = seconds + (seconds - began) / LOOKING
        return Board(
            total=len(self._planned),
            done=len(outcomes) - len(failed),
            failed=len(failed),
            running=running,
            rate=gone / max(seconds, 1e-9),
            left=left * seconds / gone if gone > 0 else None,
            seconds=seconds,
        )


def last_step(folder: Path) -> int:
    """The last step in progress.csv of a run folder; 0 if there is none."""
    try:
        with (folder / PROGRESS).open("rb") as file:
            file.seek(max(file.seek(0, 2) - TAIL, 0))
            lines = file.read().split(b"\n")
        return int(float(lines[-2].split(b",")[0]))  # after the last line break is a half line, or nothing
    except (OSError, ValueError, IndexError):
        return 0


def _touched(folder: Path, moment: float) -> bool:
    try:
        return (folder / PROGRESS).stat().st_mtime >= moment - 1
    except OSError:
        return False
