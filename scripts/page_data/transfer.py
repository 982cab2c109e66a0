"""Many tasks in a row: our agents beside SFT-CoP's."""

import csv
from functools import cache

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import Summary
from safedsr.transfer.summary import KEPT, SPEED, Course, read_courses

TABLES = {
    "agents": ("sftcopql", "rnsfql", "rasfql", "known", "unknown"),
    "parts": (
        *("known", "known-no-library", "known-no-rehearsal", "known-no-foresight", "known-no-settling"),
        *("known-no-memory", "known-no-memory-no-library"),
    ),
}
MEASURES = {  # title, digits, whether more is better
    "reward": ("reward", 0, True),
    "traps": ("trap entries", 0, False),
    "greedy_reward": ("reward, ε = 0", 2, True),
    "greedy_traps": ("trap entries, ε = 0", 2, False),
    "greedy_goal": ("goals, ε = 0", 2, True),
    "kept": (f"steps until ≤ {KEPT} trap entries in 1 000", 0, False),
}


OWN = "transfer/own-tasks"  # the network, and the table on the same tasks, which are not those of SFT-CoP's file
FILE = "transfer/file-tasks"  # the network on tasks of SFT-CoP's file


@cache
def _courses(folder: str = "transfer") -> dict[str, Course]:
    """The agents by name."""
    return {course.agent: course for course in read_courses([sources.RESULTS / folder])}


def _cell(found: Summary, digits: int) -> str:
    middle, low, high = (
        formats.fixed(x, digits) if digits else formats.count(x) for x in (found.iqm, found.low, found.high)
    )
    return f"{middle} ({low} … {high})"


@text
def transfer(which: str) -> str:
    """Reward and trap entries a task, in training and at ε = 0: IQM over trials and its 95 % interval."""
    head = ["agent", "trials × tasks", *(title for title, _, _ in MEASURES.values())]
    lines = []
    for course in (_courses()[name] for name in TABLES[which] if name in _courses()):
        shown = [_cell(course.summary(name), digits) for name, (_, digits, _) in MEASURES.items()]
        lines.append([course.name, f"{len(course.trials)} × {course.values['reward'].shape[1]}", *shown])
    return formats.table(head, lines)


@text
def transfer_network() -> str:
    """The network and the table on our own tasks; and both and SFT-CoP on tasks of SFT-CoP's file."""
    whose = {"ours": (OWN, ("network", "known")), "SFT-CoP's file": (FILE, ("network", "known", "sftcopql"))}
    lines = []
    for tasks, (folder, names) in whose.items():
        for course in (_like_network(folder, name) for name in names):
            shown = [_cell(course.summary(name), digits) for name, (_, digits, _) in MEASURES.items()]
            lines.append([course.name, tasks, f"{len(course.trials)} × {course.values['reward'].shape[1]}", *shown])
    return formats.table(["agent", "tasks", "trials × tasks", *(title for title, _, _ in MEASURES.values())], lines)


def _like_network(folder: str, agent: str) -> Course:
    """An agent on the trials and tasks of the network in a folder; other agents on the file's are in `transfer`."""
    network = _courses(folder)["network"]
    found = _courses(folder).get(agent) or _courses()[agent]
    return found.only(network.trials, network.values["reward"].shape[1])


@text
def transfer_tried() -> str:
    """Settings of the network that were tried on other tasks, means over two trials and a few tasks."""
    columns = {"reward": 0, "traps": 0, "greedy_reward": 2, "greedy_traps": 2, "greedy_goal": 2}
    lines = [
        [row["changed"], row["trials"].replace("-", "–"), row["tasks"].replace("-", "–")]
        + [formats.fixed(float(row[name]), digits) for name, digits in columns.items()]
        for row in sources.rows("transfer/tried/network.csv")
    ]
    return formats.table(["settings", "trials", "tasks", *(MEASURES[name][0] for name in columns)], lines)


