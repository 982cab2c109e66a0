"""Successor features as a table over the states of a memory, learnt by passes over that memory.

M[s, a] is the expected discounted number of times that each feature occurs after action a in state s, with a share ε of
random actions later on. The last feature is novelty: actions never tried in a cell.
"""

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.transfer.memory import NONE, Memory

CHUNK = 1024  # states that are updated together
TRIALS = "trials"  # the axis that agents are mapped over


def greedy(table: Array, direction: Array) -> Array:
    """The best action of each state."""
    return jnp.argmax(table @ direction, -1)


def backup(table: Array, m: Memory, states: Array, features: Array, direction: Array, usual: Array, plan) -> Array:
    """M of some states [k, A, d] after one step of dynamic programming; actions not tried there are as `usual`."""
    gamma, epsilon = plan
    after, code, ended = jnp.moveaxis(m.steps[states], -1, 0)  # [k, A] each
    ahead = table[jnp.maximum(after, 0)]  # [k, A, A, d]
    best = jax.nn.one_hot(jnp.argmax(ahead @ direction, -1), table.shape[1])
    chances = (1 - epsilon) * best + epsilon / table.shape[1]
    on = (chances[..., None] * ahead).sum(2)  # [k, A, d]
    found = features[code] + gamma * (1.0 - ended)[..., None] * on
    return jnp.where((after == NONE)[..., None], usual[m.keys[states] % len(usual)], found)


def sweep(table: Array, m: Memory, features: Array, direction: Array, usual: Array, plan) -> Array:
    """One pass over all states, the latest first; states of one chunk are updated together."""
    chunk = min(CHUNK, len(table))
    # The same number for all trials: otherwise each pass would copy the tables of all of them.
    chunks = -(-jax.lax.pmax(m.count, TRIALS) // chunk)

    def some(i: Array, table: Array) -> Array:
        first = jnp.clip((chunks - 1 - i) * chunk, 0, len(table) - chunk)
        states = first + jnp.arange(chunk)
        new = backup(table, m, states, features, direction, usual, plan)
        return jax.lax.dynamic_update_slice_in_dim(table, new, first, 0)

    return jax.lax.fori_loop(0, chunks, some, table)


def sweeps(count: int, table: Array, m: Memory, features: Array, direction: Array, usual: Array, plan) -> Array:
    """Several passes."""
    if not count:
        return table
    return jax.lax.fori_loop(0, count, lambda _, t: sweep(t, m, features, direction, usual, plan), table)


def mean_of_cells(table: Array, m: Memory, cells: int) -> Array:
    """M of each cell and action, the mean over its states where the action was tried; novelty 1 if it never was."""
    tried, where = (m.after != NONE)[..., None], m.keys % cells
    total = jnp.zeros((cells, *table.shape[1:])).at[where].add(jnp.where(tried, table, 0.0))
    count = jnp.zeros((cells, table.shape[1], 1)).at[where].add(tried.astype(jnp.float32))
    novel = jax.nn.one_hot(table.shape[2] - 1, table.shape[2])
    return jnp.where(count > 0, total / jnp.maximum(count, 1), novel[None, None])
