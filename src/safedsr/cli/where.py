"""Flags that choose where many runs are trained, for the commands sweep and reproduce."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from safedsr.errors import UserError
from safedsr.validation import require

if TYPE_CHECKING:
    from safedsr.sweep.base import Executor

ExecutorName = Annotated[
    Literal["local", "ray", "slurm"],
    tyro.conf.arg(help="local: processes on this computer; ray: tasks of a Ray cluster; slurm: a job array."),
]


@dataclass(frozen=True)
class WhereFlags:
    """Where the runs are trained."""

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


MOST_HOURS = 24 * 365
EXECUTORS_OF = {
    "workers": ("local", "slurm"),
    "gpus": ("ray", "slurm"),
    "address": ("ray",),
    "shared": ("ray",),
    "partition": ("slurm",),
    "hours": ("slurm",),
}


def only_plan() -> None:
    """Keep this process, which plans and watches, off the GPUs: they are for the processes that train."""
    import jax

    jax.config.update("jax_platforms", "cpu")


def executor_for(name: str, where: WhereFlags, out: Path, count: int) -> "Executor":
    """The executor that the flags choose, for about `count` runs."""
    from safedsr.sweep.base import Where
    from safedsr.sweep.executors import make_executor

    for flag, executors in EXECUTORS_OF.items():
        if name not in executors and getattr(where, flag) != getattr(WhereFlags(), flag):
            shown = "no-shared" if flag == "shared" else flag
            raise UserError(f"--{shown} is for --executor {' or '.join(executors)}; leave it out here")
    for flag, least in (("workers", 1), ("cores", 1), ("gpus", 0)):
        given = getattr(where, flag)
        require(given is None or given >= least, flag, given, f"give at least {least}")
    require(0 < where.hours <= MOST_HOURS, "hours", where.hours, f"give a number above 0, up to {MOST_HOURS}")
    return make_executor(Where(name, **vars(where)), out, count)