@text
def transfer_planned(what: str, digits: str) -> str:
    """A column of the plans over the network's memory ("planned", "network", "states", …), the mean over trials."""
    found = [float(row[what]) for row in sources.rows("transfer/planned/network.csv")]
    mean = sum(found) / len(found)
    return formats.fixed(mean, int(digits)) if int(digits) else formats.count(mean)


@text
def transfer_own(agent: str, what: str, first: str, last: str, digits: str) -> str:
    """Something ("reward", "traps", "lambda", …) on our own tasks: the mean over trials and the tasks first to last."""
    some = _courses(OWN)[agent].values[what][:, int(first) - 1 : int(last)]
    return formats.fixed(some.mean(), int(digits)) if int(digits) else formats.count(some.mean())


@text
def transfer_own_trial(agent: str, which: str, what: str) -> str:
    """Something on our own tasks in the "worst" or "best" trial of an agent: the mean over its tasks."""
    found = _courses(OWN)[agent].means(what)
    return formats.count({"worst": min, "best": max}[which](found))


@text
def transfer_network_ratio(whose: str, agent: str, other: str, what: str) -> str:
    """How many times as much of something one agent has as another, by their IQM, on the network's tasks.

    `whose` is "own" or "file": our own tasks, or those of SFT-CoP's file.
    """
    folder = {"own": OWN, "file": FILE}[whose]
    both = [_like_network(folder, name).summary(what).iqm for name in (agent, other)]
    return formats.factor(both[0] / both[1])


@text
def transfer_ratio(agent: str, other: str, what: str) -> str:
    """How many times as much of something ("reward", "traps") one agent has as another, by their IQM."""
    both = [_courses()[name].summary(what).iqm for name in (agent, other)]
    return formats.factor(both[0] / both[1])


@text
def transfer_first(agent: str, what: str) -> str:
    """Something ("reward", "traps") in the first task, the mean over trials."""
    return formats.count(_courses()[agent].values[what][:, 0].mean())


@text
def transfer_mean(agent: str, what: str, digits: str) -> str:
    """A column of an agent's table ("lambda", "reward", …), the mean over all trials and tasks."""
    return formats.fixed(_courses()[agent].values[what].mean(), int(digits))


@text
def transfer_target(agent: str, other: str) -> str:
    """What the target asks for, measure by measure: is the agent better than the other, outside both intervals?"""
    lines = []
    for name in ("reward", "traps", "greedy_reward", "greedy_traps"):
        title, digits, more = MEASURES[name]
        ours, theirs = (_courses()[one].summary(name) for one in (agent, other))
        better, worse = (
            (ours.low > theirs.high, ours.high < theirs.low)
            if more
            else (ours.high < theirs.low, ours.low > theirs.high)
        )
        verdict = "better" if better else "worse" if worse else "the intervals overlap"
        lines.append([title, _cell(theirs, digits), _cell(ours, digits), verdict])
    return formats.table(["a task", _courses()[other].name, _courses()[agent].name, "ours is"], lines)


GRID = {  # columns of library/grid.csv, their titles on the page and their digits
    "safe_goal_rate": ("safe goal rate", 3),
    "lower_bound": ("at least", 3),
    "over_budget": ("share of episodes over a budget", 3),
    "upper_bound": ("at most", 3),
    "mean_cost_diamond": ("mean cost, diamond", 2),
    "mean_cost_square": ("mean cost, square", 2),
}


@text
def library_on_grid(costs: str) -> str:
    """Each agent alone and the library of all, adapted to new costs."""
    rows = [row for row in sources.rows("library/grid.csv") if row["costs"] == costs]
    columns = {name: about for name, about in GRID.items() if rows[0][name]}
    lines = [[row["agent"], *(formats.fixed(float(row[name]), d) for name, (_, d) in columns.items())] for row in rows]
    return formats.table(["agent", *(title for title, _ in columns.values())], lines)


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
