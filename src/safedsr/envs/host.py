"""Gymnasium environments, which run in Python on the host: their spaces, rewards, costs and success.

`from_gymnasium` gives an `Environment` without `reset` and `step`; its `host` makes copies of the environment.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from safedsr.envs.batch import Columns, Labelling, Place
from safedsr.envs.copies import Host
from safedsr.envs.environment import ENDLESS, Environment, Spec
from safedsr.envs.functions import (
    Args,
    NeedsInfo,
    StepFunction,
    args_to_json,
    collect_defaults,
    described,
    file_hash,
    from_info,
    from_reward,
    own_function,
    parse_entry,
    plain_args,
    stored_args,
    with_args,
    with_parameters,
)
from safedsr.envs.making import make_gymnasium
from safedsr.envs.probe import Probe, probe
from safedsr.errors import UserError, unknown
from safedsr.types import PyTree, Transition
from safedsr.validation import MOST, require, typed


def from_gymnasium(
    env: str | Callable[..., gymnasium.Env],
    *,
    reward: int | str | Sequence[int | str] | None = None,
    cost: Any = None,
    cost_entries: int | str | Sequence[int | str] = (),
    success: Any = None,
    env_args: Mapping[str, Any] | None = None,
    time_limit: int | None = None,
    name: str | None = None,
) -> Environment:
    """A Gymnasium environment: a registered id, module:Id, or a function that makes one.

    `reward` names the entries of a vector reward that are added up ("-2": minus entry 2). A cost is a function of
    (obs, action, next_obs, reward, info), a key of `info`, or an entry of the vector reward (`cost_entries`); several
    are possible. Without any, `info["cost"]` or `info["costs"]` is used if there is one; `cost=()` means no costs.
    Success is a function or a key of `info`; without it, `info["is_success"]` or `info["success"]`, if there is one.
    """
    if not isinstance(env, str) and (isinstance(env, gymnasium.Env) or not callable(env)):
        kind = type(env).__name__
        raise UserError(f"env is an object of type {kind}; give an id, or a function that makes it: lambda: {kind}(…)")
    if env_args is not None and not isinstance(env_args, Mapping):
        raise UserError(f"env_args is {env_args!r}; give arguments by name, such as env_args={{'size': 5}}")
    if time_limit is not None:
        require(
            isinstance(time_limit, int) and 1 <= time_limit <= MOST,
            "time_limit",
            time_limit,
            "give a whole number of at least 1",
        )
    title = name or (env if isinstance(env, str) else getattr(env, "__name__", "environment").strip("<>"))
    make = partial(make_gymnasium, env, dict(env_args or {}), time_limit, title)
    seen = probe(make, title)
    labelling = _labelling(seen, title, reward, cost, cost_entries, success)
    names, places = _cost_names(labelling, seen, title)
    _try_success(labelling.success, seen, title)
    labelling = labelling._replace(places=places, in_place=seen.in_place)
    space = seen.observation_space
    columns = Columns(spaces.flatdim(space), len(names), labelling.extras)
    host = Host(title, make, labelling, columns, seen.seconds, seen.first)
    defaults = collect_defaults([*labelling.costs, *([labelling.success] if labelling.success else [])])
    low, high = bounds(space)
    return Environment(
        name=title,
        spec=Spec(
            observations=columns.observations,
            actions=seen.actions,
            costs=columns.costs,
            low=low,
            high=high,
            time_limit=seen.limit,
            success=labelling.success is not None,
            scaled=True,
            extras=columns.extras,
        ),
        reset=_on_host,
        step=_on_host,
        settings={
            "gymnasium": env if isinstance(env, str) else None,
            "env_args": {name: _plain(name, value) for name, value in (env_args or {}).items()},
            "time_limit": time_limit,
            "reward": None if labelling.reward is None else [list(entry) for entry in labelling.reward],
            "costs": [dict(function.about) for function in labelling.costs],
            "success_function": with_parameters(labelling.success) if labelling.success else None,
            "code": _code(env),
        },
        to_json=lambda task: {"args": args_to_json(task.params)},
        from_json=partial(_args_from_json, defaults),
        relabel_all=partial(_relabel, host, space),
        params=defaults,
        cost_names=names,
        with_args=with_args,
        host=host,
    )


def _code(env: str | Callable[..., gymnasium.Env]) -> dict[str, str] | None:
    """Name and hash of what makes the environment: a function, or the module of a module:Id."""
    if callable(env):
        return described(env)
    module = sys.modules.get(env.partition(":")[0]) if ":" in env else None
    file = getattr(module, "__file__", None)
    return {"function": env, "source": Path(file).name, "sha256": file_hash(Path(file))} if file else None


def _plain(name: str, value: Any) -> Any:
    """An argument of an environment as config.json stores it: arrays as lists."""
    plain = np.asarray(value).tolist() if isinstance(value, np.ndarray | np.generic) else value
    try:
        json.dumps(plain)
    except (TypeError, ValueError):
        raise UserError(
            f"the environment's argument '{name}' is of type {type(value).__name__}, which a run folder cannot store; "
            "give a function without arguments that makes the environment"
        ) from None
    return plain


def _on_host(*args: Any) -> Any:
    raise UserError("this environment runs on the host; it has no compiled reset and step")


def _labelling(seen: Probe, title: str, reward: Any, cost: Any, cost_entries: Any, success: Any) -> Labelling:
    size = np.size(seen.reward)
    extras = 0 if np.ndim(seen.reward) == 0 else size
    if extras and reward is None:
        raise UserError(
            f"the environment '{title}' has a vector reward with {size} entries; say which is the reward, such as "
            "reward=0 (--reward-entries 0), and which are costs"
        )
    chosen, priced = _entries(reward, "reward"), _entries(cost_entries, "cost_entries")
    for entry, _ in (*chosen, *priced):
        if entry >= extras:
            there = f"entries 0 … {extras - 1}" if extras else "one number, not a vector"
            raise UserError(f"entry {entry} of the reward of '{title}': its reward has {there}")
    costs = [from_reward(*entry) for entry in priced] + _sources(cost, seen, title)
    if cost is None and not costs:
        costs = [from_info(key) for key in ("cost", "costs") if key in seen.infos][:1]
    if success is None:
        success = next((key for key in ("is_success", "success") if key in seen.infos), None)
    found = [from_info(success)] if isinstance(success, str) else _sources(success, seen, title)
    lenient = tuple(_lenient(one, seen) for one in costs)
    return Labelling(tuple(chosen) if extras else None, lenient, _lenient(found[0], seen) if found else None, extras)


def _entries(given: Any, name: str) -> list[tuple[int, float]]:
    """Indices and signs of one or several entries of a vector reward."""
    if not isinstance(given, int | str | Sequence | None):
        raise UserError(f"{name} is {given!r}; give the number of an entry of the vector reward, or a list of them")
    return [parse_entry(entry) for entry in ([given] if isinstance(given, int | str) else given or ())]


def _sources(given: Any, seen: Probe, title: str) -> list[StepFunction]:
    """Functions from functions, keys of `info`, or a sequence of these."""
    if given is None:
        return []
    if isinstance(given, str):
        if given not in seen.infos:
            if not seen.infos:
                raise UserError(f"the environment '{title}' has an empty info, without '{given}'; give a function")
            raise unknown(f"entry of the info of '{title}'", given, seen.infos)
        return [from_info(given)]
    if callable(given):
        return [own_function(given)]
    if not isinstance(given, Sequence):
        raise UserError(
            f"{given!r} is no function of a step and no key of info; an entry of a vector reward is a cost by "
            f"cost_entries=[{given!r}] (--cost-entries)"
        )
    return [function for one in given for function in _sources(one, seen, title)]


def _lenient(function: StepFunction, seen: Probe) -> StepFunction:
    """An entry of `info` is 0 where `info` lacks it: many environments give a cost or success only when it happens."""
    key = function.about.get("info")
    if key is None:
        return function
    first = seen.infos.get(str(key), 0.0)
    nothing: Any = {} if isinstance(first, Mapping) else np.zeros(np.shape(first)) if np.ndim(first) else 0.0
    return function._replace(call=lambda obs, action, next_obs, reward, info: info.get(key, nothing))


def _cost_names(labelling: Labelling, seen: Probe, title: str) -> tuple[tuple[str, ...], tuple[Place, ...]]:
    """The names of all costs, and the places of each function's costs.

    If a function returns several costs, they get the names in `info`, or numbers.
    """
    names: list[str] = []
    places: list[Place] = []
    for function in labelling.costs:
        try:
            key = function.about.get("info")  # an entry that the first step may not have
            known = isinstance(key, str) and key in seen.infos
            found = seen.infos[str(key)] if known else function(*seen.step, plain_args(function.defaults))
        except Exception as error:
            raise UserError(
                f"the cost function '{function.name}' raised {type(error).__name__}: {error} in the first step of "
                f"'{title}'"
            ) from error
        if isinstance(found, Mapping):
            names += [str(key) for key in found]
            places.append(Place(slice(len(names) - len(found), len(names)), tuple(found)))
            continue
        try:
            values = np.asarray(found, np.float64)
        except (TypeError, ValueError):
            raise UserError(f"the cost function '{function.name}' returned {found!r}; return a number") from None
        if values.ndim > 1 or (values < 0).any() or not np.isfinite(values).all():
            raise UserError(
                f"the cost function '{function.name}' returned {found!r}; return a finite number of at least 0, or a "
                "vector of them"
            )
        place = len(names)
        places.append(Place(place if values.ndim == 0 else slice(place, place + values.size)))
        names += [function.name] if values.ndim == 0 else [f"{function.name}[{n}]" for n in range(values.size)]
    if len(set(names)) < len(names):
        names = [f"{name} {n + 1}" for n, name in enumerate(names)]
    return tuple(names), tuple(places)


def _try_success(function: StepFunction | None, seen: Probe, title: str) -> None:
    """Raise if the function of success fails in the first step."""
    if function is None:
        return
    try:
        bool(function(*seen.step, plain_args(function.defaults)))
    except Exception as error:
        raise UserError(
            f"the success function '{function.name}' raised {type(error).__name__}: {error} in the first step of "
            f"'{title}'"
        ) from error


def bounds(space: spaces.Space) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Lower and upper bound of each flattened observation; infinite where there is none."""
    flat = spaces.flatten_space(space)
    assert isinstance(flat, spaces.Box)
    low, high = np.asarray(flat.low, np.float64).ravel(), np.asarray(flat.high, np.float64).ravel()
    fixed = low >= high  # an observation that never changes
    free = (np.abs(low) > ENDLESS) | (np.abs(high) > ENDLESS)
    low, high = np.where(free, -np.inf, low), np.where(free, np.inf, np.where(fixed, low + 1, high))
    return tuple(low.tolist()), tuple(high.tolist())


def _args_from_json(defaults: Args, task: str, data: dict[str, Any]) -> Args:
    del task
    return stored_args(defaults, typed(dict[str, Any], data.get("args", {}), "args"))


def _relabel(host: Host, space: spaces.Space, steps: Transition, args: PyTree) -> Transition:
    try:
        return host.relabel(steps, args, space)
    except NeedsInfo as error:
        names = ", ".join(f"'{function.name}'" for function in host.labelling.costs)
        raise NeedsInfo(
            f"stored steps cannot get the costs of {names}: the function {error}; write it as a function of "
            "observations, action and reward"
        ) from None
    except Exception as error:
        raise UserError(f"a cost function raised {type(error).__name__}: {error} for a stored step") from error
