"""Progress of long commands: a bar with speed and remaining time on a terminal, or a line every ten seconds."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from safedsr.engine.progress import Progress, ShowJob, Stopwatch

LINE_SECONDS = 10.0  # between two lines, if there is no terminal


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Callable[[Progress], None]]:
    """Show the progress of one training on standard error."""
    bar = _terminal_bar(title) if sys.stderr.isatty() else _lines(title)
    with bar as show:
        yield show


@contextlib.contextmanager
def jobs_bar(title: str, done: float = 0.0) -> Iterator[ShowJob]:
    """Show the progress of several trainings on standard error; the share `done` of the work is already done."""
    bar = _terminal_jobs(title, done) if sys.stderr.isatty() else _job_lines(title, done)
    with bar as show:
        yield show


@contextlib.contextmanager
def _terminal_jobs(title: str, done: float) -> Iterator[ShowJob]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    status = TextColumn("{task.fields[status]}", markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), status)
    clock = _Clock()
    with Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=1000, completed=round(1000 * done), status="compiling")
        yield lambda job, p, share: bar.update(
            task, completed=1000 * share, status=clock.job_status(job, p, share, done)
        )


@contextlib.contextmanager
def _job_lines(title: str, done: float) -> Iterator[ShowJob]:
    clock = _Clock()
    printed = -LINE_SECONDS

    def show(job: str, p: Progress, share: float) -> None:
        nonlocal printed
        status = clock.job_status(job, p, share, done)
        if clock.elapsed() - printed >= LINE_SECONDS or p.step == p.steps:
            printed = clock.elapsed()
            print(f"{title} {share:.0%}  {status}  {printed:.0f} s", file=sys.stderr, flush=True)

    yield show


@contextlib.contextmanager
def _terminal_bar(title: str) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),  # the total is not known before the first chunk
        TextColumn("{task.fields[status]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    clock = _Clock()
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None, status="compiling")
        yield lambda p: bar.update(task, total=p.steps, completed=p.step, status=clock.status(p))


@contextlib.contextmanager
def _lines(title: str) -> Iterator[Callable[[Progress], None]]:
    clock = _Clock()
    printed = -LINE_SECONDS

    def show(p: Progress) -> None:
        nonlocal printed
        status, left = clock.status(p), clock.left(p)
        if clock.elapsed() - printed >= LINE_SECONDS or p.step == p.steps:
            printed = clock.elapsed()
            line = f"{title} {p.step}/{p.steps}  {status}  {printed:.0f} s, {left:.0f} s left"
            print(line, file=sys.stderr, flush=True)

    yield show


def _outcome(p: Progress) -> str:
    """The goal rate, or the return if it is what counts; the safe share, or the mean costs if they have budgets."""
    success = f"goal {p.goal_rate:.2f}" if p.ret is None else f"return {p.ret:.4g}"
    safety = f"safe {p.safe_goal_rate:.2f}" if p.cost is None else f"cost {' | '.join(f'{c:.3g}' for c in p.cost)}"
    return f"{success}  {safety}"


class _Clock(Stopwatch):
    """Speed and remaining time in words."""

    def left(self, p: Progress) -> float:
        return self.paces[-1] * (p.steps - p.step)

    def status(self, p: Progress) -> str:
        rate = p.lanes / max(self.lap(p.count), 1e-9)
        return f"{rate:,.0f} steps/s  {_outcome(p)}  λ {p.lam:.3f}"

    def job_status(self, job: str, p: Progress, share: float, done: float) -> str:
        """The status of one job, and the remaining time for all jobs at the average speed so far."""
        left = round(self.elapsed() * (1 - share) / max(share - done, 1e-9))
        clock = f"{left // 3600}:{left % 3600 // 60:02}:{left % 60:02}"
        return f"{job} {p.step}/{p.steps}  {self.status(p)}  ETA {clock}"
