"""Exploration: ε over environment steps, and the ε-greedy choice."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from safedsr.core.config import EpsilonSchedule


def anneal(step: ArrayLike, start: ArrayLike, end: ArrayLike, begin: int, finish: int) -> Array:
    """`start` until step `begin`, then linearly to `end` at step `finish`, then `end`."""
    share = jnp.clip((jnp.asarray(step) - begin) / max(finish - begin, 1), 0.0, 1.0)
    return jnp.asarray(start + share * (jnp.asarray(end) - start))


def epsilon_at(step: ArrayLike, schedule: EpsilonSchedule) -> Array:
    """ε at an environment step (Tables 1 and 2, ε-annealing)."""
    return anneal(step, schedule.epsilon_start, schedule.epsilon_end, schedule.epsilon_from, schedule.epsilon_to)


def epsilon_greedy(luck: Array, best: Array, epsilon: ArrayLike, actions: int) -> Array:
    """The best action, or with probability ε any of them; `luck` is two uniform numbers."""
    explore, which = luck
    return jnp.where(explore < epsilon, (which * actions).astype(jnp.int32), best)
