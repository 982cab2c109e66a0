"""An environment that is not a grid: stairs with five observations, three actions and up to two costs.

A walker on four stairs goes down, waits or goes up; the top is the goal. Some stairs are slippery and some are noisy,
which costs: where they are is a parameter.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Environment, Spec, Step, Task
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job
from safedsr.types import Transition

TOP, LIMIT = 4, 30
ACTIONS = ("down", "wait", "up")


class Stairs(NamedTuple):
    """Parameters: what it costs to be on each stair."""

    costs: Any  # [J, TOP + 1]


class Walker(NamedTuple):
    """A state."""

    stair: Array  # [] int32


def observe(walker: Walker) -> Array:
    """Five numbers that say where the walker is, three of them in other words."""
    height = walker.stair / TOP
    return jnp.stack([height, 1 - height, height**2, jnp.cos(3 * height), jnp.sin(3 * height)])


def stair_of(obs: Array) -> Array:
    """The stair that an observation stands for."""
    return jnp.round(obs[0] * TOP).astype(jnp.int32)


def reset(key: Array, params: Stairs) -> tuple[Walker, Array]:
    """The lowest stair."""
    del key, params
    walker = Walker(jnp.zeros((), jnp.int32))
    return walker, observe(walker)


def step(key: Array, walker: Walker, action: Array, params: Stairs) -> tuple[Walker, Step]:
    """One stair down, none or one up."""
    del key
    stair = jnp.clip(walker.stair + action - 1, 0, TOP)
    after = Walker(stair)
    top = stair == TOP
    return after, Step(
        obs=observe(after),
        reward=jnp.where(top, 1.0, -0.01),
        cost=jnp.asarray(params.costs)[:, stair],
        terminated=top,
        truncated=jnp.zeros((), bool),
        success=top,
    )


def relabel(t: Transition, params: Stairs) -> Transition:
    """The cost of the stair on which a step ended."""
    return t._replace(cost=jnp.asarray(params.costs)[:, stair_of(t.next_obs)])


def make_stairs(num_costs: int, *, known: bool = True, success: bool = True) -> Environment:
    """The environment; unless `known`, it does not say between which values rewards and costs lie.

    Without `success`, the top is no goal, and all that counts is the return.
    """
    return Environment(
        name="stairs",
        spec=Spec(
            observations=5,
            actions=3,
            costs=num_costs,
            low=(0.0, 0.0, 0.0, -1.0, 0.0),
            high=(1.0, 1.0, 1.0, 1.0, 1.0),
            reward_range=(-0.01, 1.0) if known else None,
            cost_ceilings=(1.0,) * num_costs if known else None,
            time_limit=LIMIT,
            action_names=ACTIONS,
            success=success,
        ),
        reset=reset,
        step=step,
        to_json=lambda task: {"costs": np.asarray(task.params.costs).tolist()},
        from_json=lambda name, data: Stairs(np.asarray(data["costs"], np.float32).reshape(-1, TOP + 1)),
        relabel=relabel,
    )


def stairs_task(num_costs: int, budget: float = 100.0) -> Task:
    """Slippery and noisy stairs, as many of these costs as wanted; a large budget lets the walker go straight up."""
    costs = np.array([[0, 1, 0, 0, 0], [0, 0, 1, 1, 0]], np.float32)[:num_costs]
    return Task("stairs", Stairs(costs), ("slippery", "noisy")[:num_costs], (budget,) * num_costs)


def stairs_job(algorithm: str, agent: Any, num_costs: int, steps: int, *, known: bool = True, **train: Any) -> Job:
    """A job with two seeds."""
    tasks, environment = (stairs_task(num_costs),), make_stairs(num_costs, known=known)
    return Job(algorithm, tasks, (0, 1), agent, environment, TrainConfig(steps=steps, **train))
