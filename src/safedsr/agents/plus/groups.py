"""Groups of states, whose visits SafeDSR-plus predicts: the environment's own, or one for each of n points."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.value_based.trainer import scaled_spec
from safedsr.envs.environment import Environment, Groups, Spec
from safedsr.errors import UserError
from safedsr.types import PyTree


class Points(NamedTuple):
    """Points between the bounds of the observations; arrays, because they are saved with a policy."""

    points: Array  # [n, observations] each between 0 and 1
    low: Array  # [observations]
    span: Array  # [observations] high - low


def groups_of(environment: Environment, config: SafeDsrPlusConfig) -> Groups:
    """The environment's own groups, or groups by the nearest of `config.points` quasi-random points."""
    if environment.groups is not None:
        return environment.groups
    spec = scaled_spec(environment.spec)
    if not np.isfinite(spec.bounds).all():
        raise UserError(
            f"safedsr-plus groups states by their observations, and the environment '{environment.name}' gives no "
            "bounds for them: give low and high in its Spec, or features of its own"
        )
    return nearest_point(spec, config.points, config.octaves)


@functools.cache
def nearest_point(spec: Spec, count: int, octaves: int) -> Groups:
    """Groups of states by the nearest of `count` points; the unit of width is 2^(1 - octaves) of high - low."""
    from scipy.stats.qmc import Halton

    assert spec.low is not None and spec.high is not None
    low, high = np.asarray(spec.low, np.float32), np.asarray(spec.high, np.float32)
    points = Halton(spec.observations, scramble=False).random(count).astype(np.float32)
    units = 2.0 ** (octaves - 1)

    def frame(params: PyTree) -> Points:
        del params  # the bounds do not depend on the parameters
        return Points(jnp.asarray(points), jnp.asarray(low), jnp.asarray(np.maximum(high - low, 1e-9)))

    def scaled(frame: Points, obs: Array) -> Array:
        return (obs - frame.low) / frame.span

    return Groups(
        count=lambda params: count,
        frame=frame,
        index=lambda frame, obs: jnp.argmin(jnp.sum((frame.points - scaled(frame, obs)[None]) ** 2, -1)),
        scaled=scaled,
        units=lambda frame, obs: units * scaled(frame, obs),
        own=lambda frame, params: np.arange(count),
    )
