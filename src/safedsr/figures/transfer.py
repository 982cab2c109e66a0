"""Figures of many tasks in a row: sums over tasks, the end of each task, and the steps within a task."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safedsr.figures.files import save_for_print
from safedsr.figures.style import WIDTH, Style, distinct_styles, legend_below, paper_style
from safedsr.runs.metrics import iqm
from safedsr.transfer.summary import KEPT, NAMES, WITHIN_NAMES, Course

SMOOTH = 8  # tasks that a point of the curve of one task's end averages over
MAIN = ("sftcopql", "rnsfql", "rasfql", "known", "unknown", "network")
WHOLE = "known"  # the agent whose parts are left out one by one
ALIKE = "known-no-settling"  # differs from it only after a task, so it is not shown within one
RESAMPLES = 2000  # of the bootstrap


def draw_all(courses: Sequence[Course], folder: Path) -> list[Path]:
    """Draw all figures for which there are data; returns the paths of the PNG files."""
    main = [course for course in courses if course.agent in MAIN] or list(courses)
    parts = [course for course in courses if course.agent.startswith(WHOLE) and course.agent != ALIKE]
    drawn = {"transfer-sums": sums_figure(main), "transfer-greedy": greedy_figure(main)}
    if all(_is_whole(course) for course in main):
        drawn["transfer-within"] = within_figure(main)
    if len(parts) > 1 and all(_is_whole(course) for course in parts):
        drawn["transfer-parts"] = within_figure(parts)
    paths = []
    for name, figure in drawn.items():
        paths.append(save_for_print(figure, folder, name))
        plt.close(figure)
    return paths


def _is_whole(course: Course) -> bool:
    """Whether it is known what happens within a task."""
    return "kept" in course.values and course.parts("reward") is not None


def _rows_of(courses: Sequence[Course], name: str) -> list[np.ndarray]:
    """What happens within a task, [trials, parts] each; [1, parts] each if one of them is a mean over trials."""
    found = [rows for course in courses if (rows := course.parts(name)) is not None]
    if any(len(rows) < len(course.trials) for course, rows in zip(courses, found, strict=True)):
        return [rows.mean(0, keepdims=True) for rows in found]
    return found


def _styles(courses: Sequence[Course]) -> dict[str, Style]:
    """The same colour for an agent in every figure."""
    known = distinct_styles(NAMES)
    return {
        course.agent: known.get(course.agent) or distinct_styles([course.agent])[course.agent] for course in courses
    }


def _curve(axes: Axes, x: np.ndarray, values: np.ndarray, course: Course, style: Style) -> None:
    """IQM over trials [trials, n], with its 95 % bootstrap interval as a band."""
    axes.plot(x, iqm(values), color=style.color, linestyle=style.dash, label=course.name)
    if len(values) > 1:
        chosen = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
        low, high = np.percentile(iqm(values[chosen], axis=1), (2.5, 97.5), axis=0)
        axes.fill_between(x, low, high, color=style.color, alpha=0.15, linewidth=0)


@paper_style()
def sums_figure(courses: Sequence[Course]) -> Figure:
    """Reward and trap entries so far, over tasks."""
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 2.9), layout="constrained")
    styles = _styles(courses)
    for axes, column, title in zip(panels, ("reward", "traps"), ("reward so far", "trap entries so far"), strict=True):
        for course in courses:
            sums = course.values[column].cumsum(1)
            _curve(axes, np.arange(1, sums.shape[1] + 1), sums, course, styles[course.agent])
        axes.set_xlabel("tasks")
        axes.set_title(title)
    legend_below(figure, panels)
    return figure


@paper_style()
def greedy_figure(courses: Sequence[Course]) -> Figure:
    """An episode without random actions at the end of each task: its reward and its trap entries."""
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 2.9), layout="constrained")
    titles = ("reward of an episode at ε = 0", "trap entries of an episode at ε = 0")
    styles = _styles(courses)
    for axes, column, title in zip(panels, ("greedy_reward", "greedy_traps"), titles, strict=True):
        window = min(SMOOTH, *(course.values[column].shape[1] for course in courses))
        for course in courses:
            values = course.values[column]
            smooth = np.array([np.convolve(row, np.ones(window) / window, "valid") for row in values])
            _curve(axes, np.arange(window, values.shape[1] + 1), smooth, course, styles[course.agent])
        axes.set_xlabel("tasks")
        axes.set_title(f"{title}\n(mean of {window} tasks)")
    legend_below(figure, panels)
    return figure


@paper_style()
def within_figure(courses: Sequence[Course]) -> Figure:
    """Rewards and trap entries within a task, without the first; and steps until few trap entries follow.

    If a table has the means over trials only, the curves are means without intervals for all agents.
    """
    figure, panels = plt.subplots(1, 3, figsize=(WIDTH, 2.9), layout="constrained")
    styles, thousands = _styles(courses), np.arange(0)
    for axes, name in zip(panels[:2], WITHIN_NAMES, strict=True):
        for course, rows in zip(courses, _rows_of(courses, name), strict=True):
            thousands = np.arange(rows.shape[1])
            _curve(axes, 1 + thousands, rows, course, styles[course.agent])
        axes.set_xlabel("thousands of steps within a task")
        axes.set_title(f"{'reward' if name == 'reward' else 'trap entries'} in 1 000 steps")
    for course in courses:
        steps, style = course.values["kept"][:, 1:], styles[course.agent]
        share = [(steps <= 1000 * n).mean() for n in thousands]
        panels[2].plot(thousands, share, color=style.color, linestyle=style.dash, drawstyle="steps-post")
    panels[2].set_xlabel("thousands of steps")
    panels[2].set_title(f"share of tasks with at most {KEPT} trap\nentries in each later 1 000 steps")
    legend_below(figure, panels)
    return figure
