"""Flags that choose where many runs are trained, for the commands sweep and reproduce."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from safedsr.errors import UserError
from safedsr.sweep.base import Executor, Where
from safedsr.validation import require

Executors = Literal["local", "ray", "slurm"]
ExecutorName = Annotated[
    Executors,
    tyro.conf.arg(help="local: processes on this computer; ray: tasks of a Ray cluster; slurm: a job array."),
]
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


def executor_for(name: str, where: Where, out: Path, count: int) -> Executor:
    """The executor that the flags choose, for about `count` runs."""
    from safedsr.sweep.executors import make_executor

    for flag, executors in EXECUTORS_OF.items():
        if name not in executors and getattr(where, flag) != getattr(Where(), flag):
            shown = "no-shared" if flag == "shared" else flag
            raise UserError(f"--{shown} is for --executor {' or '.join(executors)}; leave it out here")
    for flag, least in (("workers", 1), ("cores", 1), ("gpus", 0)):
        given = getattr(where, flag)
        require(given is None or given >= least, flag, given, f"give at least {least}")
    require(0 < where.hours <= MOST_HOURS, "hours", where.hours, f"give a number above 0, up to {MOST_HOURS}")
    return make_executor(name, where, out, count)
