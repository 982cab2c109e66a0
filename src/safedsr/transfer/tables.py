"""Successor features as a table over the states of a memory, learnt by passes over that memory.

M[s, a] is the expected discounted number of times that each feature occurs after action a in state s, with a share ε of
random actions later on. The last feature is novelty: actions never tried in a cell.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.transfer.memory import NONE, Memory

CHUNK = 1024  # states that are updated together
TRIALS = "trials"  # the axis that agents are mapped over


class Plan(NamedTuple):
    """What passes over a memory learn M for."""

    memory: Memory
    features: Array  # [codes, d] of each thing that a step can do
    direction: Array  # [d] w_r - λ·w_c, with the worth of novelty last
    usual: Array | None  # [cells, A, d] M of actions that were never tried in a state; None keeps what they have
    gamma: float
    epsilon: float


def greedy(table: Array, direction: Array) -> Array:
    """The best action of each state."""
    return jnp.argmax(table @ direction, -1)


def onward(table: Array, direction: Array, epsilon: float) -> Array:
    """What follows in each state [..., d]: M of the best action, or, with a chance of ε, of any action."""
    best = jax.nn.one_hot(greedy(table, direction), table.shape[-2])
    return (((1 - epsilon) * best + epsilon / table.shape[-2])[..., None] * table).sum(-2)


def backup(table: Array, ahead: Array, states: Array, plan: Plan) -> Array:
    """M of some states [k, A, d] after one step of dynamic programming; `ahead` is `onward` of all states."""
    after, code, ended = jnp.moveaxis(plan.memory.steps[states], -1, 0)  # [k, A] each
    on = ahead[jnp.maximum(after, 0)]  # [k, A, d]
    found = plan.features[code] + plan.gamma * (1.0 - ended)[..., None] * on
    usual = table[states] if plan.usual is None else plan.usual[plan.memory.keys[states] % len(plan.usual)]
    return jnp.where((after == NONE)[..., None], usual, found)


def _chunks(table: Array, m: Memory) -> tuple[Array, int]:
    """How many chunks of states there are, and their size."""
    size = min(CHUNK, len(table))
    # The same number for all trials: otherwise each pass would copy the tables of all of them.
    return -(-jax.lax.pmax(m.count, TRIALS) // size), size


def all_onward(table: Array, plan: Plan) -> Array:
    """`onward` of all states of the memory, [n, d]."""
    chunks, size = _chunks(table, plan.memory)

    def some(i: Array, ahead: Array) -> Array:
        mine = jax.lax.dynamic_slice_in_dim(table, i * size, size)
        return jax.lax.dynamic_update_slice_in_dim(ahead, onward(mine, plan.direction, plan.epsilon), i * size, 0)

    return jax.lax.fori_loop(0, chunks, some, jnp.zeros((len(table), table.shape[-1])))


def revisit(count: int, table: Array, ahead: Array, states: Array, plan: Plan) -> tuple[Array, Array]:
    """Some passes over some states; NONE among them is left out."""
    at = jnp.where(states == NONE, len(table), states)

    def again(_: Array, both: tuple[Array, Array]) -> tuple[Array, Array]:
        table, ahead = both
        new = backup(table, ahead, jnp.maximum(states, 0), plan)
        on = onward(new, plan.direction, plan.epsilon)
        return table.at[at].set(new, mode="drop"), ahead.at[at].set(on, mode="drop")

    return jax.lax.fori_loop(0, count, again, (table, ahead))


def sweep(table: Array, ahead: Array, plan: Plan) -> tuple[Array, Array]:
    """One pass over all states, the latest first; states of one chunk are updated together."""
    chunks, size = _chunks(table, plan.memory)

    def some(i: Array, both: tuple[Array, Array]) -> tuple[Array, Array]:
        table, ahead = both
        first = (chunks - 1 - i) * size
        new = backup(table, ahead, first + jnp.arange(size), plan)
        on = onward(new, plan.direction, plan.epsilon)
        return (
            jax.lax.dynamic_update_slice_in_dim(table, new, first, 0),
            jax.lax.dynamic_update_slice_in_dim(ahead, on, first, 0),
        )

    return jax.lax.fori_loop(0, chunks, some, (table, ahead))


def sweeps(count: int, table: Array, plan: Plan) -> Array:
    """Several passes."""
    if not count:
        return table
    both = table, all_onward(table, plan)
    return jax.lax.fori_loop(0, count, lambda _, both: sweep(both[0], both[1], plan), both)[0]


def mean_of_cells(table: Array, m: Memory, cells: int) -> Array:
    """M of each cell and action, the mean over its states where the action was tried; novelty 1 if it never was."""
    chunks, size = _chunks(table, m)

    def some(i: Array, both: tuple[Array, Array]) -> tuple[Array, Array]:
        states = i * size + jnp.arange(size)
        tried, where = (m.after[states] != NONE)[..., None], m.keys[states] % cells
        mine = jax.lax.dynamic_slice_in_dim(table, i * size, size)
        return both[0].at[where].add(jnp.where(tried, mine, 0.0)), both[1].at[where].add(tried.astype(jnp.float32))

    none = jnp.zeros((cells, *table.shape[1:])), jnp.zeros((cells, table.shape[1], 1))
    total, count = jax.lax.fori_loop(0, chunks, some, none)
    return jnp.where(count > 0, total / jnp.maximum(count, 1), novel(table.shape[2]))


def novel(features: int) -> Array:
    """M of an action that was never tried: novelty, and nothing else."""
    return jax.nn.one_hot(features - 1, features)
