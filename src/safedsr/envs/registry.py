"""Environments by what config.json says about them. The caller passes an environment of its own."""

from collections.abc import Mapping
from typing import Any

from safedsr.envs.chosen import Chosen, completed, make_environment, same_costs, warn_of_changes
from safedsr.envs.environment import Environment
from safedsr.envs.functions import parameters_in
from safedsr.envs.grid.config import GRID
from safedsr.errors import UserError
from safedsr.validation import first_difference


def environment_to_dict(environment: Environment) -> dict[str, Any]:
    """The environment in config.json: its name and settings, and "success": false if episodes cannot succeed."""
    goalless = {} if environment.spec.success else {"success": False}
    return {"name": environment.name, **environment.settings, **goalless}


def find_environment(data: Mapping[str, Any], num_costs: int, given: Environment | None = None) -> Environment:
    """The environment of a run folder: the one that the caller passes, the grid, or one that needs no user's code."""
    name = data["name"]
    if given is not None:
        if given.name != name or given.spec.costs != num_costs:
            then, now = (f"{count} cost{'' if count == 1 else 's'}" for count in (num_costs, given.spec.costs))
            raise UserError(
                f"this run was trained in '{name}' with {then}; the environment given is '{given.name}' with {now}: "
                "give the same one"
            )
        warn_of_changes(given, data)
        difference = first_difference(_fixed(environment_to_dict(given)), _fixed(data))
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
    if "costs" in data:  # made by `from_gymnasium` or `from_gymnax`
        return find_environment(data, num_costs, make_environment(completed(Chosen(), data)))
    raise UserError(
        f"this run was trained in '{name}', which is not part of safedsr; open it in Python with safedsr.load(folder, "
        "environment=…)"
    )


def stored_params(environment: Environment, data: Mapping[str, Any], task: str, params: Mapping[str, Any]) -> Any:
    """The parameters of a task of a run folder; if the cost functions are others, theirs have their defaults.

    Parameters of the function of success stay.
    """
    if environment.from_json is None:
        return ()
    if "costs" in environment.settings and not same_costs(environment, data):
        kept = parameters_in(data.get("success_function"))
        params = {**params, "args": {name: value for name, value in params.get("args", {}).items() if name in kept}}
    return environment.from_json(task, dict(params))


def _fixed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that must not change; costs and success may be given by other functions."""
    free = ("costs", "success", "success_function", "made_by", "code")
    return {key: value for key, value in data.items() if key not in free}
