"""The type of all environments: a record of pure functions for one agent; the engine vmaps and compiles them.

`params` is a pytree of arrays and a traced argument: a new map, cost or goal needs no recompilation. An environment
does not reset itself; `envs.episode` resets it and counts time, return and cost.

A new environment needs a `Spec`, `reset` and `step`. Every hook may be None; code that needs it raises an error then.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core.replay import Codec
from safedsr.errors import UserError
from safedsr.types import PyTree, Transition
from safedsr.validation import MOST, parse_budgets, require, shown

MOST_OBSERVATIONS = 4096  # of an environment that an adapter takes
ENDLESS = 1e6  # a bound beyond this is no bound


@dataclass(frozen=True)
class Spec:
    """Static properties of an environment; hashable, so that compiled programs may depend on them."""

    observations: int
    """Length of the observation vector."""
    actions: int
    """Number of actions."""
    costs: int
    """J, the number of costs."""
    low: tuple[float, ...] | None = None
    """Lower bound of each observation, if there are bounds; -inf where an observation has none."""
    high: tuple[float, ...] | None = None
    """Upper bound of each observation."""
    reward_range: tuple[float, float] | None = None
    """Smallest and largest reward of a step, if known."""
    cost_ceilings: tuple[float, ...] | None = None
    """Largest value of each cost in a step, if known."""
    time_limit: int | None = None
    """Steps after which an episode is truncated; None if `step` itself ends every episode."""
    action_names: tuple[str, ...] = ()
    """Names of the actions, if they have names."""
    success: bool = True
    """Whether episodes can succeed, for example by reaching a goal. If not, every finished episode counts as a success,
    and tables speak of return, cost and safe episodes instead of goals."""
    scaled: bool = False
    """Whether value-based agents scale observations: by their bounds, or by mean and standard deviation of the first
    steps where there are no bounds (on-policy agents normalise observations anyway)."""
    extras: int = 0
    """Number of further values of a step that are stored with it, for example the entries of a vector reward."""

    def __post_init__(self) -> None:
        for name, least in (("observations", 1), ("actions", 1), ("costs", 0), ("extras", 0)):
            value = getattr(self, name)
            require(isinstance(value, int) and value >= least, name, value, f"give a whole number of at least {least}")
        limit = self.time_limit
        known = limit is None or (isinstance(limit, int) and 1 <= limit <= MOST)
        require(known, "time_limit", limit, f"give at least 1 and at most {MOST}, or None")
        sizes = {"low": self.observations, "high": self.observations, "cost_ceilings": self.costs, "reward_range": 2}
        for name, size in sizes.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._numbers(name, size))
        require((self.low is None) == (self.high is None), "low, high", (self.low, self.high), "give both or neither")
        for low, high in zip(self.low or (), self.high or (), strict=True):
            require(low < high, "low, high", (low, high), "each lower bound must be below its upper bound")
        object.__setattr__(self, "action_names", tuple(self.action_names))
        named = len(self.action_names) in (0, self.actions)
        require(named, "action_names", self.action_names, f"give {self.actions} names, or none")

    def _numbers(self, name: str, size: int) -> tuple[float, ...]:
        given = getattr(self, name)
        try:
            numbers = tuple(float(value) for value in given)
        except (TypeError, ValueError):
            numbers = ()
        endless = name in ("low", "high")  # an observation may have no bound
        fine = len(numbers) == size and all(math.isfinite(x) or (endless and math.isinf(x)) for x in numbers)
        require(fine, name, given, f"give {size} {'' if endless else 'finite '}numbers, or None")
        return numbers

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Lower and upper bound of each observation; infinite where there is none."""
        endless = (math.inf,) * self.observations
        return self.low or tuple(-x for x in endless), self.high or endless

    @property
    def codec(self) -> Codec:
        """How transitions and records of this environment become rows."""
        return Codec(self.observations, self.costs, self.extras)


