"""How numbers are written on pages. They are rounded by `labels.fixed` and `labels.thousands`."""

from collections.abc import Iterable, Sequence

from safedsr.runs import labels
from safedsr.runs.metrics import Summary

UNKNOWN = "–"
NOT_RUN = "not run yet."


def count(value: float) -> str:
    """A count: 13 686."""
    return labels.thousands(value).replace("\N{NARROW NO-BREAK SPACE}", " ")


def fixed(value: float, digits: int) -> str:
    """A number with so many digits after the point, with a minus sign instead of a hyphen."""
    return labels.fixed(value, digits).replace("-", "−")


def percent(share: float, digits: int = 0) -> str:
    """A share in percent, without the sign %."""
    return fixed(100 * share, digits)


def change(ratio: float) -> str:
    """The difference of a ratio from 1: −36 %, +2 %, 0 %."""
    shown = percent(ratio - 1)
    return f"{'+' if ratio > 1 and shown != '0' else ''}{shown} %"


def factor(ratio: float) -> str:
    """A ratio with two digits that count: 0.86, 1.5, 11, 1 911."""
    return count(ratio) if ratio >= 9.95 else fixed(ratio, 1 if ratio >= 1 else 2)


def interval(found: Summary) -> str:
    """IQM of counts and its 95 % bootstrap interval."""
    return f"{count(found.iqm)} ({count(found.low)} … {count(found.high)})"


def quartiles(found: Summary) -> str:
    """The 25th and 75th percentile of counts."""
    return f"[{count(found.p25)}, {count(found.p75)}]"


def table_of_runs(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of the runs that there are, or a word that there is none."""
    return table(head, rows) if rows else NOT_RUN


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in line)}|" for line in lines)
