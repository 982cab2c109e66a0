"""Figures that compare a user's own runs: learning curves, final evaluation, maps with the last paths."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safedsr.engine.evaluate import Estimate
from safedsr.figures.curves import BEHIND, LIMIT, STEPS, curve, draw_band, draw_line, draw_oracle
from safedsr.figures.files import save_for_print
from safedsr.figures.maps import grid_figure
from safedsr.figures.style import (
    BUDGET,
    ORACLE,
    WIDTH,
    Style,
    distinct_styles,
    legend_below,
    name_of,
    paper_style,
    tint,
    wrapped,
)
from safedsr.figures.trajectories import trajectories_figure
from safedsr.runs.compare import Comparison
from safedsr.runs.labels import thousands
from safedsr.runs.maps import scene_of
from safedsr.runs.reference import References, any_reference

Evaluated = Mapping[tuple[str, str], Mapping[str, Estimate]]  # (comparison, label) -> columns
COLUMNS = 3  # panels beside each other
SHARE_LIMITS = (-0.02, 1.02)
WIDE = 10  # a cost axis that reaches this many budgets is logarithmic above two budgets


def own_figures(
    compared: Sequence[Comparison], evaluated: Evaluated, folder: str | Path, references: References
) -> list[tuple[str, Path]]:
    """Draw all figures of all comparisons, as PDF and PNG in a folder; return titles and PNGs."""
    drawn = [figure for one in compared for figure in _figures(one, evaluated, references)]
    return [(title, save_for_print(figure, Path(folder), name)) for name, title, figure in drawn]


def _figures(one: Comparison, evaluated: Evaluated, references: References) -> Iterator[tuple[str, str, Figure]]:
    if one.results[0].on_grid:
        yield f"map-{one.title}", f"Map: {one.title}", grid_figure(scene_of(one.results[0]))
    lasting = one._replace(results=[result for result in one.results if len(result.points)])
    if lasting.results:
        title = f"Learning curves: {one.title}; mean over the last {thousands(lasting.window)} steps at each point"
        yield f"learning-{one.title}", title, learning_figure(lasting, references)
    found = {label: columns for (title, label), columns in evaluated.items() if title == one.title}
    if found and one.costs:
        yield f"evaluation-{one.title}", f"Final evaluation: {one.title}", evaluation_figure(one, found)
    walked = [result for result in one.results if result.positions is not None]
    if walked:
        yield f"paths-{one.title}", f"Last paths of training, best seed: {one.title}", trajectories_figure(walked)


@paper_style()
def learning_figure(one: Comparison, references: References) -> Figure:
    """Return, safe share and each cost over training: IQM over seeds of a trailing mean, and the quartiles."""
    titles = {"reward": "return of an episode", "safe": "safe goal rate" if one.terms.success else "safe episodes"}
    single = len(one.costs) == 1
    apart = all(f"cost {name}" in result.series for name in one.costs for result in one.results)
    if apart or single:
        budgets = {("cost" if single else f"cost {name}"): b for name, b in zip(one.costs, one.budgets, strict=True)}
        names = dict(zip(budgets, one.costs, strict=True))
        titles |= {key: f"{one.cost_word} of an episode ({name})" for key, name in names.items()}
    else:
        budgets, titles["cost"] = {}, f"{one.cost_word} of an episode, sum of all"
    styles = distinct_styles([result.label for result in one.results])
    figure, panels = _frame(len(titles), 2.1)
    for axes, (key, title) in zip(panels, titles.items(), strict=False):
        for result in one.results:
            found, style = curve(result, key, one.window), styles[result.label]
            if len(result.seeds) > 1:
                draw_band(axes, found, style.color)
            draw_line(axes, found.points, found.middle, style.color, style.dash, label=name_of(result.label))
        if key in budgets:
            axes.axhline(budgets[key], color=BUDGET, linewidth=0.8, label=LIMIT, zorder=BEHIND)
            if axes.get_ylim()[1] > WIDE * budgets[key] > 0:  # exploration costs far more than the budget allows
                axes.set_yscale("symlog", linthresh=2 * budgets[key])
                axes.set_ylim(bottom=-0.1 * budgets[key])
                title += ",\nsymlog scale"
            tint(axes, budgets[key], vertical=False)
        elif key in ("reward", "safe"):
            draw_oracle(axes, any_reference(one.results, references), key)
        if key == "safe":
            axes.set_ylim(*SHARE_LIMITS)
        axes.set(xlabel=STEPS, ylabel=title)
    several = any(len(result.seeds) > 1 for result in one.results)
    bands = "; IQM over seeds, shaded: 25th to 75th percentile" if several else ""
    _finish(figure, f"{one.title}\nmean over the last {thousands(one.window)} steps at each point{bands}", panels)
    return figure


@paper_style()
def evaluation_figure(one: Comparison, found: Mapping[str, Mapping[str, Estimate]]) -> Figure:
    """Return against each cost of the trained agents, with 95 % intervals; within the budget and high is best."""
    figure, panels = _frame(len(one.costs), 2.6, columns=2)
    styles = distinct_styles([label for label in found if label != "oracle"])
    styles["oracle"] = Style(ORACLE, "-", "*", False)
    for axes, name, budget in zip(panels, one.costs, one.budgets, strict=False):
        column = f"{one.cost_word} ({name})"
        for label, columns in found.items():
            if column in columns:
                _draw_point(axes, columns[column], columns["return"], styles[label], name_of(label))
        axes.axvline(budget, color=BUDGET, linewidth=0.8, label="budget (right of it: unsafe)", zorder=BEHIND)
        axes.margins(0.12)
        tint(axes, budget, vertical=True)
        axes.set(xlabel=f"{one.cost_word} of an episode ({name})", ylabel="return of an episode")
    _finish(figure, f"{one.title}\ntrained agents, means with 95 % intervals", panels)
    return figure


def _draw_point(axes: Axes, x: Estimate, y: Estimate, style: Style, label: str) -> None:
    label = "oracle" if label == "ORACLE" else label
    axes.plot([x.low, x.high], [y.value, y.value], color=style.color, linewidth=0.8)
    axes.plot([x.value, x.value], [y.low, y.high], color=style.color, linewidth=0.8)
    face = "white" if style.hollow else style.color
    axes.plot(
        [x.value], [y.value], style.marker, color=style.color, markerfacecolor=face, markersize=5, label=label, zorder=3
    )


def _frame(count: int, height: float, columns: int = COLUMNS) -> tuple[Figure, Sequence[Axes]]:
    """A figure of the page's width with this many panels."""
    columns = 2 if count == 4 else min(count, columns)
    rows = -(-count // columns)
    width = WIDTH if columns > 1 else 0.6 * WIDTH
    figure = Figure(figsize=(width, height * rows + 0.9), layout="constrained")
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for axes in panels[count:]:
        axes.set_visible(False)
    return figure, list(panels)


def _finish(figure: Figure, title: str, panels: Sequence[Axes]) -> None:
    figure.suptitle(wrapped(title, figure.get_figwidth()), fontsize=8)
    legend_below(figure, [axes for axes in panels if axes.get_visible()])
