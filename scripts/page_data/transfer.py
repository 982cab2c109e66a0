"""Many tasks in a row: our agents beside SFT-CoP's."""

from functools import cache

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import Summary
from safedsr.transfer.summary import Course, read_courses


@cache
def _courses() -> dict[str, Course]:
    return {course.agent: course for course in read_courses([sources.RESULTS / "transfer"])}


def _cell(found: Summary, digits: int) -> str:
    middle, low, high = (formats.fixed(x, digits) for x in (found.iqm, found.low, found.high))
    return f"{middle} ({low} … {high})"


@text
def transfer() -> str:
    """Reward and trap entries a task, in training and at ε = 0: IQM over trials and its 95 % interval."""
    head = ["agent", "trials × tasks", "reward", "trap entries", "reward, ε = 0", "trap entries, ε = 0", "goals, ε = 0"]
    lines = []
    for course in _courses().values():
        size = f"{len(course.trials)} × {course.values['reward'].shape[1]}"
        shown = [_cell(course.summary(name), 0) for name in ("reward", "traps")]
        shown += [_cell(course.summary(name), 2) for name in ("greedy_reward", "greedy_traps", "greedy_goal")]
        lines.append([course.name, size, *shown])
    return formats.table(head, lines)


@text
def transfer_ratio(agent: str, other: str, what: str) -> str:
    """How many times as much of something ("reward", "traps") one agent has as another, by their IQM."""
    both = [_courses()[name].summary(what).iqm for name in (agent, other)]
    return formats.factor(both[0] / both[1])


@text
def transfer_tasks() -> str:
    """The number of tasks in a row that all agents of the table have finished."""
    return str(min(course.values["reward"].shape[1] for course in _courses().values()))