class Step(NamedTuple):
    """The result of one environment step."""

    obs: Array  # [observations] s′
    reward: Array  # []
    cost: Array  # [J]
    terminated: Array  # [] bool, the episode has ended in a terminal state
    truncated: Array  # [] bool, the episode was cut short, for example by a time limit
    success: Array  # [] bool, the task was completed; an episode may also terminate without success


class Groups(NamedTuple):
    """A partition of the states into numbered groups, for example the cells of a map.

    `frame` gives the arrays that the other functions need of the parameters; they are saved with a policy.
    """

    count: Callable[[PyTree], int]  # params -> number of groups, from the shapes only
    frame: Callable[[PyTree], PyTree]  # params -> frame
    index: Callable[[PyTree, Array], Array]  # (frame, obs) -> number of the group
    scaled: Callable[[PyTree, Array], Array]  # (frame, obs) -> obs between 0 and 1
    units: Callable[[PyTree, Array], Array]  # (frame, obs) -> obs in units of a group's width
    own: Callable[[PyTree, PyTree], np.ndarray]  # (frame of stacked params, params) -> groups without padding
    grow: Callable[[PyTree, Array], tuple[PyTree, Array]] | None = None
    """(frame, obs [n, …]) -> frame after these observations, and which groups are new, if groups are learnt."""


def stack_arrays(params: Sequence[PyTree]) -> PyTree:
    """Parameters of equal shapes, stacked along a new leading axis."""
    shapes = [jax.tree.map(np.shape, one) for one in params]
    if any(shape != shapes[0] for shape in shapes):
        raise UserError(
            "the parameters of the tasks have different shapes; give them equal shapes, or the environment a function "
            "'stack'"
        )
    return jax.tree.map(lambda *leaves: np.stack(leaves), *params)


@dataclass(frozen=True, eq=False)
class Environment:
    """An environment as pure functions."""

    name: str
    spec: Spec
    reset: Callable[[Array, PyTree], tuple[PyTree, Array]]
    """(key, params) -> state, observation."""
    step: Callable[[Array, PyTree, Array, PyTree], tuple[PyTree, Step]]
    """(key, state, action, params) -> state, Step; without a reset, also if the episode has ended."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that config.json stores with the name."""
    stack: Callable[[Sequence[PyTree]], PyTree] = stack_arrays
    """Parameters of several tasks -> one pytree with a leading axis."""
    to_json: Callable[["Task"], dict[str, Any]] | None = None
    """Task -> its parameters for config.json."""
    from_json: Callable[[str, dict[str, Any]], PyTree] | None = None
    """(name of the task, result of `to_json`) -> parameters."""
    ceilings: Callable[[PyTree], Array] | None = None
    """Params -> largest value of each cost in a step [J], if it depends on the parameters."""
    relabel: Callable[[Transition, PyTree], Transition] | None = None
    """A stored transition with the costs of other parameters; adaptation needs it. If SafeDSR has terminal="restart",
    s′ of a transition that terminated is the start of the next episode."""
    relabel_all: Callable[[Transition, PyTree], Transition] | None = None
    """Like `relabel`, for many transitions [n] at once and not compiled; for environments on the host."""
    groups: Groups | None = None
    """The environment's own groups of states."""
    position: Callable[[Array, PyTree], Array] | None = None
    """(obs, params) -> position (x, y) for figures."""
    random_steps: Callable[[Array, PyTree, int], Transition] | None = None
    """(key, params, count) -> independent transitions from random states."""
    params: PyTree = ()
    """Parameters of a task, if nothing else is said."""
    cost_names: tuple[str, ...] = ()
    """Names of the costs, if nothing else is said."""
    with_args: Callable[[PyTree, Mapping[str, Any]], PyTree] | None = None
    """(params, values by name) -> params with other parameters of the cost functions."""
    inside: Callable[[np.ndarray, PyTree], np.ndarray] | None = None
    """(obs [n, …], params) -> which observations are possible [n]; `act` refuses the others."""
    host: Any = None
    """The `envs.copies.Host` of an environment that runs in Python, instead of `reset` and `step`; else None."""

    def signal_ranges(self, params: PyTree) -> tuple[Array, Array] | None:
        """Smallest and largest reward and costs of a step [1 + J], or None if they are not known."""
        ceilings = self.ceilings(params) if self.ceilings else self.spec.cost_ceilings
        if self.spec.reward_range is None or ceilings is None:
            return None
        least, greatest = self.spec.reward_range
        low = jnp.array([least] + [0.0] * self.spec.costs)
        return low, jnp.concatenate([jnp.array([greatest]), jnp.asarray(ceilings, jnp.float32)])


