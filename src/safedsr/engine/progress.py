"""Progress of a training run, for displays."""

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


Show = Callable[[Progress], None]
ShowJob = Callable[[str, Progress, float], None]  # the job's title, its progress, the share of all work that is done
