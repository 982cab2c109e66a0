"""The last paths of training (Fig. 7), for the best seed of each algorithm."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from safedsr.figures.maps import draw_map
from safedsr.figures.select import scene_of
from safedsr.figures.style import LINE, WIDTH, color_of, name_of, paper_style, wrapped
from safedsr.runs.pack import PARTS
from safedsr.runs.results import Result, best_seed

COLUMNS = 4
PALE = "#b8b8b8"  # of costs; paths have the colour of their algorithm
LAST = 100_000  # steps
INK = 25.0  # sum of the opacities of all paths


class Trail(NamedTuple):
    """The last positions of one algorithm's best seed."""

    label: str
    seed: int
    goals: int
    safe_goals: int
    positions: np.ndarray  # [n, 2] in cells; NaN between episodes


def trail(result: Result) -> Trail:
    """The seed with the largest safe goal count; the goal count breaks ties."""
    assert result.positions is not None
    index = best_seed(result.counts)
    goals, safe = (int(result.counts[name][index]) for name in ("goal count", "safe goal count"))
    return Trail(result.label, result.seeds[index], goals, safe, _spread(_last_steps(result.positions)))


def _last_steps(positions: np.ndarray) -> np.ndarray:
    """The last 100 000 steps; the gaps between episodes do not count as steps."""
    steps = np.cumsum(np.isfinite(positions[::-1, 0]))[::-1]
    return positions[steps <= LAST]


def _spread(positions: np.ndarray) -> np.ndarray:
    """Spread rounded positions (of packed folders) over the rounding interval: otherwise many lines would coincide."""
    parts = positions[np.isfinite(positions)] * PARTS
    if not np.array_equal(parts, np.rint(parts)):
        return positions
    return positions + np.random.default_rng(0).uniform(-0.5, 0.5, positions.shape) / PARTS


@paper_style()
def trajectories_figure(results: Sequence[Result]) -> Figure:
    """Fig. 7: a map for each algorithm with the paths of its best seed."""
    results = [result for result in results if result.positions is not None]
    columns = min(len(results), COLUMNS)
    rows = -(-len(results) // columns)
    height, width = scene_of(results[0]).layout.walls.shape
    size = WIDTH / columns if columns > 1 else WIDTH / 2
    names = {result.label: wrapped(name_of(result.label), size) for result in results}
    above = 0.4 + LINE * max(name.count("\n") for name in names.values())
    figure = Figure(figsize=(size * columns, rows * (size * height / width + above)), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes, result in zip(panels.flat, results, strict=False):
        draw_map(axes, scene_of(result).layout, colors=(PALE,))
        found = trail(result)
        _draw(axes, found)
        axes.set_title(f"{names[found.label]}\nseed {found.seed}: {found.goals} goals, {found.safe_goals} safe")
    for axes in panels.flat[len(results) :]:
        axes.set_visible(False)
    return figure


def episodes_of(positions: np.ndarray) -> list[np.ndarray]:
    """The paths [steps, 2] between the gaps."""
    gaps = np.flatnonzero(np.isnan(positions[:, 0]))
    pieces = np.split(positions, gaps)
    return [walk for piece in pieces if len(walk := piece[np.isfinite(piece[:, 0])]) > 1]


def _draw(axes: Axes, found: Trail) -> None:
    """Draw paths as faint lines: frequent paths are dark."""
    walks = episodes_of(found.positions)
    alpha = float(np.clip(INK / max(len(walks), 1), 0.02, 1.0))
    # Rasterized: 100 000 steps as vector graphics would take megabytes.
    axes.add_collection(
        LineCollection(walks, colors=color_of(found.label), linewidths=0.3, alpha=alpha, rasterized=True, zorder=2)
    )