class Task(NamedTuple):
    """Parameters of an environment, with a name, and with a name and a budget for each cost."""

    name: str
    params: PyTree
    cost_names: tuple[str, ...]
    budgets: tuple[float, ...]

    @property
    def title(self) -> str:
        """The name of the task and of its costs."""
        return ", ".join([self.name, *self.cost_names])


def make_task(environment: Environment, budget: Any = None, args: Mapping[str, Any] = MappingProxyType({})) -> Task:
    """The environment's task with these budgets and these parameters of its cost functions."""
    names = environment.cost_names
    if not names:
        names = tuple(f"cost {j + 1}" for j in range(environment.spec.costs))
    if names and budget is None:
        raise UserError(f"no budget given for the cost '{names[0]}'; give the largest allowed cost, such as --budget 5")
    if not names and budget not in (None, ()):
        raise UserError(
            f"budget is {shown(budget)}, but there are no costs in '{environment.name}'; name a cost function, such as "
            "--cost-fn FILE.py:NAME (in Python: cost=…), or leave out the budget"
        )
    task = Task(environment.name, environment.params, names, parse_budgets(budget, len(names)) if names else ())
    return with_cost_args(environment, task, args) if args else task


def with_cost_args(environment: Environment, task: Task, args: Mapping[str, Any]) -> Task:
    """The task with other parameters of its cost functions, which its name tells."""
    change = need(environment.with_args, "with_args", environment, "another parameter of a cost function")
    told = ", ".join(f"{name}={value:g}" if isinstance(value, int | float) else name for name, value in args.items())
    return task._replace(name=f"{environment.name} ({told})", params=change(task.params, args))


def need(hook: Any, name: str, environment: Environment, what: str) -> Any:
    """A hook of an environment, or an error that says what needs it."""
    if hook is None:
        raise UserError(f"{what} needs the function '{name}', which the environment '{environment.name}' does not have")
    return hook


def check_environment(environment: Environment, params: PyTree) -> None:
    """Raise unless `reset` and `step` return what the Spec says; nothing is computed."""
    spec, where = environment.spec, f"the environment '{environment.name}'"

    def one_step(key: Array, action: Array) -> tuple[PyTree, PyTree, PyTree]:
        state, obs = environment.reset(key, params)
        after, step = environment.step(key, state, action, params)
        return obs, step, (state, after)

    shapes = jax.eval_shape(one_step, jax.random.key(0), jnp.int32(0))
    obs, step, (before, after) = shapes
    wanted = {"obs": (spec.observations,), "reward": (), "cost": (spec.costs,)}
    wanted |= dict.fromkeys(("terminated", "truncated", "success"), ())
    found = {"reset's obs": (obs.shape, wanted["obs"])}
    found |= {f"step's {name}": (getattr(step, name).shape, shape) for name, shape in wanted.items()}
    for name, (given, want) in found.items():
        if given != want:
            raise UserError(
                f"{where}: {name} has shape {list(given)}, and its Spec says {spec.observations} observations and "
                f"{spec.costs} costs: return {list(want)}"
            )
    kinds = [[(x.shape, x.dtype) for x in jax.tree.leaves(state)] for state in (before, after)]
    if jax.tree.structure(before) != jax.tree.structure(after) or kinds[0] != kinds[1]:
        raise UserError(
            f"{where}: reset and step return states of different structure, shapes or types; make them equal"
        )
