"""What an executor is, and the flags that choose and size one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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


@dataclass(frozen=True)
class Where:
    """Where runs are trained: the flags that size an executor."""

    workers: int | None = None
    """Runs at the same time on this computer or in SLURM; if not given, one for each GPU or else for each core here,
    and as many as SLURM allows there."""
    cores: int | None = None
    """CPU cores of each run; if not given, the cores divided by the workers, and 1 on Ray and SLURM."""
    gpus: int | None = None
    """GPUs of each run on Ray and SLURM; 0 if not given."""
    address: str | None = None
    """Address of a Ray cluster, or 'auto'; if not given, Ray is started on this computer."""
    shared: bool = True
    """Whether all nodes of the Ray cluster see the folder --out; if not, finished runs are sent back as bytes."""
    partition: str | None = None
    """Partition of SLURM."""
    hours: float = 24.0
    """Time limit of a SLURM job; a run that needs longer is requeued and continues."""
