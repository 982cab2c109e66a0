"""Learning curves: safe goal rate of the best (Fig. 6), reward and cost of all algorithms (Figs. 14-22).

The axes are the same for every map.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safedsr.figures.select import Group, find, labels_of, layouts_of, on_layout, title_of
from safedsr.figures.style import (
    BUDGET,
    LINE,
    MUTED,
    ORACLE,
    WIDTH,
    color_of,
    legend_below,
    name_of,
    paper_style,
    styles_of,
    tint,
    wrapped,
)
from safedsr.runs.labels import thousands
from safedsr.runs.metrics import WINDOW, iqm, over_seeds
from safedsr.runs.reference import Reference, References, any_reference
from safedsr.runs.results import Result, smooth, trend

BEST = 7  # algorithms in Fig. 6
POINTS = 250  # of a drawn line
LIMITS = {"reward": (-10.5, 1.5), "cost": (-0.8, 30.0), "safe": (-0.02, 1.02)}  # the same for every map
TICKS = {"reward": (-10, -5, 0), "cost": (0, 10, 20, 30)}
NAMES = {"reward": "reward of an episode", "cost": "cost of an episode", "safe": "safe goal rate"}
BEHIND = 1.5  # zorder of lines for comparison: above the bands, below the other lines
STEPS, LIMIT = "environment steps / 1000", "budget (above it: unsafe)"


class Curve(NamedTuple):
    """One series over training, over seeds."""

    label: str
    points: np.ndarray  # [T] environment steps
    line: np.ndarray  # [T] Sec. 5.2: IQM over seeds at each point, then the mean of the last steps
    middle: np.ndarray  # [T] first the mean of the last steps for each seed, then IQM over seeds
    low: np.ndarray  # [T] 25th percentile of these
    high: np.ndarray  # [T] 75th


def curve(result: Result, name: str, window: int = WINDOW) -> Curve:
    """A series of a result, with the quartiles of its seeds, as means over `window` steps; NaN before the first."""
    seeds = smooth(result, result.series[name], window)
    low, high = np.full((2, len(result.points)), np.nan)
    known = np.isfinite(seeds).any(0)
    if known.any():
        low[known], high[known] = np.nanpercentile(seeds[:, known], (25, 75), axis=0)
    return Curve(result.label, result.points, trend(result, name, window), over_seeds(seeds), low, high)


def best_labels(group: Group, count: int = BEST) -> list[str]:
    """The labels with most safe goals, relative to the best on each map; a missing run counts as 0."""
    totals = dict.fromkeys(labels_of(group.results), 0.0)
    for layout in layouts_of(group.results):
        results = on_layout(group.results, layout)
        here = {result.label: float(iqm(result.counts["safe goal count"])) for result in results}
        for label, goals in here.items():
            totals[label] += goals / max(*here.values(), 1.0)
    ranked = sorted(totals, key=lambda label: -totals[label])
    return [label for label in totals if label in ranked[:count]]


@paper_style()
def rates_figure(group: Group, references: References) -> Figure:
    """Fig. 6: the safe goal rate of the best, averaged as in the paper, and with the quartiles over seeds."""
    labels, layouts = best_labels(group), layouts_of(group.results)
    styles = styles_of(labels)
    figure = Figure(figsize=(WIDTH if len(layouts) > 1 else WIDTH * 0.6, 4.2), layout="constrained")
    panels = figure.subplots(2, len(layouts), sharex=True, sharey=True, squeeze=False)
    for (above, below), layout in zip(panels.T, layouts, strict=True):
        here = [result for label in labels if (result := find(group.results, label, layout))]
        for result in here:
            found, style = curve(result, "safe"), styles[result.label]
            draw_line(above, found.points, found.line, style.color, style.dash, label=name_of(result.label))
            draw_line(below, found.points, found.middle, style.color, style.dash)
            draw_band(below, found, style.color)
        for axes in (above, below):
            draw_oracle(axes, any_reference(here, references), "safe")
        above.set_title(title_of(layout))
        below.set_xlabel(f"{STEPS}\n(mean of the last {thousands(WINDOW)})")
    panels[0, 0].set_ylim(*LIMITS["safe"])
    for axes, how in zip(panels[:, 0], ("averaged as in Sec. 5.2", "IQM and quartiles"), strict=True):
        axes.set_ylabel(f"safe goal rate,\n{how}")
    legend_below(figure, panels[0])
    return figure


@paper_style()
def training_figure(results: Sequence[Result], name: str, references: References) -> Figure:
    """Figs. 14-22: a curve for every algorithm on one map, one panel each, with the others in grey."""
    curves = [curve(result, name) for result in results]
    columns = min(len(curves), 5)
    rows = -(-len(curves) // columns)
    across = WIDTH * (columns + 0.5) / 5.5
    names = {one.label: wrapped(name_of(one.label).replace(" (", "\n("), across / columns - 0.2) for one in curves}
    above = LINE * max(max(name.count("\n") for name in names.values()) - 1, 0)
    figure = Figure(figsize=(across, (1.15 + above) * rows + 0.7), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, found in zip(panels.flat, curves, strict=False):
        for other in curves:
            if other is not found:
                draw_line(axes, other.points, other.line, MUTED, width=0.4, zorder=BEHIND)
        draw_band(axes, found, color_of(found.label))
        draw_line(axes, found.points, found.line, color_of(found.label))
        draw_oracle(axes, any_reference(results, references), name)
        if name == "cost" and len(results[0].budgets) == 1:
            axes.axhline(
                results[0].budgets[0], color=BUDGET, linewidth=0.8, label="budget (above it: unsafe)", zorder=BEHIND
            )
        axes.set_title(names[found.label])
    for axes in panels.flat[len(curves) :]:
        axes.set_visible(False)
    panels[0, 0].set(ylim=LIMITS[name], yticks=TICKS[name])
    figure.supxlabel(STEPS, fontsize=8)
    if name == "cost" and len(results[0].budgets) == 1:
        for axes in panels.flat[: len(curves)]:
            tint(axes, results[0].budgets[0], vertical=False)
    figure.supylabel(f"{NAMES[name]}, mean of {thousands(WINDOW)} steps", fontsize=8)
    legend_below(figure, panels[0, :1], "outside upper center")
    return figure


def draw_oracle(axes: Axes, reference: Reference | None, name: str) -> None:
    """Draw the oracle's values as lines, with the last ε and with ε = 0."""
    for level, dash in ((reference.exploring, "--"), (reference.greedy, ":")) if reference else ():
        value = {"reward": level.reward, "cost": sum(level.cost), "safe": level.safe_goal_rate}[name]
        label = f"oracle, ε = {level.epsilon:g}"
        axes.axhline(value, color=ORACLE, linestyle=dash, linewidth=0.8, label=label, zorder=BEHIND)


def draw_line(
    axes: Axes, grid: np.ndarray, values: np.ndarray, color: str, dash: Any = "-", width: float = 1.2, **more: Any
) -> None:
    every = _every(grid)
    axes.plot(grid[every] / 1000, values[every], color=color, linestyle=dash, linewidth=width, **more)


def draw_band(axes: Axes, found: Curve, color: str) -> None:
    every = _every(found.points)
    x, low, high = found.points[every] / 1000, found.low[every], found.high[every]
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0, zorder=1)


def _every(grid: np.ndarray) -> slice:
    """A slice that selects at most about POINTS points, with the last one."""
    stride = max(len(grid) // POINTS, 1)
    return slice((len(grid) - 1) % stride, None, stride)
