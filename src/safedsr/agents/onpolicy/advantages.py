"""Generalised advantage estimation over an epoch of many episodes."""

import jax
import jax.numpy as jnp
from jax import Array


def gae(reward: Array, value: Array, next_value: Array, done: Array, gamma: float, lam: float) -> Array:
    """Advantages [T] from V(s), V(s′) [T]; `next_value` is 0 after termination, `done` 1 where an episode ends."""
    delta = reward + gamma * next_value - value
    carry = gamma * lam * (1.0 - done)

    # Each step A_t = δ_t + carry_t · A_{t+1} is an affine map, and affine maps compose associatively.
    def compose(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    _, advantage = jax.lax.associative_scan(compose, (carry, delta), reverse=True)
    return advantage


def standardize(advantage: Array) -> Array:
    """Reward advantages with mean 0 and standard deviation 1 over the epoch."""
    centred = center(advantage)
    return centred / (jnp.std(advantage) + 1e-8)


def center(advantage: Array) -> Array:
    """Cost advantages with mean 0; they are not rescaled, so that they keep the scale of the cost."""
    return advantage - jnp.mean(advantage, 0, keepdims=True)
