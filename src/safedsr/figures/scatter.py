"""Reward and cost at the end of training, with the budget, as a scatter plot."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safedsr.figures.select import Group, labels_of, layouts_of, on_layout, title_of
from safedsr.figures.style import BUDGET, ORACLE, WIDTH, Style, legend_below, name_of, paper_style, styles_of, tint
from safedsr.runs.metrics import iqm
from safedsr.runs.reference import References, any_reference
from safedsr.runs.results import Result

# Both axes are linear near zero and logarithmic beyond: most points are near the budget, a few are far away.
COST_TICKS, COST_LIMITS = (0, 5, 10, 20, 50, 100, 500), (-0.5, 700)
REWARD_TICKS, REWARD_LIMITS = (-10, -5, -2, -1, -0.5, 0, 0.5, 1), (-12, 1.1)


class Point(NamedTuple):
    """One algorithm: IQM over seeds, with the 25th and 75th percentile."""

    label: str
    reward: tuple[float, float, float]  # low, middle, high
    cost: tuple[float, float, float]


def points(group: Group, layout: str, cost: int) -> list[Point]:
    """The last episodes of every algorithm on one map, and one of their costs."""
    here = [result for result in on_layout(group.results, layout) if len(result.counts["last reward"])]
    return [
        Point(result.label, _range(result, "last reward"), _range(result, f"last cost {group.costs[cost]}"))
        for result in here
    ]


def _range(result: Result, metric: str) -> tuple[float, float, float]:
    values = result.counts[metric]
    low, high = np.percentile(values, (25, 75))
    return float(low), float(iqm(values)), float(high)


@paper_style()
def trade_off_figure(group: Group, references: References) -> Figure:
    """A panel for each map (column) and each cost (row); top left, within the budget, is best."""
    layouts, styles = layouts_of(group.results), styles_of(labels_of(group.results))
    rows = len(group.costs)
    size = (WIDTH if len(layouts) > 1 else WIDTH * 0.6, 2.3 * rows + 0.9)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, len(layouts), sharex=True, sharey=True, squeeze=False)
    for row in range(rows):
        for column, layout in enumerate(layouts):
            axes = panels[row, column]
            for point in points(group, layout, row):
                _draw(axes, point, styles[point.label])
            _draw_limits(axes, group, layout, row, references)
            axes.set_xlabel(f"cost of an episode ({group.costs[row]}),\nsymlog scale")
            axes.tick_params(labelbottom=True)
            if row == 0:
                axes.set_title(title_of(layout))
        panels[row, 0].set_ylabel("reward of an episode, symlog scale")
    legend_below(figure, panels.flat)
    return figure


def _draw(axes: Axes, point: Point, style: Style) -> None:
    (left, x, right), (low, y, high) = point.cost, point.reward
    axes.plot([left, right], [y, y], color=style.color, linewidth=0.6, alpha=0.6)
    axes.plot([x, x], [low, high], color=style.color, linewidth=0.6, alpha=0.6)
    face = "white" if style.hollow else style.color
    label = name_of(point.label)
    axes.plot([x], [y], style.marker, color=style.color, markerfacecolor=face, markersize=4.5, label=label, zorder=3)


def _draw_limits(axes: Axes, group: Group, layout: str, cost: int, references: References) -> None:
    """Draw the budget and the oracle, and set the axes."""
    budget = group.budgets[cost]
    axes.axvline(budget, color=BUDGET, linewidth=0.8, label="budget (right of it: unsafe)")
    reference = any_reference(on_layout(group.results, layout), references)
    for level, dash in ((reference.exploring, "--"), (reference.greedy, ":")) if reference else ():
        name = f"oracle, ε = {level.epsilon:g}"
        axes.axhline(level.reward, color=ORACLE, linestyle=dash, linewidth=0.8, label=name)
        axes.plot([level.cost[cost]], [level.reward], "*", color=ORACLE, markersize=6, zorder=3)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xticks(COST_TICKS, [f"{tick:g}" for tick in COST_TICKS], minor=False)
    axes.set_yticks(REWARD_TICKS, [f"{tick:g}".replace("-", "−") for tick in REWARD_TICKS], minor=False)
    axes.minorticks_off()
    axes.set_xlim(COST_LIMITS)
    axes.set_ylim(REWARD_LIMITS)
    tint(axes, budget, vertical=True)
