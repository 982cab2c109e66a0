"""Executors by name. Ray and submitit are imported when they are used."""

import importlib.util
from pathlib import Path

from safedsr.errors import UserError, unknown
from safedsr.sweep.base import Executor, Where
from safedsr.sweep.local import Local

EXECUTORS = ("local", "ray", "slurm")


def make_executor(where: Where, out: Path, count: int) -> Executor:
    """The executor for about `count` works of a sweep in the folder `out`."""
    if where.executor == "local":
        return Local(out, count, where.workers, where.cores)
    if where.executor == "ray":
        _require("ray", "ray")
        from safedsr.sweep.on_ray import OnRay

        return OnRay(out, where)
    if where.executor == "slurm":
        _require("submitit", "slurm")
        from safedsr.sweep.on_slurm import OnSlurm

        return OnSlurm(out, where)
    raise unknown("executor", where.executor, EXECUTORS)


def _require(package: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UserError(f"--executor {extra} needs the package {package}; pip install 'safedsr[{extra}]'")
