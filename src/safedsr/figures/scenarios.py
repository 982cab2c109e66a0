"""Figures of the benchmark: the safe share over time with the changes marked, and the timetable of a scenario."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from safedsr.figures.files import save_for_print
from safedsr.figures.style import BUDGET, MUTED, ORACLE, WIDTH, distinct_styles, legend_below, paper_style
from safedsr.runs import metrics
from safedsr.scenario.results import grouped

SMOOTH = 5  # parts of a curve that a point averages over


def draw_all(results: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw one figure for each scenario; returns the paths of the PNG files."""
    paths = []
    for name in dict.fromkeys(one["scenario"] for one in results):
        figure = safe_share_figure([one for one in results if one["scenario"] == name])
        paths.append(save_for_print(figure, folder, f"safe-share-{name}"))
        plt.close(figure)
    return paths


def share_curves(ones: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """The safe share [S, T] of each seed at each part of the run; NaN where no episode has ended."""
    counts, fine = (np.array([one["curve"][name] for one in ones], np.float64) for name in ("episodes", "safe"))
    window = np.ones(SMOOTH)
    sums = [np.apply_along_axis(lambda row: np.convolve(row, window)[: len(row)], 1, x) for x in (fine, counts)]
    return np.divide(sums[0], sums[1], out=np.full(sums[0].shape, np.nan), where=sums[1] > 0)


@paper_style()
def safe_share_figure(results: Sequence[dict[str, Any]]) -> Figure:
    """The safe share of every contestant over the steps of one scenario: IQM over seeds, quartiles as a band."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    by_contestant = {name: ones for (_, name), ones in grouped(results).items()}
    styles = distinct_styles(sorted(by_contestant))
    phases = results[0]["phases"]
    steps = phases[-1]["end"] * np.arange(1, len(results[0]["curve"]["safe"]) + 1) / len(results[0]["curve"]["safe"])
    for name, ones in sorted(by_contestant.items()):
        curves = share_curves(ones)
        color = ORACLE if name == "oracle" else styles[name].color
        axes.plot(steps, metrics.over_seeds(curves), color=color, linestyle=styles[name].dash, label=name)
        if len(ones) > 1:
            with np.errstate(all="ignore"):
                low, high = (np.nanpercentile(np.where(np.isfinite(curves), curves, 0), q, axis=0) for q in (25, 75))
            axes.fill_between(steps, low, high, color=color, alpha=0.12, linewidth=0)
    for phase in phases[1:]:
        axes.axvline(phase["start"], color=BUDGET, linewidth=0.8)
        how = "" if phase["told"] else " (silent)"
        text = f"{phase['change']}{how}"[:60]
        axes.text(phase["start"], 1.06, text, rotation=12, fontsize=5, color=BUDGET)
    for phase in phases:
        reach = phase["reachable_safe_share"]
        axes.plot([phase["start"], phase["end"]], [reach, reach], color=MUTED, linewidth=0.6, linestyle=":")
    axes.set_ylim(-0.02, 1.05)
    axes.set_xlim(0, phases[-1]["end"])
    axes.set_xlabel("environment steps")
    axes.set_ylabel("share of safe episodes")
    quick = " (quick, not comparable)" if results[0]["quick"] else ""
    axes.set_title(f"{results[0]['scenario']}{quick}", pad=28)
    legend_below(figure, [axes])
    return figure


@paper_style()
def timetable_figure(course: Any) -> Figure:
    """The phases of a course on a time line; on the grid, with the map of each phase."""
    from safedsr.envs.grid.changing import Ground
    from safedsr.envs.grid.layout import Layout, Scene

    params = [phase.task.params for phase in course.phases]
    layouts = [one.layout if isinstance(one, Ground) else one for one in params]
    drawn = [one for one in layouts if isinstance(one, Layout)]
    figure, axes = plt.subplots(
        2 if drawn else 1,
        max(len(layouts), 1),
        figsize=(WIDTH, 3.4 if drawn else 1.6),
        layout="constrained",
        squeeze=False,
    )
    for n, phase in enumerate(course.phases):
        line = axes[-1, n]
        told = "announced" if phase.announced else "silent"
        budgets = ", ".join(f"{budget:g}" for budget in phase.task.budgets)
        words = f"{phase.start:,} … {phase.end:,}\n{told}\nbudget {budgets}\n{phase.note}"
        line.text(0, 1, "\n".join(_wrap(words, 26)), va="top", fontsize=6)
        line.axis("off")
        if drawn:
            _draw_phase(axes[0, n], Scene(str(n), layouts[n], phase.task.cost_names), params[n])
    return figure


def _wrap(text: str, width: int) -> list[str]:
    import textwrap

    return [part for line in text.split("\n") for part in textwrap.wrap(line, width) or [""]]


def _draw_phase(axes: Any, scene: Any, params: Any) -> None:
    """A map with its costs, start, goal and the path of its hazard."""
    layout = scene.layout
    height, width = layout.walls.shape
    axes.imshow(np.where(layout.walls, 1.0, np.nan), cmap="gray", vmin=0, vmax=2, extent=(0, width, height, 0))
    total = np.asarray(layout.costs).sum(0)
    shown = np.where(total > 0, total, np.nan)
    axes.imshow(shown, cmap="Reds", vmin=0, vmax=max(float(total.max()), 1.0), extent=(0, width, height, 0), alpha=0.7)
    for cells, mark in ((layout.starts[: layout.num_starts], "o"), (layout.goal[None], "*")):
        axes.plot(cells[:, 0] + 0.5, cells[:, 1] + 0.5, mark, color=ORACLE, markersize=4)
    hazard = getattr(params, "hazard", None)
    if hazard is not None and np.any(hazard.cost):
        axes.plot(hazard.path[:, 0], hazard.path[:, 1], color=BUDGET, linewidth=1)
        axes.add_patch(plt.Circle(tuple(hazard.path[0]), float(hazard.radius), color=BUDGET, alpha=0.3))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_xticks([])
    axes.set_yticks([])
