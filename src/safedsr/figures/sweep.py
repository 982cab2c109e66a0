"""Figures of a sweep: the metric against each varied setting."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from safedsr.figures.files import save_for_print
from safedsr.figures.style import color_of, paper_style
from safedsr.sweep.ranking import Ranked

SIZE = (4.5, 3.2)  # inches
LOG_FROM = 20  # a setting whose largest value is this many times its smallest has a logarithmic axis


def save_figures(found: Sequence[Ranked], metric: str, folder: Path) -> list[Path]:
    """Draw the metric against each varied setting, as PDF and PNG; return the PNGs."""
    names = list(dict.fromkeys(name for one in found for name in one.settings))
    return [save_for_print(setting_figure(found, metric, name), folder, f"{metric}-{name}") for name in names]


@paper_style()
def setting_figure(found: Sequence[Ranked], metric: str, name: str) -> Figure:
    """Each configuration at its value of a setting, with its 95 % interval; a hollow mark is not trained to the end."""
    figure = Figure(SIZE, layout="constrained")
    axes = figure.subplots()
    shown = [one for one in found if one.summary and name in one.settings]
    values = [one.settings[name] for one in shown]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    words = [] if numeric else list(dict.fromkeys(map(str, values)))
    named: set[str] = set()
    for one, value in zip(shown, values, strict=True):
        assert one.summary
        at: Any = value if numeric else words.index(str(value))
        middle = one.summary.iqm
        ends = [[max(middle - one.summary.low, 0)], [max(one.summary.high - middle, 0)]]
        color = color_of(one.algorithm)
        face = color if one.whole else "white"
        label = None if one.algorithm in named else one.algorithm
        named.add(one.algorithm)
        axes.errorbar([at], [middle], yerr=ends, fmt="o", color=color, mfc=face, capsize=2, label=label)
    if numeric and values and min(values) > 0 and max(values) / min(values) >= LOG_FROM:
        axes.set_xscale("log")
    if words:
        axes.set_xticks(np.arange(len(words)), words)
    axes.set_xlabel(name)
    axes.set_ylabel(f"{metric}, last quarter")
    if len(named) > 1:
        figure.legend(loc="outside lower center", ncols=3)
    return figure
