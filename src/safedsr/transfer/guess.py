"""What an agent without knowledge of a task has observed about rewards and costs of each code.

A code that was not met in this task yet is guessed from another one that was: from its best predictor in earlier tasks.
So an agent finds out which shapes are of one kind.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

DOUBT = 2.0  # tasks without any correlation that are added to those in which two codes were met


class Guess(NamedTuple):
    """Sums over this task, and over tasks; in a pair i, j only tasks count in which both codes were met."""

    reward: Array  # [codes] sum of rewards in this task
    seen: Array  # [codes] steps in this task
    cost: Array  # [codes] sum of costs in all tasks
    ever: Array  # [codes] steps in all tasks
    tasks: Array  # [codes, codes] number of earlier tasks
    total: Array  # [codes, codes] sum of mean rewards of i
    square: Array  # [codes, codes] sum of their squares
    product: Array  # [codes, codes] sum of products of mean rewards of i and j
    number: Array  # [codes] int32: codes with a reward or a cost, in the order in which this was found out; else -1


def init(codes: int) -> Guess:
    """Before the first step."""
    one, pair = jnp.zeros(codes), jnp.zeros((codes, codes))
    return Guess(one, one, one, one, pair, pair, pair, pair, jnp.full(codes, -1, jnp.int32))


def push(g: Guess, codes: Array, rewards: Array, costs: Array) -> Guess:
    """After some more steps."""
    met = jax.nn.one_hot(codes, len(g.seen))
    steps = met.sum(0)
    g = g._replace(reward=g.reward + rewards @ met, seen=g.seen + steps, cost=g.cost + costs @ met, ever=g.ever + steps)
    new = (g.number < 0) & ((g.reward**2 + g.cost) > 0)
    return g._replace(number=jnp.where(new, g.number.max() + jnp.cumsum(new), g.number))


def next_task(g: Guess) -> Guess:
    """At the start of another task: the mean of this one is one more sample for each code that was met."""
    met, mean = (g.seen > 0).astype(jnp.float32), _mean(g)
    zero = jnp.minimum(g.seen, 0.0)  # zeros; as a constant they would make compiling slow
    return g._replace(
        reward=zero,
        seen=zero,
        tasks=g.tasks + jnp.outer(met, met),
        total=g.total + jnp.outer(mean, met),
        square=g.square + jnp.outer(mean**2, met),
        product=g.product + jnp.outer(mean, mean),
    )


def rewards(g: Guess, curiosity: float) -> Array:
    """The reward of each code: its mean in this task, or, as long as it was not met, a hopeful value."""
    count = jnp.maximum(g.tasks, 1.0)
    mean = g.total / count  # of i, in tasks in which j was met
    spread = jnp.sqrt(jnp.maximum(g.square / count - mean**2, 0.0)) * (g.tasks > 1)  # of one task: rounding errors
    both = spread * spread.T
    shared = (g.product / count - mean * mean.T) * g.tasks / (g.tasks + DOUBT)
    related = jnp.where(both > 0, shared / jnp.maximum(both, 1e-12), 0.0)  # correlation, shrunk
    related = jnp.where(g.seen > 0, related, 0.0)  # [i, j], 0 where j was not met in this task
    best = jnp.argmax(jnp.abs(related), 1)
    told, at = jnp.max(jnp.abs(related), 1) > 0, jnp.arange(len(best))
    rho, ratio = related[at, best], spread[at, best] / jnp.maximum(spread.T[at, best], 1e-12)
    linear = mean[at, best] + rho * ratio * (_mean(g)[best] - mean.T[at, best])
    expected = jnp.where(told, linear, jnp.diagonal(mean))
    unsure = jnp.diagonal(spread) * jnp.sqrt(jnp.maximum(1.0 - rho**2, 0.0))
    return jnp.where(g.seen > 0, _mean(g), expected + curiosity * unsure)


def costs(g: Guess) -> Array:
    """The cost of each code: its mean over all tasks."""
    return g.cost / jnp.maximum(g.ever, 1)


def _mean(g: Guess) -> Array:
    """The mean reward of each code in this task."""
    return g.reward / jnp.maximum(g.seen, 1)
