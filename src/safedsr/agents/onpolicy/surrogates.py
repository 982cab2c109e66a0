"""Surrogate losses of a policy on a minibatch whose rows have weights (0 for padding)."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jax.nn import relu

from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.agents.onpolicy.problem import Batch, Pressure, mixed

Surrogate = Callable[[Array, Batch, Pressure, Array, OnPolicyConfig], Array]


def average(values: Array, weight: Array) -> Array:
    """Weighted mean over rows."""
    return jnp.tensordot(weight, values, 1) / weight.sum()


def plain(ratio: Array, batch: Batch, pressure: Pressure, weight: Array, config: OnPolicyConfig) -> Array:
    """-mean(ratio · A)."""
    return -average(ratio * mixed(batch, pressure.share), weight)


def clipped(ratio: Array, batch: Batch, pressure: Pressure, weight: Array, config: OnPolicyConfig) -> Array:
    """PPO's clipped loss, plus P3O's hinge penalty on the cost, if its weight is not 0."""
    advantage = mixed(batch, pressure.share)
    near = ratio.clip(1 - config.clip, 1 + config.clip)
    reward = -average(jnp.minimum(ratio * advantage, near * advantage), weight)
    cost = ratio[:, None] * batch.cost_advantage
    if config.hinge_clip:
        cost = jnp.maximum(cost, near[:, None] * batch.cost_advantage)
    return reward + pressure.hinge * relu(average(cost, weight) + pressure.excess).sum()
