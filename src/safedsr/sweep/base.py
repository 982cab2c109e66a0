"""What an executor is, and the flags that choose and size one."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from safedsr.sweep.worker import Outcome, Work

LOGS = "logs"  # folder for what the processes write to standard error


class Executor(Protocol):
    """Does works; each call of `start` begins some, `finished` tells which of them have ended."""

    def start(self, works: Sequence[Work]) -> None:
        """Begin works, or queue them."""
        ...

    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        """The names and outcomes of works that have ended since the last call; waits at most that long for one."""
        ...

    def stop(self) -> None:
        """Drop what waits, let what runs save, and wait for it."""
        ...

    def close(self) -> None:
        """Release what the executor holds."""
        ...


class Where(NamedTuple):
    """The flags that choose and size an executor."""

    executor: str = "local"
    workers: int | None = None
    cores: int | None = None
    gpus: int | None = None
    address: str | None = None
    shared: bool = True
    partition: str | None = None
    hours: float = 24.0
    cluster: str = "slurm"  # of submitit: "local" is for tests
