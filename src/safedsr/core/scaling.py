"""Observations as inputs of value-based agents: scaled by their bounds, or by statistics of the first steps.

An observation with bounds is scaled to -1 … 1. One without bounds is scaled by the mean and the standard deviation of
the steps before learning starts; they are frozen then, and saved with the policy.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core import normalizer
from safedsr.core.normalizer import Running

FAR = 3.0  # standard deviations that count as the range of an observation without bounds
Bounds = tuple[Sequence[float], Sequence[float]]


def init(bounds: Bounds) -> Running:
    """Statistics before the first step. Observations with bounds have constant ones."""
    return normalizer.init((len(bounds[0]),))


def push(scale: Running, obs: Array) -> Running:
    """Statistics with one more observation."""
    return normalizer.push(scale, obs)


def apply(scale: Running, obs: Array, bounds: Bounds) -> Array:
    """An observation, or several [..., n], as input of an agent."""
    if obs.ndim > 1:
        return jax.vmap(lambda one: apply(scale, one, bounds))(obs)
    low, high = (np.asarray(side, np.float32) for side in bounds)
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2
    return jnp.where(bounded, (obs - middle) / half, normalizer.apply(scale, obs))


def scaled_bounds(bounds: Bounds) -> Bounds:
    """The range of each observation after scaling."""
    bounded = np.isfinite(np.asarray(bounds)).all(0)
    high = np.where(bounded, 1.0, FAR)
    return tuple((-high).tolist()), tuple(high.tolist())
