"""The style of figures: fonts, and one colour for each algorithm, the same in every figure."""

import contextlib
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 7.0  # inches, the width of the text on a page
ORACLE = "#000000"
BUDGET = "#b2182b"
MUTED = "#9a9a9a"  # for lines that are shown only for comparison

PRINT: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # text in a PDF stays text
}

# Colour-blind readers can tell apart the paper's thirteen algorithms and the oracle (black); a test measures it. Dashes
# and markers differ too, for print in grey.
_COLORS = {
    "safedsr-plus": "#009e73",
    "safedsr": "#0072b2",
    "safedqn": "#d55e00",
    "cppo-pid": "#f0c300",
    "trpo-pid": "#870f00",
    "ipo": "#3cd2f0",
    "p3o": "#6969ff",
    "pdo": "#87875a",
    "ppo-lag": "#2d1e96",
    "rcpo": "#b4d278",
    "trpo-lag": "#5a5a5a",
    "oncrpo": "#96d2b4",
    "cpo": "#3c2d5a",
    "pcpo": "#0f0ff0",
    "pg": "#a587a5",
    "ppo": "#78a5ff",
    "npg": "#780f2d",
    "trpo": "#1e1ec3",
}
_SAME = {"dsr": "safedsr", "dqn": "safedqn"}  # the same algorithm without costs
_NAMES = {
    "safedsr-plus": "SafeDSR-plus",
    "safedsr": "SafeDSR",
    "safedqn": "SafeDQN",
    "ppo-lag": "PPO-Lag",
    "trpo-lag": "TRPO-Lag",
    "oncrpo": "OnCRPO",
}
ALGORITHM_ORDER = (
    "safedsr",
    "dsr",
    "safedqn",
    "dqn",
    *sorted(name for name in _COLORS if not name.startswith("safe")),
    "safedsr-plus",  # last, so that the paper's algorithms keep their markers
)

_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
_MARKERS = "osD^vPX<>phd"
# Okabe & Ito: colour-blind readers can tell them apart. For runs of the same algorithm.
_DISTINCT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5a5a5a")
LETTER, LINE = 0.062, 0.14  # inches: width of a letter of the legend, on average; height of a line
LEGEND_LINES = 3  # for which figures leave room


class Style(NamedTuple):
    """The style of one algorithm, or of a variant of it."""

    color: str
    dash: Any
    marker: str
    hollow: bool  # a variant has the same colour and empty markers


@contextlib.contextmanager
def paper_style() -> Iterator[None]:
    """The fonts and lines of all figures, as a context or as a decorator."""
    with matplotlib.rc_context(PRINT):
        yield


def algorithm_of(label: str) -> str:
    """The algorithm in a label such as 'safedsr (absorb)'."""
    return label.partition(" ")[0]


def color_of(label: str) -> str:
    """The colour of an algorithm; its variants have the same."""
    name = algorithm_of(label)
    return _COLORS.get(_SAME.get(name, name), MUTED)


def name_of(label: str) -> str:
    """A label with the usual spelling: 'SafeDSR (absorb)'."""
    name = algorithm_of(label)
    return _NAMES.get(name, name.upper()) + label[len(name) :]


def styles_of(labels: Iterable[str]) -> dict[str, Style]:
    """A style for each label: colours are fixed, variants of one algorithm differ in their dashes."""
    styles: dict[str, Style] = {}
    for label in sorted(set(labels), key=sort_key):
        name = algorithm_of(label)
        place = ALGORITHM_ORDER.index(name) if name in ALGORITHM_ORDER else len(ALGORITHM_ORDER)
        before = sum(algorithm_of(other) == name for other in styles)
        marker = _MARKERS[(place + before) % len(_MARKERS)]
        styles[label] = Style(color_of(label), _DASHES[before % len(_DASHES)], marker, label != name)
    return styles


def distinct_styles(labels: Iterable[str]) -> dict[str, Style]:
    """A style for each label, in which every label has a colour, a dash and a marker of its own, as far as they go."""
    return {
        label: Style(
            _DISTINCT[n % len(_DISTINCT)],
            _DASHES[(n % len(_DISTINCT) + n // len(_DISTINCT)) % len(_DASHES)],
            _MARKERS[n % len(_MARKERS)],
            n >= len(_MARKERS),
        )
        for n, label in enumerate(dict.fromkeys(labels))
    }


def legend_below(figure: Figure, panels: Iterable[Axes], where: Any = "outside lower center") -> None:
    """A legend with every label once, outside the panels, in as many columns as fit; long labels are wrapped."""
    named: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if not named:
        return
    order = sorted(named, key=lambda label: (label.startswith("oracle"), label.startswith("budget")))
    texts = [wrapped(label, figure.get_figwidth() - 0.7) for label in order]
    longest = max(len(line) for text in texts for line in text.splitlines())
    columns = max(min(int(figure.get_figwidth() / (longest * LETTER + 0.5)), 5, len(texts)), 1)
    lines = max(text.count("\n") + 1 for text in texts) * -(-len(texts) // columns)
    figure.set_figheight(figure.get_figheight() + LINE * max(lines - LEGEND_LINES, 0))
    figure.legend([named[label] for label in order], texts, loc=where, ncols=columns)


def wrapped(text: str, inches: float) -> str:
    """A text in lines that are at most as wide."""
    width = max(int(inches / LETTER), 10)
    return "\n".join(line for part in text.splitlines() for line in textwrap.wrap(part, width) or [""])


def tint(axes: Axes, budget: float, *, vertical: bool) -> None:
    """Tint the unsafe side of a budget, up to the end of the axis, which stays as it is."""
    limits = axes.get_xlim() if vertical else axes.get_ylim()
    end = max(limits[1], budget)
    (axes.axvspan if vertical else axes.axhspan)(budget, end, color=BUDGET, alpha=0.07, linewidth=0, zorder=0)
    (axes.set_xlim if vertical else axes.set_ylim)(limits[0], end)


def sort_key(label: str) -> tuple[int, str]:
    """A key for sorting: our agents, then the baselines by name; each variant after its algorithm."""
    name = algorithm_of(label)
    return (ALGORITHM_ORDER.index(name) if name in ALGORITHM_ORDER else len(ALGORITHM_ORDER), label)
