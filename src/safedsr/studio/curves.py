"""Training curves of a run folder, also while it trains."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safedsr.runs.about import job_data
from safedsr.runs.folder import is_file
from safedsr.runs.progress import FILE, SHARES, Row, read_progress, series, titles
from safedsr.runs.shipped import folder_of

MOST_POINTS = 400  # of a curve


def curves_of(run: Path, task: int, seed: int | None) -> dict[str, Any]:
    """The curves of one task: the mean of all seeds, and one seed if it is given."""
    folder = folder_of(run)
    if not is_file(folder / FILE):
        return {"planned": 0, "step": 0, "charts": []}
    data, best = job_data(run)
    about = data["tasks"][task]
    title = ", ".join([about["name"], *about["costs"]])
    rows = [row for row in read_progress(folder) if row["environment"] == title]
    charts = []
    for name, words in titles([about]).items():
        if rows and name in rows[-1]:
            count = len(data["seeds"])
            lines = [{"name": f"mean of {count} seeds" if count > 1 else "last value", **_line(rows, name)}]
            if seed is not None and count > 1:
                lines.append({"name": f"seed {seed}", **_line([row for row in rows if row["seed"] == seed], name)})
            limit = about["budgets"][int(name[5:])] if name.startswith("cost_") else None
            charts.append({"title": words, "lines": lines, "share": name in SHARES, "budget": limit})
    step = rows[-1]["step"] if rows else 0
    return {"planned": data["train"]["steps"], "step": step, "charts": charts, "ended": best is not None}


def _line(rows: Sequence[Row], name: str) -> dict[str, list[float]]:
    steps, values = series(rows, name)
    stride = max(1, math.ceil(len(steps) / MOST_POINTS))
    kept = slice((len(steps) - 1) % stride if len(steps) else 0, None, stride)  # the last point is kept
    return {"steps": steps[kept].tolist(), "values": values[kept].tolist()}
