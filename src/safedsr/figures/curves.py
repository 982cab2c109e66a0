"""Learning curves: safe goal rate of the best (Fig. 6), reward and cost of all algorithms (Figs. 14-22).

The paper's figures have the same axes for every map; `learning_figure` is for environments that are not the grid.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safedsr.figures.select import Group, find, labels_of, layouts_of, on_layout, title_of
from safedsr.figures.style import BUDGET, MUTED, ORACLE, WIDTH, color_of, name_of, paper_style, styles_of
from safedsr.runs.metrics import iqm, over_seeds
from safedsr.runs.reference import Reference, References, any_reference
from safedsr.runs.results import Result, smooth, trend

BEST = 7  # algorithms in Fig. 6
POINTS = 250  # of a drawn line
LIMITS = {"reward": (-10.5, 1.5), "cost": (-0.8, 30.0), "safe": (-0.02, 1.02)}  # the same for every map
TICKS = {"reward": (-10, -5, 0), "cost": (0, 10, 20, 30)}
NAMES = {"reward": "reward of an episode", "cost": "cost of an episode", "safe": "safe goal rate"}
BEHIND = 1.5  # zorder of lines for comparison: above the bands, below the other lines
STEPS = "environment steps / 1000"


class Curve(NamedTuple):
    """One series over training, over seeds."""

    label: str
    points: np.ndarray  # [T] environment steps
    line: np.ndarray  # [T] Sec. 5.2: IQM over seeds at each point, then the mean of 20 000 steps
    middle: np.ndarray  # [T] first the mean of 20 000 steps for each seed, then IQM over seeds
    low: np.ndarray  # [T] 25th percentile of these
    high: np.ndarray  # [T] 75th


def curve(result: Result, name: str) -> Curve:
    """A series of a result, with the quartiles of its seeds; NaN before the first episode ends."""
    seeds = smooth(result, result.series[name])
    low, high = np.full((2, len(result.points)), np.nan)
    known = np.isfinite(seeds).any(0)
    if known.any():
        low[known], high[known] = np.nanpercentile(seeds[:, known], (25, 75), axis=0)
    return Curve(result.label, result.points, trend(result, name), over_seeds(seeds), low, high)


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
            _line(above, found.points, found.line, style.color, style.dash, label=name_of(result.label))
            _line(below, found.points, found.middle, style.color, style.dash)
            _band(below, found, style.color)
        for axes in (above, below):
            _draw_oracle(axes, any_reference(here, references), "safe")
        above.set_title(title_of(layout))
        below.set_xlabel(STEPS)
    panels[0, 0].set_ylim(*LIMITS["safe"])
    for axes, how in zip(panels[:, 0], ("averaged as in Sec. 5.2", "IQM and quartiles over seeds"), strict=True):
        axes.set_ylabel(f"safe goal rate,\n{how}")
    _legend(figure, panels[0], "outside lower center")
    return figure


@paper_style()
def training_figure(results: Sequence[Result], name: str, references: References) -> Figure:
    """Figs. 14-22: a curve for every algorithm on one map, one panel each, with the others in grey."""
    curves = [curve(result, name) for result in results]
    columns = min(len(curves), 5)
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(WIDTH * (columns + 0.5) / 5.5, 1.15 * rows + 0.7), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, found in zip(panels.flat, curves, strict=False):
        for other in curves:
            if other is not found:
                _line(axes, other.points, other.line, MUTED, width=0.4, zorder=BEHIND)
        _band(axes, found, color_of(found.label))
        _line(axes, found.points, found.line, color_of(found.label))
        _draw_oracle(axes, any_reference(results, references), name)
        if name == "cost" and len(results[0].budgets) == 1:
            axes.axhline(results[0].budgets[0], color=BUDGET, linewidth=0.8, label="budget", zorder=BEHIND)
        axes.set_title(name_of(found.label).replace(" (", "\n("))
    for axes in panels.flat[len(curves) :]:
        axes.set_visible(False)
    panels[0, 0].set(ylim=LIMITS[name], yticks=TICKS[name])
    figure.supxlabel(STEPS, fontsize=8)
    figure.supylabel(NAMES[name], fontsize=8)
    _legend(figure, panels[0, :1], "outside upper center")
    return figure


@paper_style()
def learning_figure(results: Sequence[Result]) -> Figure:
    """Return, safe share and cost over training in an environment of one's own: IQM and quartiles over seeds."""
    terms, budgets = results[0].terms, results[0].budgets
    cost = "discounted cost" if terms.on_mean else "cost"
    titles = {"reward": "return of an episode", "safe": "safe goal rate" if terms.success else "safe episodes"}
    titles |= {"cost": f"{cost} of an episode" + (", sum of all" if len(budgets) > 1 else "")} if budgets else {}
    styles = styles_of(labels_of(results))
    figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
    panels = figure.subplots(1, len(titles))
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        for result in results:
            found, style = curve(result, name), styles[result.label]
            _band(axes, found, style.color)
            _line(axes, found.points, found.middle, style.color, style.dash, label=name_of(result.label))
        if name == "cost" and len(budgets) == 1:
            axes.axhline(budgets[0], color=BUDGET, linewidth=0.8, label="budget", zorder=BEHIND)
        axes.set(title=title, xlabel=STEPS)
    panels[1].set_ylim(*LIMITS["safe"])
    _legend(figure, panels, "outside lower center")
    return figure


def _draw_oracle(axes: Axes, reference: Reference | None, name: str) -> None:
    """Draw the oracle's values as lines, with the last ε and with ε = 0."""
    for level, dash in ((reference.exploring, "--"), (reference.greedy, ":")) if reference else ():
        value = {"reward": level.reward, "cost": sum(level.cost), "safe": level.safe_goal_rate}[name]
        label = f"oracle, ε = {level.epsilon:g}"
        axes.axhline(value, color=ORACLE, linestyle=dash, linewidth=0.8, label=label, zorder=BEHIND)


def _line(
    axes: Axes, grid: np.ndarray, values: np.ndarray, color: str, dash: Any = "-", width: float = 1.2, **more: Any
) -> None:
    every = _every(grid)
    axes.plot(grid[every] / 1000, values[every], color=color, linestyle=dash, linewidth=width, **more)


def _band(axes: Axes, found: Curve, color: str) -> None:
    every = _every(found.points)
    x, low, high = found.points[every] / 1000, found.low[every], found.high[every]
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0, zorder=1)


def _every(grid: np.ndarray) -> slice:
    """A slice that selects at most about POINTS points, with the last one."""
    stride = max(len(grid) // POINTS, 1)
    return slice((len(grid) - 1) % stride, None, stride)


def _legend(figure: Figure, panels: Iterable[Axes], where: Any) -> None:
    """A legend with every line once, outside the panels."""
    named = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    order = sorted(named, key=lambda label: label.startswith("oracle"))
    if named:
        figure.legend([named[label] for label in order], order, loc=where, ncols=5)
