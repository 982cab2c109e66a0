"""The progress of a sweep on standard error: a live table on a terminal, else a line every ten seconds."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from safedsr.cli.display import LINE_SECONDS
from safedsr.errors import one_line
from safedsr.sweep.run import Board, Watcher
from safedsr.sweep.worker import DONE, FAILED, Outcome

SHOWN_RUNS = 12  # running runs in the table


@contextlib.contextmanager
def watching(out: Path, *, quiet: bool = False) -> Iterator[Watcher]:
    """Show the progress of the sweep in a folder."""
    if quiet:
        yield _Lines(out, every=float("inf"))
    elif not sys.stderr.isatty():
        yield _Lines(out)
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), refresh_per_second=4) as live:
            yield _Table(out, live)


def summary(board: Board) -> str:
    """How far a sweep is, in one line."""
    left = "?" if board.left is None else _clock(board.left)
    return (
        f"{board.done} done, {len(board.running)} running, {board.waiting} waiting, {board.failed} failed of "
        f"{board.total}  {board.rate:,.0f} steps/s  ETA {left}"
    )


def ended_line(name: str, outcome: Outcome, seconds: float, out: Path) -> str:
    """A run that has ended, in one line; a failure with its reason and folder."""
    more = f"; folder {out / name}" if outcome.state == FAILED else ""
    reason = f": {outcome.reason}" if outcome.state != DONE else ""
    return one_line(f"{outcome.state} {name}{reason}{more}  {_clock(seconds)}")


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"


class _Lines:
    def __init__(self, out: Path, every: float = LINE_SECONDS) -> None:
        self._out, self._every, self._printed = out, every, 0.0

    def ended(self, name: str, outcome: Outcome, seconds: float) -> None:
        print(ended_line(name, outcome, seconds, self._out), file=sys.stderr, flush=True)

    def update(self, board: Board) -> None:
        if board.seconds - self._printed >= self._every:
            self._printed = board.seconds
            print(summary(board), file=sys.stderr, flush=True)


class _Table:
    def __init__(self, out: Path, live: "object") -> None:
        self._out, self._live = out, live

    def ended(self, name: str, outcome: Outcome, seconds: float) -> None:
        from rich.text import Text

        self._live.console.print(Text(ended_line(name, outcome, seconds, self._out)))  # type: ignore[attr-defined]

    def update(self, board: Board) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(summary(board)), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
        for column in ("running", "step", "of", ""):
            table.add_column(column)
        for name, step, steps in board.running[:SHOWN_RUNS]:
            table.add_row(Text(one_line(name)), str(step), str(steps), f"{step / steps:.0%}")
        if len(board.running) > SHOWN_RUNS:
            table.add_row(Text(f"and {len(board.running) - SHOWN_RUNS} more"), "", "", "")
        self._live.update(table)  # type: ignore[attr-defined]
