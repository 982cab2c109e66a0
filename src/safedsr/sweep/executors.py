"""Executors by name. Ray and submitit are imported when they are used."""

import importlib.util
from pathlib import Path

from safedsr.errors import UserError, unknown
from safedsr.sweep.base import Executor, Where
from safedsr.sweep.local import Local

EXECUTORS = ("local", "ray", "slurm")


def make_executor(name: str, where: Where, out: Path, count: int, *, cluster: str = "slurm") -> Executor:
    """The executor for about `count` works of a sweep in the folder `out`; `cluster` is of submitit, for tests."""
    if name == "local":
        return Local(out, count, where.workers, where.cores)
    if name == "ray":
        _require("ray", "ray")
        from safedsr.sweep.on_ray import OnRay

        return OnRay(out, where)
    if name == "slurm":
        _require("submitit", "slurm")
        from safedsr.sweep.on_slurm import OnSlurm

        return OnSlurm(out, where, cluster)
    raise unknown("executor", name, EXECUTORS)


def _require(package: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UserError(f"--executor {extra} needs the package {package}; pip install 'safedsr[{extra}]'")
