"""gymnax environments, and others of their form such as craftax, as an `Environment`.

gymnax is not a dependency; it is imported if an environment is named by its id. Costs and success are functions of a
step (`envs.functions`), compiled with the environment: they are written with jax.numpy, and nothing checks the numbers
that they return. A negative cost lowers the cost of its episode; training stops when a cost that is not finite reaches
the agent's state.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import MOST_OBSERVATIONS, Environment, Spec, Step, Task
from safedsr.envs.functions import (
    Args,
    NeedsInfo,
    NoInfo,
    StepFunction,
    args_to_json,
    collect_defaults,
    own_function,
    stored_args,
    with_args,
    with_parameters,
)
from safedsr.envs.pytrees import View, as_jax, as_numpy, bounds, changes, leaves_by_name, with_numbers
from safedsr.errors import UserError, unknown
from safedsr.types import PyTree, Transition

TIME_LIMITS = ("max_steps_in_episode", "max_timesteps")  # the parameter's name in gymnax and in craftax
NEVER = 2**30  # a time limit that no episode reaches

OwnFunction = Callable[..., Any] | StepFunction


class Running(NamedTuple):
    """State of an episode."""

    inner: PyTree  # the environment's own state
    obs: PyTree  # s, as the environment gave it: costs may depend on it


class Clock(NamedTuple):
    """The time limit among the environment's parameters."""

    name: str  # of the parameter; empty if there is none
    ends: bool  # whether `done` of a step includes the limit, as it does up to gymnax 0.0.9
    seen: bool  # whether an observation depends on the limit, too


@dataclasses.dataclass(frozen=True, eq=False)
class Adapter:
    """The functions of an `Environment` for a gymnax environment.

    Parameters of a task are {"env": the environment's own, "args": those of the cost functions}.
    """

    env: Any
    params: dict[str, PyTree]
    """Parameters of a task, if nothing else is said."""
    view: View
    clock: Clock
    costs: tuple[StepFunction, ...]
    success: StepFunction | None

    def reset(self, key: Array, params: PyTree) -> tuple[Running, Array]:
        """A new episode."""
        params = as_jax(params)
        obs, inner = self.env.reset_env(key, params["env"])
        return Running(inner, obs), self.view.flatten(obs)

    def step(self, key: Array, state: Running, action: Array, params: PyTree) -> tuple[Running, Step]:
        """One step, with its costs and its success."""
        params = as_jax(params)
        obs, inner, reward, terminated, truncated, info = self._step(key, state.inner, action, params["env"])
        reward = jnp.asarray(reward, jnp.float32)
        given = (state.obs, action, obs, reward, info, params["args"])
        terminated, truncated = (jnp.asarray(flag, bool) for flag in (terminated, truncated))
        return Running(inner, obs), Step(
            obs=self.view.flatten(obs),
            reward=reward,
            cost=self.price(*given),
            terminated=terminated,
            truncated=truncated & ~terminated,
            success=jnp.ones((), bool) if self.success is None else _call(self.success, *given) != 0,
        )

    def _step(self, key: Array, state: PyTree, action: Array, params: PyTree) -> tuple[Any, ...]:
        """Observation, state, reward, terminated, truncated and info of a step."""
        without_end = dataclasses.replace(params, **{self.clock.name: NEVER}) if self.clock.ends else params
        obs, after, reward, terminated, *truncated, info = self.env.step_env(key, state, action, without_end)
        if self.clock.seen:
            obs, after, reward, *_, info = self.env.step_env(key, state, action, params)
        if not truncated and hasattr(self.env, "is_truncated"):  # gymnax 1
            truncated = [self.env.is_truncated(after, params)]
        return obs, after, reward, terminated, *(truncated or [False]), info

    def price(self, obs: PyTree, action: Array, next_obs: PyTree, reward: Array, info: Any, args: Args) -> Array:
        """The costs [J] of a step."""
        found = [_call(function, obs, action, next_obs, reward, info, args) for function in self.costs]
        return jnp.concatenate([jnp.atleast_1d(cost) for cost in found]) if found else jnp.zeros(0)

    def relabel(self, t: Transition, params: PyTree) -> Transition:
        """A stored transition with the costs of other parameters."""
        params = as_jax(params)
        obs, next_obs = self.view.restore(t.obs), self.view.restore(t.next_obs)
        return t._replace(cost=self.price(obs, t.action, next_obs, t.reward, NoInfo(), params["args"]))

    def with_args(self, params: PyTree, given: Mapping[str, Any]) -> PyTree:
        """Parameters of a task with other parameters of the cost functions."""
        return {**params, "args": with_args(params["args"], given)}

    def to_json(self, task: Task) -> dict[str, Any]:
        """Parameters of a task as JSON."""
        numbers = {name: np.asarray(leaf).tolist() for name, leaf in leaves_by_name(task.params["env"]).items()}
        return {"env": numbers, "args": args_to_json(task.params["args"])}

    def from_json(self, name: str, data: Any) -> PyTree:
        """What `to_json` wrote as parameters; those that it did not write have their defaults."""
        numbers, args = (data.get(part) if isinstance(data, Mapping) else None for part in ("env", "args"))
        if not isinstance(numbers, Mapping) or not isinstance(args, Mapping):
            raise UserError(f"the parameters of the task '{name}' are {data!r}; they need the parts 'env' and 'args'")
        env = with_numbers(self.params["env"], numbers)
        self._check_limit(name, env)
        return {"env": env, "args": stored_args(self.params["args"], args)}

    def _check_limit(self, name: str, params: PyTree) -> None:
        """The engine ends episodes of all tasks at the environment's limit."""
        now, then = (time_limit(each, self.clock.name) for each in (self.params["env"], params))
        if now != then:
            raise UserError(
                f"the task '{name}' has {self.clock.name} {then} and the environment {now}; give from_gymnax the same "
                "env_params"
            )


