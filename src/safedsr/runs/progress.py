"""progress.csv of a run folder: a row for each chunk of steps, task and seed, written while the training runs."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safedsr.errors import UserError
from safedsr.runs.config import Terms
from safedsr.runs.metrics import Episodes, safe
from safedsr.runs.storage import disk, write_atomic

FILE = "progress.csv"
WORDS = ("environment",)  # columns that are not numbers
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
