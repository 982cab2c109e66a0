"""What agents act in: one record of pure functions, for one walker; the engine vmaps and compiles them.

`params` is a pytree of arrays and a traced argument: another map, another cost or another goal never recompiles. An
environment does not reset itself; `envs.episode` does that around it, and keeps time, return and cost.

A new environment needs a `Spec`, `reset` and `step`; every hook may stay None, and what needs it says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.errors import UserError
from safedsr.types import PyTree, Transition
from safedsr.validation import require


@dataclass(frozen=True)
class Spec:
    """What is known of an environment before it is run; hashable, so that compiled programs may depend on it."""

    observations: int
    """Length of the observation vector."""
    actions: int
    """Number of actions."""
    costs: int
    """J, the number of costs."""
    low: tuple[float, ...] | None = None
    """Lower bound of each observation, if there are bounds."""
    high: tuple[float, ...] | None = None
    """Upper bound of each observation."""
    reward_range: tuple[float, float] | None = None
    """Least and greatest reward of a step, if known."""
    cost_ceilings: tuple[float, ...] | None = None
    """Greatest cost of a step, of each cost, if known."""
    action_names: tuple[str, ...] = ()
    """What the actions are called, if they have names."""

    def __post_init__(self) -> None:
        for name, least in (("observations", 1), ("actions", 1), ("costs", 0)):
            value = getattr(self, name)
            require(isinstance(value, int) and value >= least, name, value, f"give a whole number of at least {least}")
        sizes = {"low": self.observations, "high": self.observations, "cost_ceilings": self.costs}
        for name, size in sizes.items():
            value = getattr(self, name)
            require(value is None or len(value) == size, name, value, f"give {size} numbers, or None")
        require((self.low is None) == (self.high is None), "low, high", (self.low, self.high), "give both or neither")
        named = len(self.action_names) in (0, self.actions)
        require(named, "action_names", self.action_names, f"give {self.actions} names, or none")


class Step(NamedTuple):
    """What one environment step gives."""

    obs: Array  # [observations] s′
    reward: Array  # []
    cost: Array  # [J]
    terminated: Array  # [] bool, the episode has ended and nothing follows
    truncated: Array  # [] bool, the episode was cut short, for example by a time limit
    success: Array  # [] bool, the task was done; not every episode that terminates is one


class Features(NamedTuple):
    """States in numbered groups (the cells of a map), where an environment knows better than any other partition.

    `frame` holds what the others need of the parameters, as arrays: it becomes part of a policy.
    """

    count: Callable[[PyTree], int]  # params -> number of groups, from shapes alone
    frame: Callable[[PyTree], PyTree]  # params -> frame
    index: Callable[[PyTree, Array], Array]  # (frame, obs) -> number of the group
    scaled: Callable[[PyTree, Array], Array]  # (frame, obs) -> obs between 0 and 1
    units: Callable[[PyTree, Array], Array]  # (frame, obs) -> obs in units of a group's width
    own: Callable[[PyTree, PyTree], np.ndarray]  # (frame of stacked params, params) -> the numbers that are its own


def stack_arrays(params: Sequence[PyTree]) -> PyTree:
    """Parameters of one shape with a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *params)


@dataclass(frozen=True, eq=False)
class Environment:
    """An environment as pure functions."""

    name: str
    spec: Spec
    reset: Callable[[Array, PyTree], tuple[PyTree, Array]]
    """(key, params) -> state, observation."""
    step: Callable[[Array, PyTree, Array, PyTree], tuple[PyTree, Step]]
    """(key, state, action, params) -> state, Step; without a reset, whatever the step says."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What config.json keeps of it, beside its name."""
    stack: Callable[[Sequence[PyTree]], PyTree] = stack_arrays
    """Parameters of several tasks -> one pytree with a leading axis."""
    to_json: Callable[["Task"], dict[str, Any]] | None = None
    """A task's parameters for config.json."""
    from_json: Callable[[str, dict[str, Any]], PyTree] | None = None
    """(task's name, what `to_json` gave) -> parameters."""
    ceilings: Callable[[PyTree], Array] | None = None
    """Params -> greatest cost of a step [J], where that depends on them."""
    relabel: Callable[[Transition, PyTree], Transition] | None = None
    """A remembered transition with the costs of other parameters."""
    features: Features | None = None
    """Groups of states of its own."""
    position: Callable[[Array, PyTree], Array] | None = None
    """(obs, params) -> (x, y), to draw."""
    random_steps: Callable[[Array, PyTree, int], Transition] | None = None
    """(key, params, count) -> transitions that begin anywhere, none of which leads to another."""

    def signal_ranges(self, params: PyTree) -> tuple[Array, Array] | None:
        """Least and greatest reward and costs of a step [1 + J], or None where they are not known."""
        ceilings = self.ceilings(params) if self.ceilings else self.spec.cost_ceilings
        if self.spec.reward_range is None or ceilings is None:
            return None
        least, greatest = self.spec.reward_range
        low = jnp.array([least] + [0.0] * self.spec.costs)
        return low, jnp.concatenate([jnp.array([greatest]), jnp.asarray(ceilings, jnp.float32)])


class Task(NamedTuple):
    """Parameters of an environment with their names, and a budget for each cost."""

    name: str
    params: PyTree
    cost_names: tuple[str, ...]
    budgets: tuple[float, ...]

    @property
    def title(self) -> str:
        """The parameters and their costs in a few words."""
        return ", ".join([self.name, *self.cost_names])


def need(hook: Any, environment: Environment, what: str) -> Any:
    """A hook of an environment, or an error that says what needs it."""
    if hook is None:
        raise UserError(f"{what}, and the environment '{environment.name}' does not offer that")
    return hook
