"""Where a run saves its state: a file for each seed, so that every seed can go on alone, in any process."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.scenario.diary import Diary, saved_step, state_file
from safedsr.types import PyTree

SAVE_SECONDS = 60.0
WAIT_SECONDS = 2.0  # between two looks at a lock that another process holds

Show = Callable[[int, int], None]  # steps so far, of all


class OutOfTime(Exception):
    """The time that a run may take is over; everything is saved."""


class Timer(NamedTuple):
    """When a run has to stop by itself (None: never), in seconds of `time.monotonic`."""

    end: float | None = None

    def check(self) -> None:
        """Raise if the time is over."""
        if self.end is not None and time.monotonic() >= self.end:
            raise OutOfTime


class Place(NamedTuple):
    """The folder of the states of a run, what they belong to, and when they were saved last."""

    folder: Path
    show: Show
    clock: list[float]
    stamp: str = ""  # of the scenario and the settings; a state with another one is not continued
    timer: Timer = Timer()

    def keep(self, diary: Diary, state: PyTree, steps: int, *, now: bool = False) -> None:
        """Save the state if a minute has passed, or now; stop here if the time is over."""
        self.show(diary.step, steps)
        try:
            if diary.step < steps:
                self.timer.check()
        except OutOfTime:
            diary.save(self.folder, state, self.stamp)
            raise
        if now or time.monotonic() - self.clock[0] >= SAVE_SECONDS:
            diary.save(self.folder, state, self.stamp)
            self.clock[0] = time.monotonic()

    def step(self, seed: int) -> int:
        """The step of the saved state of a seed; -1 if there is none that belongs to this run."""
        return saved_step(self.folder, seed, self.stamp)

    def there(self, seeds: Sequence[int]) -> bool:
        """Whether all of these seeds have a state."""
        return all(self.step(seed) >= 0 for seed in seeds)

    def forget(self, seed: int) -> None:
        """Delete the state of a seed."""
        state_file(self.folder, seed).unlink(missing_ok=True)


def place_at(folder: Path, show: Show = lambda done, steps: None, stamp: str = "", timer: Timer = Timer()) -> Place:
    """A place to save a run."""
    return Place(folder, show, [time.monotonic()], stamp, timer)


@contextlib.contextmanager
def claimed(folder: Path, seeds: Sequence[int]) -> Iterator[list[int]]:
    """Those of the seeds that no other process works on; no other one may begin them in this block."""
    storage.make_folder(folder)
    with contextlib.ExitStack() as stack:
        own = []
        for seed in seeds:
            with contextlib.suppress(UserError):
                stack.enter_context(storage.lock(folder / f"{seed}.lock"))
                own.append(seed)
        yield own


@contextlib.contextmanager
def turns(folder: Path, seeds: Sequence[int], timer: Timer) -> Iterator[None]:
    """Wait until no other process works on these seeds; none may begin them in this block."""
    storage.make_folder(folder)
    with contextlib.ExitStack() as stack:
        for seed in sorted(seeds):  # in the same order everywhere, so that no two processes wait for each other
            while True:
                timer.check()
                try:
                    stack.enter_context(storage.lock(folder / f"{seed}.lock"))
                    break
                except UserError:
                    time.sleep(WAIT_SECONDS)
        yield
