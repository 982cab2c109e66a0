"""CartPole-v1 of Gymnasium in JAX, with closed zones of the track: a cost of 1 in each step that ends in one.

A pole stands on a cart that is pushed to the left or to the right; the episode ends when the pole leans by more than
12 degrees or the cart leaves the track. The equations are those of Barto, Sutton and Anderson (1983).
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Environment, Spec, Step
from safedsr.envs.twins import numbers_to_json, with_numbers
from safedsr.types import Transition

GRAVITY, CART, POLE, HALF_LENGTH, PUSH, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
TRACK, LEAN = 2.4, 12 * 2 * np.pi / 360  # beyond which the episode ends
MOST_START = 0.05  # of each number of the first state
AWAY = 100.0  # a zone that the cart never enters


class Zones(NamedTuple):
    """Two closed parts of the track, each from `low` to `high`."""

    low: Any  # [2]
    high: Any  # [2]


NO_ZONES = Zones(np.full(2, AWAY, np.float32), np.full(2, AWAY, np.float32))


def reset(key: Array, zones: Zones) -> tuple[Array, Array]:
    """A new episode: position, speed, lean and its speed, all near 0; the state is the observation."""
    del zones
    state = jax.random.uniform(key, (4,), minval=-MOST_START, maxval=MOST_START)
    return state, state


def step(key: Array, state: Array, action: Array, zones: Zones) -> tuple[Array, Step]:
    """One step of 0.02 seconds, by Euler's method."""
    del key  # nothing is random
    _, speed, lean, turn = state
    force = jnp.where(action == 1, PUSH, -PUSH)
    total, moment = CART + POLE, POLE * HALF_LENGTH
    sine, cosine = jnp.sin(lean), jnp.cos(lean)
    pull = (force + moment * turn**2 * sine) / total
    bend = (GRAVITY * sine - cosine * pull) / (HALF_LENGTH * (4.0 / 3.0 - POLE * cosine**2 / total))
    rates = jnp.stack([speed, pull - moment * bend * cosine / total, turn, bend])
    after = state + SECONDS * rates
    ended = (jnp.abs(after[0]) > TRACK) | (jnp.abs(after[2]) > LEAN)
    return after, Step(
        obs=after,
        reward=jnp.ones(()),
        cost=cost_at(after, zones),
        terminated=ended,
        truncated=jnp.zeros((), bool),
        success=jnp.ones((), bool),
    )


def cost_at(obs: Array, zones: Zones) -> Array:
    """The cost [1] of a step that ends there."""
    inside = (zones.low <= obs[0]) & (obs[0] <= zones.high)
    return inside.any().astype(jnp.float32)[None]


def relabel(t: Transition, zones: Zones) -> Transition:
    """A stored transition with the cost of other zones."""
    return t._replace(cost=cost_at(t.next_obs, zones))


def steady(state: Array) -> Array:
    """An action that keeps the pole up and the cart near the middle."""
    return (state @ jnp.array([0.3, 0.8, 8.0, 1.6]) > 0).astype(jnp.int32)


@functools.cache
def make_cartpole(time_limit: int) -> Environment:
    """CartPole with zones; its parameters are `Zones`."""
    endless = (-np.inf, np.inf)
    low, high = zip((-2 * TRACK, 2 * TRACK), endless, (-2 * LEAN, 2 * LEAN), endless, strict=True)
    return Environment(
        name="cartpole",
        spec=Spec(4, 2, 1, low=low, high=high, time_limit=time_limit, success=False, scaled=True),
        reset=reset,
        step=step,
        settings={"time_limit": time_limit},
        to_json=numbers_to_json,
        from_json=lambda name, data: with_numbers(NO_ZONES, data),
        relabel=relabel,
        params=NO_ZONES,
        cost_names=("zone",),
        with_args=with_numbers,
    )
