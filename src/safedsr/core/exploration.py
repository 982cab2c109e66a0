"""Exploration: the schedule of ε, and the ε-greedy choice."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from safedsr.core.config import EpsilonSchedule


def anneal(step: ArrayLike, start: ArrayLike, end: ArrayLike, begin: int, finish: int) -> Array:
    """A schedule: `start` until step `begin`, then linear, `end` from step `finish` on."""
    share = jnp.clip((jnp.asarray(step) - begin) / max(finish - begin, 1), 0.0, 1.0)
    return jnp.asarray(start + share * (jnp.asarray(end) - start))


def epsilon_at(step: ArrayLike, schedule: EpsilonSchedule) -> Array:
    """ε at an environment step (Tables 1 and 2, ε-annealing)."""
    return anneal(step, schedule.epsilon_start, schedule.epsilon_end, *schedule.span)


def epsilon_greedy(luck: Array, best: Array, epsilon: ArrayLike, actions: int) -> Array:
    """The greedy action `best`, or with probability ε a random one; `luck` is two uniform random numbers."""
    explore, which = luck
    return jnp.where(explore < epsilon, (which * actions).astype(jnp.int32), best)
