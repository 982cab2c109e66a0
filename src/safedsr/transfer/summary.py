"""Tables of agents over tasks: ours, and those that SFT-CoP's own code wrote."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr.envs.twins.four_room import KINDS
from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.metrics import Summary, summarize
from safedsr.transfer.tasks import are_ours

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
    "known-no-settling": "ours, no passes for ε = 0",
    "network": "ours, network, same knowledge",
}
EXTRA = ("lambda",)  # columns of some tables
SHAPES = "rewards_of_shapes"  # the column of some tables that says what the task is
ROUNDED = 1e-3  # tables have rounded rewards of shapes
WITHIN, SPEED = "within.csv", "speed.csv"  # tables of other kinds in the same folder
WITHIN_NAMES = ("reward", "traps")
KEPT = 10  # trap entries in 1 000 steps; with ε = 0.12, random actions alone cause some


class Course(NamedTuple):
    """One agent in all its trials and tasks."""

    agent: str
    trials: tuple[int, ...]
    values: dict[str, np.ndarray]  # column -> [trials, tasks]; "kept": see `_steps_until_kept`, where known
    within: dict[str, np.ndarray]  # "reward", "traps" -> [trials, tasks, parts] sums of each 1 000 steps; may be empty
    shapes: np.ndarray | None = None  # [trials, tasks, kinds] rewards of the shapes, where the table has them
    packed: dict[str, np.ndarray] | None = None  # instead of `within`: [1, parts] means over trials and tasks

    @property
    def name(self) -> str:
        """The agent's name on pages and in figures."""
        return NAMES.get(self.agent, self.agent)

    def only(self, trials: Sequence[int], tasks: int) -> "Course":
        """Some trials, and the first tasks."""
        rows = [self.trials.index(trial) for trial in trials]
        values, within = (
            {name: found[rows, :tasks] for name, found in one.items()} for one in (self.values, self.within)
        )
        shapes = None if self.shapes is None else self.shapes[rows, :tasks]
        return Course(self.agent, tuple(trials), values, within, shapes)

    def parts(self, name: str) -> np.ndarray | None:
        """Sums of each 1 000 steps [trials, parts], the mean over all tasks but the first; a packed table has one row.

        The first task is left out because it has nothing to transfer; None if there is no other.
        """
        if self.within and self.values["reward"].shape[1] < 2:
            return None
        return self.within[name][:, 1:].mean(1) if self.within else (self.packed or {}).get(name)

    def means(self, column: str) -> np.ndarray:
        """The mean over all tasks, for each trial."""
        return self.values[column].mean(1)

    def summary(self, column: str) -> Summary:
        """Statistics of the mean over all tasks; of "kept", over all but the first, which has nothing to transfer."""
        if column == "kept":
            return summarize(self.values[column][:, 1:].mean(1))
        return summarize(self.means(column))


def read_courses(paths: Iterable[Path], tasks: int | None = None) -> list[Course]:
    """The agents in csv files, or in the csv files of folders; of each only the tasks that all its trials have.

    With a number of tasks: these, of the trials that have them; agents without such a trial are left out.
    """
    files = [file for path in paths for file in _tables(path)]
    rows: dict[str, list[dict[str, str]]] = {}
    sources: dict[tuple[str, str], Path] = {}
    for file in files:
        for row in read_rows(file):
            before = sources.setdefault((row["agent"], row["trial"]), file)
            if before != file:
                raise UserError(
                    f"{before} and {file} both have trial {row['trial']} of '{row['agent']}'; give one of them"
                )
            rows.setdefault(row["agent"], []).append(row)
    packed: dict[str, dict[str, np.ndarray]] = {}
    for path in paths:
        packed |= read_within(path / WITHIN)
    found = (_course(agent, rows[agent], tasks) for agent in rows)
    return in_order(course._replace(packed=packed.get(course.agent)) for course in found if course is not None)


def read_rows(file: Path, advice: str = "give tables that 'reproduce transfer' wrote") -> list[dict[str, str]]:
    """The rows of one table of agents."""
    found = _csv_rows(file, advice)
    if not found:
        raise UserError(f"{file} has no rows; {advice}")
    for row in found:
        if missing := [name for name in NEEDED if row.get(name) in (None, "")]:
            raise UserError(f"{file} has no column '{missing[0]}', or a gap in it; {advice}")
    return found


def _csv_rows(file: Path, advice: str) -> list[dict[str, str]]:
    try:
        with file.open(newline="", encoding="utf-8") as opened:
            return list(csv.DictReader(opened))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}; {advice}") from None
    except (UnicodeDecodeError, csv.Error):
        raise UserError(f"{file} is no table; {advice}") from None


def read_within(path: Path) -> dict[str, dict[str, np.ndarray]]:
    """The means of each 1 000 steps that `pack` has written, by agent."""
    if not path.is_file():
        return {}
    advice = "delete it, or pack the tables again"
    rows = _csv_rows(path, advice)
    try:
        return {
            agent: {name: _finite([[float(r[name]) for r in rows if r["agent"] == agent]]) for name in WITHIN_NAMES}
            for agent in {row["agent"]: None for row in rows}
        }
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} is damaged; {advice}") from None


