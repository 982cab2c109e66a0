"""Running mean and standard deviation of observations, rewards or costs, updated by one sample at a time."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

SMALLEST_STD, LARGEST = 0.01, 5.0
HIGH = 2**30  # a count stays here, so that no int32 overflows


class Running(NamedTuple):
    """The sums of Welford's algorithm."""

    mean: Array
    squares: Array  # sum of squared deviations from the mean
    count: Array  # [] int32


def init(shape: tuple[int, ...]) -> Running:
    """Statistics without samples."""
    return Running(jnp.zeros(shape), jnp.zeros(shape), jnp.zeros((), jnp.int32))


def push(running: Running, x: Array) -> Running:
    """Statistics with one more sample."""
    count = jnp.minimum(running.count, HIGH) + 1
    away = x - running.mean
    mean = running.mean + away / count
    return Running(mean, running.squares + away * (x - mean), count)


def apply(running: Running, x: Array) -> Array:
    """A sample, normalised and clipped; unchanged while the statistics have at most one sample."""
    std = jnp.sqrt(running.squares / jnp.maximum(running.count - 1, 1)).clip(SMALLEST_STD)
    scaled = jnp.clip((x - running.mean) / std, -LARGEST, LARGEST)
    return jnp.where(running.count > 1, scaled, x)


def push_and_apply(running: Running, x: Array) -> tuple[Running, Array]:
    """Add a sample to the statistics, then normalise it with them."""
    running = push(running, x)
    return running, apply(running, x)
