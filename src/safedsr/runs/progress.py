"""progress.csv of a run folder: a row for each chunk of steps, task and seed, written while the training runs."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.errors import UserError
from safedsr.runs.config import Terms
from safedsr.runs.metrics import Episodes, safe
from safedsr.runs.storage import disk, write_atomic

FILE = "progress.csv"
WORDS = ("environment",)  # columns that are not numbers
SHARES = ("goal_rate", "safe_goal_rate", "safe_episode_rate")  # always drawn from 0 to 1
Row = dict[str, Any]


def outcome(episodes: Episodes, budgets: Sequence[float], terms: Terms) -> Row:
    """The columns on the episodes that ended in a chunk: their number and means; NaN if there are none."""
    count = len(episodes.end_step)
    shares = {"goal_rate": episodes.success, "safe_goal_rate": safe(episodes, budgets)}
    if not terms.success:
        shares = {"safe_episode_rate": shares["safe_goal_rate"]}
    columns = {**shares, "return": episodes.ret, "length": episodes.length}
    columns |= {f"cost_{j}": column for j, column in enumerate(episodes.cost.T)}
    return {"episodes": count, **{name: float(x.mean()) if count else math.nan for name, x in columns.items()}}


class ProgressFile:
    """Appends rows to progress.csv. Rows after `step` are dropped first: a resumed run repeats these steps."""

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / FILE
        kept = [row for row in read_progress(folder) if row["step"] <= step] if self.path.exists() else []
        write_atomic(self.path, lambda file: _append(file, kept, header=True) if kept else file.touch())

    def write(self, rows: Sequence[Row]) -> None:
        """Append the rows of a chunk."""
        with disk(self.path):
            _append(self.path, rows, header=self.path.stat().st_size == 0)


def _append(path: Path, rows: Sequence[Row], *, header: bool) -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows({name: "" if _unknown(value) else value for name, value in row.items()} for row in rows)


def _unknown(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def read_progress(folder: Path) -> list[Row]:
    """The complete rows of progress.csv, numbers as float; NaN where no episode ended."""
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"{folder} has no {FILE}; give a folder of 'safedsr train --out'")
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text[: text.rfind("\n") + 1].splitlines()  # the last row may be half written
    try:
        rows = [
            {name: value if name in WORDS else float(value or "nan") for name, value in row.items()}
            for row in csv.DictReader(lines)
        ]
        if any("step" not in row or None in row for row in rows):
            raise ValueError("a row has other columns than the first line, or no step")
        return rows
    except (TypeError, ValueError, csv.Error) as error:
        raise UserError(f"{path} is damaged: {error}; delete it to go on without it") from None


def titles(tasks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The columns that are drawn, and their titles; costs have their names and budgets if all tasks share them."""
    found = {
        "safe_goal_rate": "safe goal rate",
        "safe_episode_rate": "safe episodes",
        "return": "return of an episode",
    }
    for j in range(len(tasks[0]["costs"])):
        names = {task["costs"][j] for task in tasks}
        budgets = sorted({task["budgets"][j] for task in tasks})
        name = names.pop() if len(names) == 1 else f"number {j + 1}"
        found[f"cost_{j}"] = f"cost of an episode ({name}), budget {', '.join(f'{b:g}' for b in budgets)}"
        found[f"lam_{j}"] = f"λ ({name})"
    return found


def series(rows: Sequence[Row], name: str) -> tuple[np.ndarray, np.ndarray]:
    """The steps, and the mean of a column at each of them; steps without a value are left out."""
    by_step: dict[float, list[float]] = {}
    for row in rows:
        if not math.isnan(row[name]):
            by_step.setdefault(row["step"], []).append(row[name])
    return np.array(list(by_step)), np.array([np.mean(found) for found in by_step.values()])
