"""The experiment with changing costs: rates over the phases (Fig. 23), paths (Figs. 8, 9, 13), the comparison."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from safedsr.envs.grid.catalog import load_scene
from safedsr.figures.files import save_for_print
from safedsr.figures.maps import draw_map
from safedsr.figures.style import MUTED, ORACLE, WIDTH, color_of, name_of, paper_style
from safedsr.figures.trajectories import INK, PALE, episodes_of
from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_arms import RUNG_NAMES
from safedsr.paper.adaptation_summary import FOLDER, read_summary
from safedsr.paper.adaptation_walks import EVALUATIONS, PARTS, read_walks

NUMBERS = (8, 9, 13)  # the paper's figures of paths, one for each change
COLORS = {"cut": color_of("safedsr"), "absorb": "#e69f00"}
DASHES = {False: "-", True: (0, (3, 1))}
MARKERS = {"cost": "o", "penalty": "s", "memory": "D"}
LIMITS = (-0.02, 1.02)
NAME_WIDTH = 0.4  # inches, for the names of the rows
Walks = Mapping[tuple[str, int, int], tuple[int, np.ndarray]]


class Line(NamedTuple):
    """A rate over steps, or over seconds."""

    label: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    color: str
    dash: Any


def phase_lines(data: Mapping[str, Any], change: int, name: str) -> list[Line]:
    """The safe goal rate of every variant over the phases of a change: 'iqm' (averaged as in the paper) or 'mean'."""
    lines = []
    for variant in plan.VARIANTS:
        for row in data["curves"]:
            if (row["variant"], row["change"]) == (variant.name, change):
                x, y, low, high = (numbers(row[key]) for key in ("step", name, "low", "high"))
                look = COLORS[variant.terminal], DASHES[variant.pretrained]
                lines.append(Line(variant.name, x, y, low, high, *look))
    return lines


def numbers(values: Sequence[float | None]) -> np.ndarray:
    """An array, with NaN for missing values."""
    return np.array([np.nan if value is None else value for value in values], float)


@paper_style()
def phases_figure(data: Mapping[str, Any]) -> Figure:
    """Fig. 23: the safe goal rate over the phases, averaged as in Sec. 5.2, and as mean with quartiles over seeds."""
    figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    panels = figure.subplots(2, len(plan.CHANGES), sharex=True, sharey=True, squeeze=False)
    for change, what in enumerate(plan.CHANGES):
        for axes, name in zip(panels[:, change], ("iqm", "mean"), strict=True):
            for line in phase_lines(data, change, name):
                axes.plot(line.x / 1000, line.y, color=line.color, linestyle=line.dash, linewidth=1, label=line.label)
                if name == "mean":
                    axes.fill_between(line.x / 1000, line.low, line.high, color=line.color, alpha=0.12, linewidth=0)
            _draw_phases(axes, data, what.after)
        panels[0, change].set_title(what.name, pad=14)
        panels[1, change].set_xlabel("environment steps / 1000")
    panels[0, 0].set_ylim(*LIMITS)
    for axes, how in zip(panels[:, 0], ("averaged as in Sec. 5.2", "mean and quartiles of seeds"), strict=True):
        axes.set_ylabel(f"safe goal rate,\n{how}")
    _legend(figure, panels[0, 0], 5)
    return figure


def _draw_phases(axes: Axes, data: Mapping[str, Any], costs: str) -> None:
    """Draw borders and numbers of the phases, and the oracle with the new costs."""
    shorten = data["shorten"]
    ends = [phase.start for phase in plan.PHASES[1:]] + [plan.END]
    for phase, end in zip(plan.PHASES, ends, strict=True):
        start, middle = phase.start / shorten / 1000, (phase.start + end) / 2 / shorten / 1000
        changed = phase.start == plan.CHANGE
        axes.axvline(start, color=ORACLE if changed else MUTED, linewidth=0.8 if changed else 0.4, zorder=0)
        axes.text(middle, LIMITS[1] + 0.01, str(phase.number), ha="center", va="bottom", fontsize=6)
    rate, where = data["oracle"][costs]["safe_goal_rate"], np.array([plan.CHANGE, plan.END]) / shorten / 1000
    axes.plot(where, [rate] * 2, color=ORACLE, linestyle="--", linewidth=0.8, label="oracle, new costs", zorder=1)


@paper_style()
def walks_figure(walks: Walks, change: int) -> Figure:
    """Figs. 8, 9, 13: the last paths of the best seed with the new costs; rows are variants, columns are phases."""
    names = [v.name for v in plan.VARIANTS if any((v.name, change, phase) in walks for phase in EVALUATIONS)]
    layout = load_scene(plan.LAYOUT, plan.CHANGES[change].after).layout
    height, width = layout.walls.shape
    size = (WIDTH - NAME_WIDTH) / len(EVALUATIONS)
    figure = Figure(figsize=(WIDTH, len(names) * (size * height / width + 0.05) + 0.2), layout="constrained")
    panels = figure.subplots(len(names), len(EVALUATIONS), squeeze=False)
    titles = {phase.number: phase.name.removesuffix(" evaluation") for phase in plan.PHASES}
    for axes, phase in zip(panels[0], EVALUATIONS, strict=True):
        axes.set_title(f"{phase}: {titles[phase]}")
    for row, name in zip(panels, names, strict=True):
        for axes, phase in zip(row, EVALUATIONS, strict=True):
            draw_map(axes, layout, colors=(PALE,))
            seed, positions = walks.get((name, change, phase), (0, np.full((1, 2), np.nan)))
            _draw_walks(axes, positions, COLORS[name.partition("-")[0]])
        row[0].set_ylabel(f"{name}\nseed {seed}", fontsize=7)
    return figure


def _draw_walks(axes: Axes, positions: np.ndarray, color: str) -> None:
    """Draw paths as faint lines: frequent paths are dark. Rounded positions are spread over the rounding interval."""
    lines = episodes_of(positions + np.random.default_rng(0).uniform(-0.5, 0.5, positions.shape) / PARTS)
    alpha = float(np.clip(INK / max(len(lines), 1), 0.05, 1.0))
    axes.add_collection(LineCollection(lines, colors=color, linewidths=0.4, alpha=alpha, rasterized=True, zorder=2))


def comparison_lines(data: Mapping[str, Any], change: int, seconds: bool) -> list[Line]:
    """The rate of every method with environment steps, over steps or seconds (without those not timed)."""
    lines = []
    for row in data["arm_curves"]:
        if row["change"] == change and not (seconds and row["step_seconds"] is None):
            x = numbers(row["step"])
            x = x * row["step_seconds"] + row["change_seconds"] if seconds else x
            owner, scratch = row["owner"], "scratch" in row["arm"]
            color = COLORS[owner.removeprefix("safedsr-")] if owner.startswith("safedsr") else color_of(owner)
            label = f"{_name(owner)}, {'from scratch' if scratch else 'fine-tuning'}"
            mean, low, high = (numbers(row[key]) for key in ("mean", "low", "high"))
            lines.append(Line(label, x, mean, low, high, color, ":" if scratch else "-"))
    return lines


def _name(owner: str) -> str:
    variant = owner.removeprefix("safedsr-")
    return f"SafeDSR ({variant})" if variant != owner else name_of(owner)


def rung_points(data: Mapping[str, Any], change: int) -> list[tuple[str, str, float, float]]:
    """Variant, level, median seconds and mean rate of the methods without environment steps."""
    points = []
    for variant in plan.COMPARED:
        for level in MARKERS:
            rows = [
                r for r in data["rungs"] if (r["variant"], r["change"], r["level"]) == (variant.name, change, level)
            ]
            if rows:
                seconds, rates = ([row[key] for row in rows] for key in ("seconds", "safe"))
                points.append((variant.name, level, float(np.median(seconds)), float(np.mean(rates))))
    return points


@paper_style()
def comparison_figure(data: Mapping[str, Any]) -> Figure:
    """Safe goal rate after the change over steps (top) and over seconds (bottom), mean over seeds."""
    figure = Figure(figsize=(WIDTH, 5.2), layout="constrained")
    panels = figure.subplots(2, len(plan.CHANGES), sharex="row", sharey=True, squeeze=False)
    for change, what in enumerate(plan.CHANGES):
        above, below = panels[:, change]
        for axes, seconds in ((above, False), (below, True)):
            for line in comparison_lines(data, change, seconds):
                x = line.x if seconds else line.x / 1000
                axes.plot(x, line.y, color=line.color, linestyle=line.dash, linewidth=1, label=line.label)
            for variant, level, when, rate in rung_points(data, change):
                style = {"color": COLORS[variant], "marker": MARKERS[level], "linestyle": "", "markersize": 4}
                label = f"{RUNG_NAMES[level]} ({variant})"
                axes.plot([when if seconds else 0], [rate], label=label, clip_on=False, **style)
            rate = data["oracle"][what.after]["safe_goal_rate"]
            for share, dash, name in ((1, "--", "oracle"), (0.5, ":", "half of the oracle")):
                axes.axhline(share * rate, color=ORACLE, linestyle=dash, linewidth=0.6, label=name, zorder=0)
        below.set_xscale("log")
        below.xaxis.set_minor_formatter(NullFormatter())
        above.set_title(what.name)
        above.set_xlabel("environment steps / 1000")
        below.set_xlabel("seconds, log scale")
    panels[0, 0].set_ylim(*LIMITS)
    for axes in panels[:, 0]:
        axes.set_ylabel("safe goal rate")
    _legend(figure, panels[0, 0], 3)
    return figure


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def draw_all(out: Path, folder: Path) -> list[tuple[str, Path]]:
    """Draw all figures for which the summary in `out` has data, as PDF and PNG; return titles and PNGs."""
    summary = out / FOLDER if (out / FOLDER).is_dir() else out
    drawn = _all(read_summary(summary), read_walks(summary))
    return [(title, save_for_print(figure, folder, name)) for name, title, figure in drawn]


def _all(data: Mapping[str, Any], walks: Walks) -> Iterator[tuple[str, str, Figure]]:
    if data["curves"]:
        yield "fig23-phases", "Fig. 23: safe goal rate over the phases", phases_figure(data)
    for change, what in enumerate(plan.CHANGES):
        if any(key[1] == change for key in walks):
            number, name = NUMBERS[change], f"{what.before}-{what.after}"
            yield f"fig{number:02}-walks-{name}", f"Fig. {number}: {what.name}", walks_figure(walks, change)
    if data["arm_curves"] or data["rungs"]:
        yield (
            "adaptation-comparison",
            "Steps and seconds until the agents are safe after the change",
            comparison_figure(data),
        )
