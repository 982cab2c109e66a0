"""The continuous grid (Sec. 5.1): pure functions for one agent; vmap for many.

The layout is a traced argument: maps and costs change without recompiling. `GridConfig` is static.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.envs.environment import Step
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout

ACTIONS = ("up", "down", "left", "right")
NUM_ACTIONS = len(ACTIONS)
_DIRECTIONS = ((0.0, -1.0), (0.0, 1.0), (-1.0, 0.0), (1.0, 0.0))


class GridState(NamedTuple):
    """The position of the agent."""

    pos: Array  # [2] (x, y) in cells; y grows downwards


def reset(key: Array, layout: Layout) -> tuple[GridState, Array]:
    """A new episode at the centre of a start cell, chosen uniformly: the state and its observation."""
    starts = jnp.asarray(layout.starts)
    if len(starts) == 1:  # no random number is needed, and drawing one takes longer than a step
        start = starts[0]
    else:
        start = starts[jax.random.randint(key, (), 0, layout.num_starts)]
    state = GridState(start.astype(jnp.float32) + 0.5)
    return state, observe(state, layout)


def observe(state: GridState, layout: Layout) -> Array:
    """The observation α·(x, y)."""
    return state.pos / layout.scale


def position(obs: Array, layout: Layout) -> Array:
    """The position (x, y) of an observation."""
    return obs * layout.scale


def cell_of(pos: Array) -> Array:
    """(column, row) of the cell of a position; the only function that converts positions to indices."""
    return jnp.floor(pos).astype(jnp.int32)


def lookup(layers: Array, pos: Array) -> Array:
    """The values of maps [..., H, W] at a position; for a position off the map, those of an arbitrary cell."""
    column, row = cell_of(pos)
    # XLA clamps indices itself; this mode avoids a second clamp, which takes a third of the time of a step.
    return jnp.asarray(layers).at[..., row, column].get(mode="promise_in_bounds")


def cost_at(pos: Array, layout: Layout) -> Array:
    """The costs [J] at a position."""
    return lookup(layout.costs, pos if layout.raster == 1 else pos * layout.raster)


def blocked(pos: Array, layout: Layout) -> Array:
    """Whether a position is off the map or inside a wall."""
    height, width = layout.walls.shape
    cell = cell_of(pos)
    outside = (cell < 0) | (cell >= jnp.array([width, height]))
    return outside.any() | lookup(layout.walls, pos)


def at_goal(pos: Array, layout: Layout) -> Array:
    """Whether a position lies in the goal cell."""
    return (cell_of(pos) == layout.goal).all()


def step_length(key: Array, config: GridConfig) -> Array:
    """A step length from N(mean, std), clipped to ±`step_clip` standard deviations."""
    noise = jax.random.normal(key).clip(-config.step_clip, config.step_clip)
    return config.step_mean + config.step_std * noise


def land(pos: Array, action: Array, length: Array, layout: Layout) -> Array:
    """The position after a move of that length; a move into a wall or off the map is undone."""
    there = pos + length * jnp.array(_DIRECTIONS)[action]
    return jnp.where(blocked(there, layout), pos, there)


def step(key: Array, state: GridState, action: Array, layout: Layout, config: GridConfig) -> tuple[GridState, Step]:
    """One step without a reset, also if the episode has ended."""
    after = GridState(land(state.pos, action, step_length(key, config), layout))
    reached = at_goal(after.pos, layout)
    return after, Step(
        obs=observe(after, layout),
        reward=reward(reached, config),
        cost=cost_at(after.pos, layout),
        terminated=reached,
        truncated=jnp.zeros((), bool),  # the time limit is in the Spec
        success=reached,
    )


def reward(reached: Array, config: GridConfig) -> Array:
    """The reward of a step, given whether it reached the goal."""
    return config.step_reward + config.goal_reward * reached
