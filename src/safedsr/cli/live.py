"""Curves of a running training in the terminal, from the progress.csv of its run folder."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.runs.folder import load_config
from safedsr.runs.progress import SHARES, Row, read_progress, series, titles

WIDTH, HEIGHT = 60, 6  # characters of a chart
SECONDS = 1.0  # between two looks at the file
BLOCKS = " ▁▂▃▄▅▆▇█"


def show_live(folder: Path) -> None:
    """Show the curves until the training has ended or Ctrl-C is pressed; without a terminal, show them once."""
    config = load_config(folder)
    if not sys.stdout.isatty():
        print(picture(read_progress(folder), config))
        return
    from rich.live import Live
    from rich.text import Text

    steps = config["train"]["steps"]
    with Live(refresh_per_second=4) as screen:
        while True:
            rows = read_progress(folder)
            screen.update(Text(picture(rows, config)))
            if rows and rows[-1]["step"] >= steps:
                return
            time.sleep(SECONDS)


def picture(rows: Sequence[Row], config: Mapping[str, Any]) -> str:
    """All curves as text: means over tasks and seeds at each step."""
    if not rows:
        return "the training has not finished its first chunk of steps yet"
    last, planned = rows[-1], config["train"]["steps"]
    lanes = len(config["tasks"]) * len(config["seeds"])
    parts = [f"{config['algorithm']}, step {last['step']:,.0f} of {planned:,}, {last['seconds']:.0f} s"]
    parts[0] += f"; means over {lanes} tasks and seeds" if lanes > 1 else ""
    for name, title in titles(config["tasks"]).items():
        if name in last:
            steps, values = series(rows, name)
            limits = (0.0, 1.0) if name in SHARES else None
            parts.append("\n".join(chart(title, steps, values, limits)))
    return "\n\n".join(parts)


def chart(title: str, steps: np.ndarray, values: np.ndarray, limits: tuple[float, float] | None = None) -> list[str]:
    """Lines of text: a title with the last value, and a bar for each of up to WIDTH equal parts of the steps."""
    if not len(values):
        return [f"{title}: no episode has ended yet"]
    low, high = limits or (float(values.min()), float(values.max()))
    ends = steps[-1] * np.arange(1, WIDTH + 1) / WIDTH
    last = np.searchsorted(steps, ends, side="right")  # of each part; a part without a value shows the one before
    first = np.minimum(np.concatenate([[0], last[:-1]]), np.maximum(last - 1, 0))
    means = [values[a:b].mean() if b else math.nan for a, b in zip(first, last, strict=True)]
    heights = [0 if math.isnan(x) else 1 + round((x - low) / max(high - low, 1e-12) * (8 * HEIGHT - 1)) for x in means]
    lines = [f"{title}: {values[-1]:.3g}"]
    for row in range(HEIGHT - 1, -1, -1):
        edge = {HEIGHT - 1: high, 0: low}.get(row)
        label = "" if edge is None else f"{edge:.3g}"
        lines.append(f"{label:>9} │" + "".join(BLOCKS[min(max(h - 8 * row, 0), 8)] for h in heights))
    return lines
