"""Tables of agents over tasks: ours, and those that SFT-CoP's own code wrote."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.metrics import Summary, summarize

NEEDED = ("agent", "trial", "task", "reward", "traps", "greedy_reward", "greedy_traps", "greedy_goal", "seconds")
NAMES = {
    "sftcopql": "SFT-CoP",
    "rnsfql": "SFQL",
    "rasfql": "risk-aware SFQL",
    "known": "ours, same knowledge",
    "unknown": "ours, without knowledge",
    "known-no-library": "ours, no library",
    "known-no-rehearsal": "ours, no rehearsal",
    "known-no-memory": "ours, no memory of steps",
    "known-no-memory-no-library": "ours, no memory of steps, no library",
    "known-no-foresight": "ours, ε not foreseen",
}
WITHIN, SPEED = "within.csv", "speed.csv"  # tables of other kinds in the same folder
KEPT = 10  # trap entries in 1 000 steps from which on the budget counts as kept


class Course(NamedTuple):
    """One agent in all its trials and tasks."""

    agent: str
    trials: tuple[int, ...]
    values: dict[str, np.ndarray]  # column -> [trials, tasks]; "kept": steps until the budget is kept, where known
    within: dict[str, np.ndarray]  # "reward", "traps" -> [trials, tasks, parts] sums of each 1 000 steps; may be empty

    @property
    def name(self) -> str:
        """The agent's name on pages and in figures."""
        return NAMES.get(self.agent, self.agent)

    def means(self, column: str) -> np.ndarray:
        """The mean over all tasks, for each trial."""
        return self.values[column].mean(1)

    def summary(self, column: str) -> Summary:
        """Statistics of the mean over all tasks; of "kept" over all but the first, which has nothing to transfer."""
        if column == "kept":
            return summarize(self.values[column][:, 1:].mean(1))
        return summarize(self.means(column))


def read_courses(paths: Iterable[Path], tasks: int | None = None) -> list[Course]:
    """The agents in csv files, or in the csv files of folders; of each only the tasks that all its trials have.

    With a number of tasks: these, of the trials that have them; agents without such a trial are left out.
    """
    files = [file for path in paths for file in (sorted(path.glob("*.csv")) if path.is_dir() else [path])]
    files = [file for file in files if file.name not in (WITHIN, SPEED)]
    rows: dict[str, list[dict[str, str]]] = {}
    sources: dict[tuple[str, str], Path] = {}
    for file in files:
        try:
            with file.open(newline="") as opened:
                found = list(csv.DictReader(opened))
        except OSError as error:
            raise UserError(f"cannot read {file}: {error.strerror}") from None
        except (UnicodeDecodeError, csv.Error):
            raise UserError(f"{file} is no table; give csv files that 'reproduce transfer' wrote") from None
        for row in found:
            if missing := [name for name in NEEDED if row.get(name) in (None, "")]:
                raise UserError(f"{file} has no column '{missing[0]}'; give tables that 'reproduce transfer' wrote")
            before = sources.setdefault((row["agent"], row["trial"]), file)
            if before != file:
                raise UserError(
                    f"{before} and {file} both have trial {row['trial']} of '{row['agent']}'; give one of them"
                )
            rows.setdefault(row["agent"], []).append(row)
    order = {name: n for n, name in enumerate(NAMES)}
    agents = sorted(rows, key=lambda name: order.get(name, len(order)))
    found = (_course(agent, rows[agent], tasks) for agent in agents)
    return [course for course in found if course is not None]


def _course(agent: str, rows: Sequence[dict[str, str]], wanted: int | None) -> Course | None:
    by_trial: dict[int, dict[int, dict[str, str]]] = {}
    try:
        for row in rows:
            by_trial.setdefault(int(row["trial"]), {})[int(row["task"])] = row
        return _values(agent, by_trial, wanted)
    except (KeyError, ValueError):
        raise UserError(
            f"a table of '{agent}' has a gap or no number where one is needed; its tasks are 1, 2, 3 …, and all other "
            "columns are numbers"
        ) from None


