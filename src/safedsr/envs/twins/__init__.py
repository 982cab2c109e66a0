"""Environments of Gymnasium and MO-Gymnasium again, as pure functions in JAX; tests compare them step by step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from safedsr.envs.environment import Environment, Task
from safedsr.errors import UserError, unknown
from safedsr.types import PyTree


def numbers_to_json(task: Task) -> dict[str, Any]:
    """The parameters of a task, a NamedTuple of arrays, as JSON."""
    return {name: np.asarray(value).tolist() for name, value in task.params._asdict().items()}


def with_numbers(params: PyTree, given: Mapping[str, Any]) -> PyTree:
    """The parameters, a NamedTuple of arrays, with some of them replaced by numbers or lists of the same shape."""
    for name, value in given.items():
        if name not in params._fields:
            raise unknown("parameter", str(name), params._fields)
        try:
            found = np.asarray(value, np.float32)
        except (TypeError, ValueError):
            found = np.full((), np.nan, np.float32)
        wanted = np.shape(getattr(params, name))
        if found.shape != wanted or not np.isfinite(found).all():
            shape = f"a list of {wanted[0]} finite numbers" if wanted else "a finite number"
            raise UserError(f"{name} is {value!r}; give {shape}")
        params = params._replace(**{name: found})
    return params


TWINS: Sequence[str] = ("cartpole", "four-room", "minecart")


def make_twin(name: str, time_limit: int | None = None) -> Environment:
    """A twin by name; another time limit than the original's may be given."""
    if name == "cartpole":
        from safedsr.envs.twins.cartpole import make_cartpole

        return make_cartpole(time_limit or 500)
    if name == "four-room":
        from safedsr.envs.twins.four_room import make_four_room

        return make_four_room(time_limit or 200)
    if name == "minecart":
        from safedsr.envs.twins.minecart import make_minecart

        return make_minecart(time_limit or 1000)
    raise unknown("environment", name, TWINS)
