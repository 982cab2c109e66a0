"""Many tasks in a row: our agents beside SFT-CoP's."""

import csv
from functools import cache

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import Summary
from safedsr.transfer.summary import SPEED, Course, read_courses

LONGER = ("41", "88")  # tasks in a row of the agents before the last changes


@cache
def _courses(tasks: str) -> dict[str, Course]:
    """The agents by name: those of today for the first tasks, those before the last changes for more of them."""
    folder = sources.RESULTS / "transfer"
    folder = folder / "longer" if tasks in LONGER else folder
    return {course.agent: course for course in read_courses([folder], int(tasks))}


def _cell(found: Summary, digits: int) -> str:
    middle, low, high = (formats.fixed(x, digits) for x in (found.iqm, found.low, found.high))
    return f"{middle} ({low} … {high})"


@text
def transfer(tasks: str) -> str:
    """Reward and trap entries a task, in training and at ε = 0: IQM over trials and its 95 % interval."""
    head = ["agent", "trials × tasks", "reward", "trap entries", "reward, ε = 0", "trap entries, ε = 0", "goals, ε = 0"]
    lines = []
    for course in _courses(tasks).values():
        shown = [_cell(course.summary(name), 0) for name in ("reward", "traps")]
        shown += [_cell(course.summary(name), 2) for name in ("greedy_reward", "greedy_traps", "greedy_goal")]
        lines.append([course.name, f"{len(course.trials)} × {tasks}", *shown])
    return formats.table(head, lines)


@text
def transfer_ratio(agent: str, other: str, what: str, tasks: str) -> str:
    """How many times as much of something ("reward", "traps") one agent has as another, by their IQM."""
    both = [_courses(tasks)[name].summary(what).iqm for name in (agent, other)]
    return formats.factor(both[0] / both[1])


@cache
def _seconds() -> dict[str, float]:
    with (sources.RESULTS / "transfer" / SPEED).open(newline="") as file:
        return {row["what"]: float(row["seconds"]) for row in csv.DictReader(file)}


@text
def transfer_seconds(what: str, digits: str) -> str:
    """Seconds for a task of one trial."""
    return formats.fixed(_seconds()[what], int(digits))


@text
def transfer_faster(theirs: str, ours: str) -> str:
    """How many times as long a task takes in SFT-CoP's program as in ours."""
    return formats.factor(_seconds()[theirs] / _seconds()[ours])
