"""Environments by their name in config.json. A user's own environment is not listed here; the caller passes it."""

from collections.abc import Mapping
from typing import Any

from safedsr.envs.environment import Environment
from safedsr.envs.grid.config import GRID
from safedsr.errors import UserError
from safedsr.validation import first_difference


def find_environment(data: Mapping[str, Any], num_costs: int, given: Environment | None = None) -> Environment:
    """The environment of a run folder: the grid, or the environment that the caller passes."""
    name = data["name"]
    if given is not None:
        if given.name != name or given.spec.costs != num_costs:
            raise UserError(
                f"this run was trained in '{name}' with {num_costs} costs; the environment given is '{given.name}' "
                f"with {given.spec.costs}"
            )
        difference = first_difference(
            dict(given.settings), {key: value for key, value in data.items() if key != "name"}
        )
        if difference:
            setting, now, then = difference
            raise UserError(
                f"this run was trained in '{name}' with {setting} {then!r}; the environment given has {now!r}: give "
                "the same environment"
            )
        return given
    if name == GRID:
        from safedsr.envs.grid.environment import grid_from_settings

        return grid_from_settings({key: value for key, value in data.items() if key != "name"}, num_costs)
    raise UserError(
        f"this run was trained in '{name}', which is not part of safedsr; open it in Python with safedsr.load(folder, "
        "environment=…)"
    )
