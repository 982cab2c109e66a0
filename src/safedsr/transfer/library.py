"""A bounded set of policies as tables, and generalised policy improvement over them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.transfer import tables
from safedsr.transfer.memory import Memory, filled


class Library(NamedTuple):
    """Stored policies."""

    tables: Array  # [size, n, A, d] M of each
    directions: Array  # [size, d] w_r - λ·w_c of the task it was learnt for
    used: Array  # [size] bool


def empty(size: int, table: Array) -> Library:
    """No policy yet."""
    return Library(jnp.zeros((size, *table.shape)), jnp.zeros((size, table.shape[-1])), jnp.zeros(size, bool))


def offer(library: Library, table: Array, direction: Array, m: Memory, distinct: float) -> Library:
    """Store a policy: in a free place if it acts otherwise than all stored ones, else in place of the most similar one.

    The one that is replaced was learnt earlier. Stored policies that learn further can become alike later.
    """
    there = filled(m)
    mine = tables.greedy(table, direction)
    theirs = jax.vmap(tables.greedy)(library.tables, library.directions)
    apart = ((theirs != mine[None]) & there[None]).sum(1) / jnp.maximum(m.count, 1)
    apart = jnp.where(library.used, apart, jnp.inf)
    free = ~library.used.all() & (apart.min() >= distinct)
    place = jnp.where(free, jnp.argmin(library.used), jnp.argmin(apart))
    return Library(
        library.tables.at[place].set(table),
        library.directions.at[place].set(direction),
        library.used.at[place].set(True),
    )


def best_of(library: Library, table: Array, direction: Array) -> tuple[Array, Array]:
    """Generalised policy improvement: for each state and action, M of the policy with the best score.

    Also the share of entries that come from stored policies.
    """
    worth = jnp.where(library.used[:, None, None], library.tables @ direction, -jnp.inf)
    best = jnp.argmax(worth, 0)  # [n, A]
    stored = jnp.take_along_axis(library.tables, best[None, ..., None], 0)[0]
    better = worth.max(0) > table @ direction
    return jnp.where(better[..., None], stored, table), better
