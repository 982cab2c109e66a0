"""Pretraining (Sec. 5.4): features from steps that begin anywhere on the map, none of which leads to another."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.envs.grid import physics as grid
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout
from safedsr.types import PyTree, Transition

Learn = Callable[[PyTree, Transition], tuple[PyTree, Array]]  # (learner state, batch) -> learner state, loss


def pretrain(
    learn: Learn, config: SafeDsrConfig, grid_config: GridConfig, s: PyTree, key: Array, layout: Layout
) -> PyTree:
    """The learner after `config.pretrain` updates, each on a batch of new random steps."""

    def update(s: PyTree, key: Array) -> tuple[PyTree, Array]:
        return learn(s, random_steps(key, layout, grid_config, config.batch_size))

    return jax.lax.scan(update, s, jax.random.split(key, config.pretrain))[0]


def random_steps(key: Array, layout: Layout, grid_config: GridConfig, count: int) -> Transition:
    """Random actions at positions spread evenly over all free cells but the goal, with their rewards and costs."""
    cell_key, place_key, action_key, step_key = jax.random.split(key, 4)
    height, width = layout.walls.shape
    column, row = layout.goal
    free = jnp.logical_not(layout.walls).at[row, column].set(False)
    cells = jax.random.choice(cell_key, height * width, (count,), p=free.reshape(-1) / free.sum())
    corners = jnp.stack([cells % width, cells // width], 1)
    places = corners + jax.random.uniform(place_key, (count, 2))
    actions = jax.random.randint(action_key, (count,), 0, grid.NUM_ACTIONS)

    def one(key: Array, place: Array, action: Array) -> Transition:
        state = grid.GridState(place, jnp.zeros((), jnp.int32))
        _, out = grid.move(key, state, action, layout, grid_config)
        ended = out.terminated.astype(jnp.float32)
        return Transition(grid.observe(state, layout), action, out.reward, out.cost, out.next_obs, ended)

    return jax.vmap(one)(jax.random.split(step_key, count), places, actions)
