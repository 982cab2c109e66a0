"""Progress of long work: a bar with rate and time left on a terminal, now and then a line elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from safedsr.train import Progress

LINE_SECONDS = 10.0  # between lines where there is no terminal


@contextlib.contextmanager
def progress_bar(title: str, lanes: int, start: int = 0) -> Iterator[Callable[[Progress], None]]:
    """Shows a training on standard error; `lanes` seeds and environments walk at once."""
    bar = _terminal_bar(title, lanes, start) if sys.stderr.isatty() else _lines(title, lanes, start)
    with bar as show:
        yield show


@contextlib.contextmanager
def _terminal_bar(title: str, lanes: int, start: int) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    clock = _Clock(lanes, start)
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None, completed=start, status="compiling")
        yield lambda p: bar.update(task, total=p.steps, completed=p.step, status=clock.status(p))


@contextlib.contextmanager
def _lines(title: str, lanes: int, start: int) -> Iterator[Callable[[Progress], None]]:
    clock = _Clock(lanes, start)
    printed = -LINE_SECONDS

    def show(p: Progress) -> None:
        nonlocal printed
        status = clock.status(p)
        now = clock.elapsed()
        if now - printed >= LINE_SECONDS or p.step == p.steps:
            printed = now
            left = now * (p.steps - p.step) / max(p.step - start, 1)
            print(f"{title} {p.step}/{p.steps} {status} {now:.0f} s, {left:.0f} s left", file=sys.stderr, flush=True)

    yield show


class _Clock:
    def __init__(self, lanes: int, start: int) -> None:
        self.began, self.before = time.monotonic(), time.monotonic()
        self.lanes, self.step = lanes, start

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def status(self, p: Progress) -> str:
        now = time.monotonic()
        rate = self.lanes * (p.step - self.step) / max(now - self.before, 1e-9)
        self.before, self.step = now, p.step
        return f"{rate:,.0f} steps/s  goal {p.goal_rate:.2f}  safe {p.safe_goal_rate:.2f}  λ {p.lam:.3f}"
