"""What a display may want to show of a training."""

from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """What a display may want to show after a chunk."""

    step: int
    steps: int
    count: int  # steps of the chunk
    goal_rate: float  # share of the chunk's episodes that reached the goal
    safe_goal_rate: float  # and kept every budget
    lam: float  # mean multiplier
    lanes: int  # seeds and environments that walk at once


Show = Callable[[Progress], None]
ShowJob = Callable[[str, Progress, float], None]  # the job's title, its progress, the share of all work that is done
