"""The style of figures: fonts, and one colour for each algorithm, the same in every figure."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import matplotlib

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
_MARKERS = "osD^vP"


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
        styles[label] = Style(
            color_of(label), _DASHES[before % len(_DASHES)], _MARKERS[place % len(_MARKERS)], label != name
        )
    return styles


def sort_key(label: str) -> tuple[int, str]:
    """A key for sorting: our agents, then the baselines by name; each variant after its algorithm."""
    name = algorithm_of(label)
    return (ALGORITHM_ORDER.index(name) if name in ALGORITHM_ORDER else len(ALGORITHM_ORDER), label)
