"""Progress of a training run, for displays."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """Progress after a chunk."""

    step: int
    steps: int
    count: int  # steps of the chunk
    goal_rate: float  # share of the chunk's episodes that reached the goal
    safe_goal_rate: float  # share that reached the goal within every budget
    lam: float  # mean multiplier
    lanes: int  # seeds × tasks trained together
    ret: float | None = None  # mean return of the chunk's episodes, if it is what counts
    cost: tuple[float, ...] | None = None  # mean of each cost, if budgets are for means


Show = Callable[[Progress], None]
ShowJob = Callable[[str, Progress, float], None]  # the job's title, its progress, the share of all work that is done


class Stopwatch:
    """Seconds since the start, and seconds per step of each chunk."""

    def __init__(self) -> None:
        self._began = self._before = time.monotonic()
        self.paces: list[float] = []  # seconds per step; the first chunk of a phase also compiles

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def lap(self, count: int) -> float:
        """Seconds per step of a chunk of `count` steps that has just ended."""
        now = time.monotonic()
        self.paces.append((now - self._before) / count)
        self._before = now
        return self.paces[-1]