def from_gymnax(
    env: Any,
    env_params: Any = None,
    *,
    cost: OwnFunction | Sequence[OwnFunction] | None = None,
    success: OwnFunction | None = None,
    name: str | None = None,
) -> Environment:
    """A gymnax environment, or the id of one, with costs.

    `cost` is a function (obs, action, next_obs, reward, info) that returns a number or a vector, or several such
    functions; `success` returns whether the episode succeeds if it ends with this step. Their parameters with a default
    can change without a new compilation. `env_params` may also be numbers by name, which replace the environment's
    defaults; the time limit of all tasks is the one in there.
    """
    if isinstance(env, str):
        name, env = name or f"gymnax:{env}", _make(env)
    if not callable(getattr(type(env), "step_env", None)):
        raise UserError(
            f"{type(env).__name__} is not a gymnax environment: it has no 'step_env'; give an environment without "
            "wrappers, or an id such as 'CartPole-v1'"
        )
    usual, name = as_numpy(env.default_params), name or type(env).__name__
    own = with_numbers(usual, env_params or {}) if isinstance(env_params, Mapping | None) else as_numpy(env_params)
    costs = tuple(own_function(one) for one in _listed(cost))
    goal = None if success is None else own_function(success)
    params = {"env": own, "args": collect_defaults([*costs, *_listed(goal)])}
    actions = _count_actions(env.action_space(own), name)
    space = env.observation_space(own)
    view, clock = _view(env, own, space, name), _clock(env, own)
    adapter = Adapter(env, params, view, clock, costs, goal)
    cost_names = _cost_names(adapter)
    low, high = bounds(space, view)
    return Environment(
        name=name,
        spec=Spec(
            observations=view.size,
            actions=actions,
            costs=len(cost_names),
            low=low,
            high=high,
            time_limit=time_limit(own, clock.name),
            success=goal is not None,
            scaled=True,
        ),
        reset=adapter.reset,
        step=adapter.step,
        settings={
            "env_args": changes(own, usual),
            "costs": [dict(function.about) for function in costs],
            "success_function": with_parameters(goal) if goal else None,
        },
        to_json=adapter.to_json,
        from_json=adapter.from_json,
        relabel=adapter.relabel,
        params=params,
        cost_names=cost_names,
        with_args=adapter.with_args,
    )


def time_limit(params: PyTree, name: str) -> int | None:
    """The time limit that the environment's parameters give."""
    limit = getattr(params, name) if name else NEVER
    return int(limit) if limit < NEVER else None


