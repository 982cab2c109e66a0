"""What an agent without knowledge of a task has observed about rewards and costs of each code."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Guess(NamedTuple):
    """Sums over this task, and over tasks."""

    reward: Array  # [codes] sum of rewards in this task
    seen: Array  # [codes] steps in this task
    cost: Array  # [codes] sum of costs in all tasks
    ever: Array  # [codes] steps in all tasks
    tasks: Array  # [codes] earlier tasks in which the code was met
    total: Array  # [codes] sum of its mean rewards in them
    square: Array  # [codes] sum of their squares


def init(codes: int) -> Guess:
    """Before the first step."""
    return Guess(*[jnp.zeros(codes)] * len(Guess._fields))


def push(g: Guess, codes: Array, rewards: Array, costs: Array) -> Guess:
    """After some more steps."""
    met = jax.nn.one_hot(codes, len(g.seen))
    steps = met.sum(0)
    return g._replace(
        reward=g.reward + rewards @ met, seen=g.seen + steps, cost=g.cost + costs @ met, ever=g.ever + steps
    )


def next_task(g: Guess) -> Guess:
    """At the start of another task: the mean of this one is one more sample for each code that was met."""
    met = (g.seen > 0).astype(jnp.float32)
    mean, zero = g.reward / jnp.maximum(g.seen, 1), jnp.zeros_like(g.seen)
    return g._replace(
        reward=zero, seen=zero, tasks=g.tasks + met, total=g.total + met * mean, square=g.square + met * mean**2
    )


def rewards(g: Guess, curiosity: float) -> Array:
    """The reward of each code: its mean in this task, or, as long as it was not met, a hopeful value."""
    tasks = jnp.maximum(g.tasks, 1)
    mean = g.total / tasks
    spread = jnp.sqrt(jnp.maximum(g.square / tasks - mean**2, 0.0))
    return jnp.where(g.seen > 0, g.reward / jnp.maximum(g.seen, 1), mean + curiosity * spread)


def costs(g: Guess) -> Array:
    """The cost of each code: its mean over all tasks."""
    return g.cost / jnp.maximum(g.ever, 1)


def matters(g: Guess) -> Array:
    """Which codes ever had a reward or a cost."""
    return (g.square + g.reward**2 + g.cost) > 0
