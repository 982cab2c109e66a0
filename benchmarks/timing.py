"""Timing side by side: what is compared takes turns, and the best of several turns counts.

On one core the processor's time is the better clock: it is the time that a core to itself would have taken, whoever
else is on it. A clock on the wall favours short turns, which slip through between those of others.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def interleave(
    works: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The best seconds of each, after a first turn that warms up; a work has to wait for its own result."""
    best = dict.fromkeys(works, float("inf"))
    for turn in range(repeats + 1):
        for name, work in works.items():
            began = clock()
            work()
            if turn:
                best[name] = min(best[name], clock() - began)
    return best


def slope(amounts: list[float], seconds: list[float]) -> float:
    """The power of the amount of work that time grows with: 1 is linear."""
    return float(np.polyfit(np.log(amounts), np.log(seconds), 1)[0])


def as_at(state: Any, step: int) -> Any:
    """A program's state with as many rows in its ring as at that step, most of them empty, if it never went there."""
    count = state.agent.count
    return state._replace(agent=state.agent._replace(count=count - count + step))