def _clock(env: Any, params: PyTree) -> Clock:
    """The environment's time limit, and which results of a step depend on it."""
    name = next((name for name in TIME_LIMITS if hasattr(params, name)), "")

    def one_step(limit: Array) -> tuple[Any, ...]:
        key, own = jax.random.key(0), as_jax(params)
        _, state = env.reset_env(key, own)
        return env.step_env(key, state, jnp.int32(0), dataclasses.replace(own, **{name: limit}) if name else own)

    def depends(result: int) -> bool:
        """vmap refuses to return one value for several limits if the value depends on the limit."""
        try:
            jax.eval_shape(jax.vmap(lambda limit: one_step(limit)[result], out_axes=None), np.arange(2))
        except ValueError:
            return True
        return False

    count = len(jax.eval_shape(one_step, np.int32(0)))
    if count not in (5, 6):
        raise UserError(f"step_env of {type(env).__name__} returns {count} values; 5 or 6 are possible")
    ends = bool(name) and depends(3)
    return Clock(name, ends, ends and depends(0))


def _make(env_id: str) -> Any:
    """The environment of an id."""
    try:
        gymnax = importlib.import_module("gymnax")
    except ImportError as error:
        raise UserError(f"'{env_id}' needs gymnax ({error}): pip install gymnax six") from error
    if env_id not in gymnax.registered_envs:
        raise unknown("gymnax environment", env_id, gymnax.registered_envs)
    try:
        return gymnax.make(env_id)[0]
    except Exception as error:
        raise UserError(f"gymnax cannot make '{env_id}': {type(error).__name__}: {_first_line(error)}") from error


def _listed(functions: Any) -> tuple[Any, ...]:
    """No function, one or several as a tuple; a StepFunction is a tuple itself."""
    if functions is None:
        return ()
    return (functions,) if callable(functions) else tuple(functions)


def _count_actions(space: Any, name: str) -> int:
    if not hasattr(space, "n"):
        raise UserError(
            f"the actions of '{name}' are a {type(space).__name__}; only discrete actions are possible: choose another "
            "environment"
        )
    return int(space.n)


def _view(env: Any, params: PyTree, space: Any, name: str) -> View:
    """How observations become vectors."""
    like, _ = jax.eval_shape(env.reset_env, jax.random.key(0), params)
    leaves = jax.tree.leaves(like)
    discrete = len(leaves) == 1 and leaves[0].shape == () and hasattr(space, "n")
    view = View(like, int(space.n) if discrete else 0)
    if view.size > MOST_OBSERVATIONS:
        raise UserError(
            f"observations of '{name}' have {view.size} numbers; at most {MOST_OBSERVATIONS} are possible: choose "
            "another environment"
        )
    return view


def _cost_names(adapter: Adapter) -> tuple[str, ...]:
    """Names of the costs; raises if a function does not return what it should in one step."""
    goal = adapter.success

    def one_step(key: Array, action: Array, params: PyTree) -> tuple[list[Array], Array | None]:
        state, _ = adapter.reset(key, params)
        obs, _, reward, *_, info = adapter._step(key, state.inner, action, params["env"])
        given = (state.obs, action, obs, jnp.asarray(reward, jnp.float32), info, params["args"])
        return [_call(function, *given) for function in adapter.costs], _call(goal, *given) if goal else None

    costs, success = jax.eval_shape(one_step, jax.random.key(0), jnp.int32(0), adapter.params)
    if goal and success.shape != ():
        raise UserError(f"the function '{goal.name}' returns shape {list(success.shape)}; return True or False")
    names = [name for function, cost in zip(adapter.costs, costs, strict=True) for name in _names(function, cost.shape)]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{names.count(name)} costs are called '{name}'; give the functions different names")
    return tuple(names)


def _names(function: StepFunction, shape: tuple[int, ...]) -> list[str]:
    if len(shape) > 1:
        raise UserError(f"the function '{function.name}' returns shape {list(shape)}; return a number or a vector")
    return [f"{function.name}[{n}]" for n in range(shape[0])] if shape else [function.name]


def _call(function: StepFunction, obs: Any, action: Any, next_obs: Any, reward: Any, info: Any, args: Args) -> Array:
    """The value of a function of a step; its errors in words."""
    about = f"the function '{function.name}'"
    try:
        found = jnp.asarray(function(obs, action, next_obs, reward, info, args), jnp.float32)
        if isinstance(info, NoInfo):
            info.require_unused()
        return found
    except NeedsInfo as error:
        raise NeedsInfo(f"{about} {error}: stored steps cannot get new costs") from error
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise UserError(
            f"{about} cannot be compiled: {_first_line(error)}; use jnp.where, & and | instead of if, and, or, and jnp "
            "instead of np"
        ) from error
    except Exception as error:
        raise UserError(f"{about} raised {type(error).__name__}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(".")
