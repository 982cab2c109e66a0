"""Units of rewards and costs, from what an agent has observed, so that its settings are pure numbers.

The unit of rewards is the largest absolute reward or discounted return of an episode so far. The unit of a cost is its
budget (in training the target cost, if one is set), or the largest cost of a step so far if that is larger, as with a
budget of 0. If rewards, or costs and budgets, are given in other units, these units change with them, and the agent
learns the same.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


class Scale(NamedTuple):
    """What the units are computed from."""

    reward: Array  # [] largest absolute reward or discounted return so far
    cost: Array  # [J] largest cost of a step so far


class Units(NamedTuple):
    """The units; 0 as long as nothing but zeros was observed."""

    reward: Array  # []
    cost: Array  # [J]

    @property
    def lam(self) -> Array:
        """The unit of λ [J]: this much reward for this much cost; 1 if one of both is not known yet."""
        known = (self.reward > 0) & (self.cost > 0)
        return jnp.where(known, self.reward / jnp.where(known, self.cost, 1.0), 1.0)


def known(unit: Array) -> Array:
    """A unit to divide by: 1 as long as nothing is known, since everything that it divides is 0 then."""
    return jnp.where(unit > 0, unit, 1.0)


def init(costs: int) -> Scale:
    """Before the first step."""
    return Scale(jnp.zeros(()), jnp.zeros(costs))


def push(scale: Scale, reward: Array, cost: Array, ret: Array, time: Array, gamma: float) -> Scale:
    """After one more step; `ret` and `time` are the return and the length of its episode so far.

    The discounted return is that of an episode with the same rewards in equal parts.
    """
    steps = time.astype(jnp.float32)
    discounted = ret / steps * (1 - gamma**steps) / (1 - gamma)
    most = jnp.maximum(jnp.abs(discounted), jnp.abs(reward))
    return Scale(jnp.maximum(scale.reward, most), jnp.maximum(scale.cost, cost))


def units(scale: Scale, budgets: Array) -> Units:
    """The units for these budgets [J]."""
    return Units(scale.reward, jnp.maximum(budgets, scale.cost))


def ones(costs: int) -> Units:
    """Units that change nothing."""
    return Units(jnp.ones(()), jnp.ones(costs))