def in_order(courses: Iterable[Course]) -> list[Course]:
    """The agents in the order of `NAMES`, then all others."""
    return sorted(courses, key=lambda course: _place(course.agent))


def _place(agent: str) -> int:
    return list(NAMES).index(agent) if agent in NAMES else len(NAMES)


def _tables(path: Path) -> list[Path]:
    """The tables of agents in a folder, or the one table."""
    if not path.is_dir():
        return [path]
    found = [file for file in sorted(path.glob("*.csv")) if file.name not in (WITHIN, SPEED)]
    if not found:
        raise UserError(f"{path} has no table; give a csv file that 'reproduce transfer' wrote, or a folder of them")
    return found


def _course(agent: str, rows: Sequence[dict[str, str]], wanted: int | None) -> Course | None:
    by_trial: dict[int, dict[int, dict[str, str]]] = {}
    try:
        for row in rows:
            by_trial.setdefault(int(row["trial"]), {})[int(row["task"])] = row
        return _values(agent, by_trial, wanted)
    except (KeyError, ValueError):
        raise UserError(
            f"a table of '{agent}' has a gap or no finite number where one is needed; its tasks are 1, 2, 3 …, all "
            f"other columns are finite numbers, '{SHAPES}' has {KINDS} of them, and sums within tasks are there for "
            "both rewards and traps"
        ) from None


def _values(agent: str, by_trial: dict[int, dict[int, dict[str, str]]], wanted: int | None) -> Course | None:
    trials = tuple(sorted(trial for trial, found in by_trial.items() if len(found) >= (wanted or 1)))
    if not trials:
        return None
    tasks = wanted or min(len(found) for found in by_trial.values())
    rows = [[by_trial[trial][t + 1] for t in range(tasks)] for trial in trials]
    filled = {name for name in rows[0][0] if all(row.get(name) not in (None, "") for line in rows for row in line)}
    columns = [*NEEDED[3:], *(name for name in ("kept", *EXTRA) if name in filled)]
    values = {name: _finite([[float(row[name]) for row in line] for line in rows]) for name in columns}

    def lists(name: str) -> np.ndarray:
        return _finite([[row[name].split() for row in line] for line in rows])

    keys = {name: f"{name}_every_1000" for name in WITHIN_NAMES}
    within = {name: np.diff(lists(key), axis=2, prepend=0.0) for name, key in keys.items() if key in filled}
    if within and (len(within) < len(WITHIN_NAMES) or len({found.shape for found in within.values()}) > 1):
        raise ValueError("sums of one kind only")
    shapes = lists(SHAPES) if SHAPES in filled else None
    if shapes is not None and shapes.shape[2] != KINDS:
        raise ValueError("another number of shapes")
    if within:
        values["kept"] = _steps_until_kept(within["traps"])
    return Course(agent, trials, values, within, shapes)


def _finite(rows: list) -> np.ndarray:
    """Numbers, or digits, as an array."""
    found = np.array(rows, float)
    if not np.isfinite(found).all():
        raise ValueError("not finite")
    return found


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
    """Small tables: AGENT.csv with a row a trial and task, and within.csv with means of each 1 000 steps of a task.

    The rewards of the shapes are kept for tasks of our own set; a table without them is taken to be of the tasks of
    SFT-CoP's file, which are not to be copied.
    Agents that are in the folder and not packed now keep their tables and their rows of within.csv.
    """
    storage.make_folder(folder)
    digits = {
        **{"reward": 2, "traps": 0, "greedy_reward": 3, "greedy_traps": 0, "greedy_goal": 0},
        **{"seconds": 2, "kept": 0, "lambda": 3},
    }
    paths, parts = [], read_within(folder / WITHIN)
    for course in courses:
        columns = [name for name in digits if name in course.values]
        ours = course.shapes is not None and are_ours(course.shapes, course.trials, ROUNDED)
        shapes = course.shapes if ours else None
        lines = [",".join([*NEEDED[:3], *columns, *([SHAPES] if ours else [])])]
        for i, trial in enumerate(course.trials):
            for t in range(course.values["reward"].shape[1]):
                numbers = [f"{course.values[name][i, t]:.{digits[name]}f}" for name in columns]
                if shapes is not None:
                    numbers.append(" ".join(f"{x:.4f}" for x in shapes[i, t]))
                lines.append(",".join([course.agent, str(trial), str(t + 1), *numbers]))
        paths.append(folder / f"{course.agent}.csv")
        storage.write_text(paths[-1], "\n".join([*lines, ""]))
        parts[course.agent] = {name: found for name in WITHIN_NAMES if (found := course.parts(name)) is not None}
    storage.write_text(folder / WITHIN, _within_text(parts))
    return [*paths, folder / WITHIN]


def _within_text(parts: dict[str, dict[str, np.ndarray]]) -> str:
    lines = [",".join(["agent", "thousand", *WITHIN_NAMES])]
    for agent in sorted((agent for agent in parts if parts[agent]), key=_place):
        means = zip(*(parts[agent][name].mean(0) for name in WITHIN_NAMES), strict=True)
        lines += [f"{agent},{n},{reward:.3f},{traps:.3f}" for n, (reward, traps) in enumerate(means, 1)]
    return "\n".join([*lines, ""])
