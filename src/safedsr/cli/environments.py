"""Flags that choose an environment other than a map, for all commands."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from safedsr.errors import UserError

if TYPE_CHECKING:
    from safedsr.adapt.costs import Costs
    from safedsr.envs.chosen import Chosen
    from safedsr.envs.environment import Environment

Repeated = tyro.conf.UseAppendAction[tuple[str, ...]]


@dataclass(frozen=True)
class EnvFlags:
    """An environment of Gymnasium or gymnax, and functions of its steps."""

    env: str | None = None
    """An environment of Gymnasium instead of a map: an id, module:Id, or a function FILE.py:NAME that makes one.
    gymnax:ID is a JAX environment of gymnax."""
    env_arg: Annotated[Repeated, tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """An argument of the environment; may be repeated."""
    reward_entries: tuple[str, ...] = ()
    """Entries of a vector reward that are the reward, such as 0 (-2 is minus entry 2)."""
    cost_entries: tuple[str, ...] = ()
    """Entries of a vector reward that are costs."""
    cost_fn: Annotated[Repeated, tyro.conf.arg(metavar="FILE.py:NAME")] = ()
    """A cost function of (obs, action, next_obs, reward, info); may be repeated. Its file is run."""
    cost_arg: Annotated[Repeated, tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """A parameter of the cost functions; may be repeated."""
    success_fn: Annotated[str | None, tyro.conf.arg(metavar="FILE.py:NAME")] = None
    """A function of the same kind that tells whether an episode succeeds if it ends with this step."""


def chosen_by(flags: EnvFlags) -> "Chosen":
    """The choices that the flags make; files of functions are run."""
    from safedsr.envs.chosen import chosen_from

    return chosen_from(**vars(flags))


def cost_args(flags: EnvFlags) -> dict[str, Any]:
    """The parameters of cost functions that the flags give."""
    from safedsr.envs.functions import parse_assignments

    return parse_assignments(flags.cost_arg)


def trained_in(flags: EnvFlags, time_limit: int | None, *, costless: bool) -> "Environment":
    """The environment of a new training."""
    from safedsr.envs.chosen import make_environment

    return make_environment(replace(chosen_by(flags), time_limit=time_limit), costless=costless)


def environment_of(run: Path, flags: EnvFlags) -> "Environment | None":
    """The environment of a run folder, with the flags' functions; None for a map, which the folder holds itself."""
    from safedsr.runs.about import environment_data

    return environment_in(environment_data(run), flags, str(run))


def environment_in(data: Mapping[str, Any], flags: EnvFlags, run: str) -> "Environment | None":
    """The environment that a configuration describes, with the flags' functions; None for a map."""
    from safedsr.envs.chosen import completed, make_environment
    from safedsr.envs.grid.config import GRID

    if data["name"] == GRID:
        require_map(flags, f"{run} was trained on a map")
        return None
    if "costs" not in data:
        return None  # an environment that a program made: the error says how to open it
    return make_environment(completed(chosen_by(flags), data))


def require_map(flags: EnvFlags, why: str) -> None:
    """Raise if a flag was given that is only for other environments."""
    given = [f"--{name.replace('_', '-')}" for name, value in vars(flags).items() if value]
    if given:
        raise UserError(f"{why}; {', '.join(given)} is for other environments: leave it out")


def costs_from(run: Path, environment: "Environment | None", costs: str | None, flags: EnvFlags) -> "Costs | None":
    """The new costs of an agent: names of costs of a map, or other functions or parameters; None if none are new.

    Parameters that are not given stay as they are in the run, if its cost functions are the same.
    """
    if environment is None:
        return costs
    if costs is not None:
        raise UserError(f"--costs is for maps; the costs of '{environment.name}' are functions: --cost-fn, --cost-arg")
    from safedsr.adapt.costs import Arguments
    from safedsr.envs.chosen import same_costs
    from safedsr.runs.about import environment_data

    anew = not same_costs(environment, environment_data(run))
    return Arguments(cost_args(flags), anew) if anew or flags.cost_arg else None
