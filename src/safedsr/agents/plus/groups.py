"""Codes of states, whose visits SafeDSR-plus predicts: the environment's own groups, or the nearest of n points.

The points are observations. As long as fewer than n points are there, a new observation becomes one; later it replaces
a point of the closest pair, if it is farther from all points than these two are from each other. So the points spread
over what the agent has seen, none of them is unused, and they change less and less.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.value_based.trainer import scaled_spec
from safedsr.envs.environment import Environment, Groups, Spec
from safedsr.types import PyTree

FARTHER = 1.2  # a new point has to be farther by this factor (of squared distances), so that points settle


class Points(NamedTuple):
    """A codebook over observations; arrays, because it is saved with a policy."""

    points: Array  # [n, observations] scaled
    used: Array  # [n] bool
    low: Array  # [observations] what is scaled to 0
    span: Array  # [observations] how far from there the value 1 is


def groups_of(environment: Environment, config: SafeDsrPlusConfig) -> Groups:
    """The environment's own groups, if it has any and the settings say so, or groups by the nearest point."""
    if environment.groups is not None and config.own_groups:
        return environment.groups
    return nearest_point(scaled_spec(environment.spec), config.points, config.octaves)


@functools.cache
def nearest_point(spec: Spec, count: int, octaves: int) -> Groups:
    """Groups of states by the nearest of `count` points; the unit of width is 2^(1 - octaves) of high - low.

    Observations are scaled to 0 … 1, whose waves are further inputs, or without waves to -1 … 1: with positive inputs
    alone, layers of ReLU learn slowly.
    """
    low, high = (np.asarray(side, np.float32) for side in spec.bounds)
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    units = 2.0 ** (octaves - 1)
    zero = low if octaves else (low + high) / 2

    def frame(params: PyTree) -> Points:
        del params  # the bounds do not depend on the parameters
        span = np.maximum(high - zero, 1e-9).astype(np.float32)
        empty = jnp.zeros((count, spec.observations))
        return Points(empty, jnp.zeros(count, bool), jnp.asarray(zero, jnp.float32), jnp.asarray(span))

    def scaled(frame: Points, obs: Array) -> Array:
        return (obs - frame.low) / frame.span

    return Groups(
        count=lambda params: count,
        frame=frame,
        index=lambda frame, obs: jnp.argmin(_distances(frame, scaled(frame, obs))),
        scaled=scaled,
        units=lambda frame, obs: units * scaled(frame, obs),
        own=lambda frame, params: np.arange(count),
        grow=grow,
    )


def _distances(frame: Points, point: Array) -> Array:
    """Squared distances from all points [n]; infinite for those that are not used."""
    return jnp.where(frame.used, jnp.sum((frame.points - point[None]) ** 2, -1), jnp.inf)


def grow(frame: Points, obs: Array) -> tuple[Points, Array]:
    """The points after observations [m, …], of which the one that is farthest from all points may become one.

    Also returned: which points are new [n].
    """
    candidates = (obs - frame.low[None]) / frame.span[None]
    away = jax.vmap(lambda one: jnp.min(_distances(frame, one)))(candidates)
    best = jnp.argmax(away)
    count = len(frame.used)
    both = frame.used[:, None] & frame.used[None] & ~jnp.eye(count, dtype=bool)
    apart = jnp.sum((frame.points[:, None] - frame.points[None]) ** 2, -1)
    apart = jnp.where(both, apart, jnp.inf).min(1)  # [n] to the next point
    full = frame.used.all()
    place = jnp.where(full, jnp.argmin(apart), jnp.argmin(frame.used))
    better = (away[best] > 0) & (~full | (away[best] > FARTHER * apart.min()))
    new = better & (jnp.arange(count) == place)
    points = jnp.where(new[:, None], candidates[best][None], frame.points)
    return frame._replace(points=points, used=frame.used | new), new