def _values(agent: str, by_trial: dict[int, dict[int, dict[str, str]]], wanted: int | None) -> Course | None:
    trials = tuple(sorted(trial for trial, found in by_trial.items() if len(found) >= (wanted or 1)))
    if not trials:
        return None
    tasks = wanted or min(len(found) for found in by_trial.values())
    columns = [name for name in NEEDED if name not in ("agent", "trial", "task")]
    values = {
        name: np.array([[float(by_trial[trial][t + 1][name]) for t in range(tasks)] for trial in trials])
        for name in columns
    }
    within = {}
    for name in ("reward", "traps"):
        key = f"{name}_every_1000"
        if key in by_trial[trials[0]][1]:
            sums = [[by_trial[trial][t + 1][key].split() for t in range(tasks)] for trial in trials]
            within[name] = np.diff(np.array(sums, float), axis=2, prepend=0.0)
    if "traps" in within:
        values["kept"] = _steps_until_kept(within["traps"])
    elif "kept" in by_trial[trials[0]][1]:
        values["kept"] = np.array([[float(by_trial[trial][t + 1]["kept"]) for t in range(tasks)] for trial in trials])
    return Course(agent, trials, values, within)


COLUMNS = (
    *("agent", "trials × tasks", "reward a task", "trap entries a task"),
    *("reward at ε = 0", "trap entries at ε = 0", "goals at ε = 0", "seconds a task"),
)


def summary_rows(courses: Sequence[Course]) -> list[tuple[str, ...]]:
    """A line an agent: means over all tasks, in training and in an episode without random actions after each task."""
    return [
        (
            course.name,
            f"{len(course.trials)} × {course.values['reward'].shape[1]}",
            *(interval(course.summary(name), 0) for name in ("reward", "traps")),
            *(interval(course.summary(name), 2) for name in ("greedy_reward", "greedy_traps", "greedy_goal")),
            f"{course.values['seconds'].mean():.2f}",
        )
        for course in courses
    ]


def interval(found: Summary, digits: int) -> str:
    """IQM over trials and its 95 % interval."""
    middle, low, high = (f"{x:,.{digits}f}".replace(",", " ") for x in (found.iqm, found.low, found.high))
    return f"{middle} ({low} … {high})"


def _steps_until_kept(traps: np.ndarray) -> np.ndarray:
    """Steps of each task until no later 1 000 steps have more than `KEPT` trap entries [trials, tasks, parts]."""
    over = traps > KEPT
    last = np.where(over.any(2), over.shape[2] - np.argmax(over[..., ::-1], 2), 0)
    return 1000.0 * last


def pack(courses: Sequence[Course], folder: Path) -> list[Path]:
    """Small tables: AGENT.csv with a row a trial and task, and within.csv with means of each 1 000 steps of a task."""
    storage.make_folder(folder)
    digits = {
        **{"reward": 2, "traps": 0, "greedy_reward": 3, "greedy_traps": 0, "greedy_goal": 0},
        **{"seconds": 2, "kept": 0},
    }
    paths, parts = [], ["agent,thousand,reward,traps"]
    for course in courses:
        columns = [name for name in digits if name in course.values]
        lines = [",".join([*NEEDED[:3], *columns])]
        for i, trial in enumerate(course.trials):
            for t in range(course.values["reward"].shape[1]):
                numbers = (f"{course.values[name][i, t]:.{digits[name]}f}" for name in columns)
                lines.append(",".join([course.agent, str(trial), str(t + 1), *numbers]))
        paths.append(folder / f"{course.agent}.csv")
        storage.write_text(paths[-1], "\n".join([*lines, ""]))
        if course.within:
            means = [course.within[name][:, 1:].mean((0, 1)) for name in ("reward", "traps")]
            parts += [f"{course.agent},{n + 1},{r:.3f},{c:.3f}" for n, (r, c) in enumerate(zip(*means, strict=True))]
    storage.write_text(folder / WITHIN, "\n".join([*parts, ""]))
    return [*paths, folder / WITHIN]
