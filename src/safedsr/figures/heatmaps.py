"""Annotated heat maps, algorithm × map: goals and safe goals (Fig. 4), reward and cost (Fig. 5)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from safedsr.figures.select import Group, costless, find, labels_of, layouts_of, on_layout, title_of
from safedsr.figures.style import LINE, WIDTH, name_of, paper_style, wrapped
from safedsr.runs.labels import thousands
from safedsr.runs.metrics import iqm
from safedsr.runs.reference import Reference, References, reference_of
from safedsr.runs.results import Result

COST_CLIP = 50.0  # all higher costs have the same shade (Fig. 5)
DARK = 0.6  # cells above this share of the scale have white text
Oracle = Callable[[Reference], float]


class Cells(NamedTuple):
    """The numbers of one heat map."""

    title: str
    rows: list[str]  # labels, and the oracle if it is known
    columns: list[str]  # maps
    values: np.ndarray  # [rows, columns] IQM over seeds; NaN if there is no run


def cells(
    title: str, results: Sequence[Result], metric: str, rows: Sequence[str], oracle: Oracle, references: References
) -> Cells:
    """One metric at the end of training, for every label and map."""
    columns = layouts_of(results)
    values = [[_middle(find(results, label, layout), metric) for layout in columns] for label in rows]
    known = [reference_of(_usual(on_layout(results, layout)), references) for layout in columns]
    rows = list(rows)
    if any(known):
        rows.append("oracle")
        values.append([oracle(reference) if reference else np.nan for reference in known])
    return Cells(title, rows, columns, np.array(values, np.float64).reshape(len(rows), len(columns)))


def _middle(result: Result | None, metric: str) -> float:
    if result is None or not len(result.counts[metric]):
        return np.nan
    return float(iqm(result.counts[metric]))


def _usual(results: Sequence[Result]) -> Result | None:
    """A result with the most common number of steps: the oracle's counts depend on it."""
    if not results:
        return None
    steps = Counter(result.steps for result in results).most_common(1)[0][0]
    return next(result for result in results if result.steps == steps)


def count_cells(results: Sequence[Result], group: Group | None, references: References) -> list[Cells]:
    """Fig. 4: goals without costs, goals with costs, safe goals with costs, as far as there are results."""
    free, paid = costless(results), group.results if group else []
    rows = labels_of([*free, *paid])
    titled = {"goals, no costs": (free, "goal count"), "goals, with costs": (paid, "goal count")}
    found = [
        cells(title, some, metric, rows, lambda reference: reference.goal_count, references)
        for title, (some, metric) in titled.items()
        if some
    ]
    if paid:
        safe = "safe goals, with costs"
        found.append(cells(safe, paid, "safe goal count", rows, lambda r: r.safe_goal_count, references))
    return found


def outcome_cells(group: Group, references: References) -> list[Cells]:
    """Fig. 5: reward of the last episodes, then each cost."""
    rows = labels_of(group.results)
    found = [cells("reward", group.results, "last reward", rows, lambda r: r.exploring.reward, references)]
    for j, (name, budget) in enumerate(zip(group.costs, group.budgets, strict=True)):
        title = f"cost ({name})\nbold: at most {budget:g}"
        cost = cells(title, group.results, f"last cost {name}", rows, lambda r, j=j: r.exploring.cost[j], references)
        found.append(cost)
    return found


@paper_style()
def counts_figure(results: Sequence[Result], group: Group | None, references: References) -> Figure:
    """Fig. 4: goal and safe goal count over the whole training; the shade is relative to the best of each column."""
    found = count_cells(results, group, references)
    figure, panels = _frame(found)
    for axes, some in zip(panels, found, strict=True):
        best = np.max(some.values, axis=0, initial=1.0, where=np.isfinite(some.values))
        _draw(axes, some, some.values / best, "Blues", thousands)
    _bar(figure, panels, "Blues", (0, 1), "relative to the best of the column")
    return figure


@paper_style()
def outcomes_figure(group: Group, references: References) -> Figure:
    """Fig. 5: reward and cost of the last episodes; costs above 50 share one shade."""
    found = outcome_cells(group, references)
    figure, panels = _frame(found)
    reward = found[0].values
    low, high = float(np.nanmin(reward)), float(np.nanmax(reward))
    _draw(panels[0], found[0], (reward - low) / max(high - low, 1e-9), "Blues", lambda x: f"{x:.2f}")
    _bar(figure, panels[:1], "Blues", (low, high), "reward of an episode")
    for axes, some, budget in zip(panels[1:], found[1:], group.budgets, strict=True):
        _draw(axes, some, np.minimum(some.values / COST_CLIP, 1), "Oranges", lambda x: f"{x:.1f}", bold_to=budget)
    _bar(figure, panels[1:], "Oranges", (0, COST_CLIP), "cost of an episode", extend="max")
    return figure


def _frame(found: Sequence[Cells]) -> tuple[Figure, Sequence[Axes]]:
    lines = max(_row_name(label).count("\n") + 1 for label in found[0].rows)
    height = max(max(0.2, LINE * lines) * len(found[0].rows) + 1.1, 2.2)
    figure = Figure(figsize=(WIDTH if len(found) > 1 else WIDTH / 2, height), layout="constrained")
    widths = [len(some.columns) for some in found]
    return figure, figure.subplots(1, len(found), squeeze=False, width_ratios=widths)[0]


def _draw(
    axes: Axes,
    some: Cells,
    shares: np.ndarray,
    shades: str,
    text: Callable[[float], str],
    bold_to: float = -np.inf,
) -> None:
    """Draw cells with a shade from 0 to 1 and a number; a missing run has a dash."""
    axes.imshow(np.ma.masked_invalid(shares), cmap=shades, vmin=0, vmax=1, aspect="auto")
    axes.set_facecolor("#eeeeee")
    for (row, column), value in np.ndenumerate(some.values):
        known = bool(np.isfinite(value))
        color = "white" if known and shares[row, column] > DARK else "black"
        weight = "bold" if value <= bold_to else "normal"
        written = text(value).replace("-", "−") if known else "–"
        axes.text(column, row, written, ha="center", va="center", color=color, fontsize=7, fontweight=weight)
    if some.rows[-1] == "oracle":
        axes.axhline(len(some.rows) - 1.5, color="black", linewidth=1.0)
    names = [_row_name(label) for label in some.rows]
    axes.set_xticks(range(len(some.columns)), [title_of(layout).replace(" ", "\n") for layout in some.columns])
    axes.set_yticks(range(len(names)), names if axes.get_subplotspec().is_first_col() else [""] * len(names))  # type: ignore[union-attr]
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(some.title)


def _row_name(label: str) -> str:
    return label if label == "oracle" else wrapped(name_of(label), WIDTH / 3)


def _bar(
    figure: Figure, panels: Sequence[Axes], shades: str, limits: tuple[float, float], label: str, **more: Any
) -> None:
    bar = figure.colorbar(ScalarMappable(Normalize(*limits), shades), ax=list(panels), aspect=30, pad=0.02, **more)
    bar.set_label(label)
    bar.outline.set_visible(False)  # type: ignore[operator]
