"""The memory of an agent with tables: every state that it has met, and what each action did there, kept over tasks.

States are numbered in the order in which they are met. A hash table with open addressing finds the number of a state.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

PROBES = 8  # places where a state may be found
SPARE = 4  # places of the hash table for each state
NONE = -1


class Memory(NamedTuple):
    """States and steps; `n` is the largest number of states."""

    places: Array  # [SPARE·n] number of the state whose key is there, or NONE
    keys: Array  # [n] the state as one integer, whose remainder by the number of cells is its cell
    count: Array  # [] number of states
    lost: Array  # [] steps into states for which there was no room
    steps: Array  # [n, A, 3] for each action: state that it led to or NONE, what the step did, whether it was the last

    @property
    def after(self) -> Array:
        """The state that an action led to [n, A], or NONE."""
        return self.steps[..., 0]


def empty(states: int, actions: int) -> Memory:
    """A memory without states."""
    zero = jnp.zeros((), jnp.int32)
    steps = jnp.zeros((states, actions, 3), jnp.int32).at[..., 0].set(NONE)
    return Memory(jnp.full(SPARE * states, NONE), jnp.full(states, NONE), zero, zero, steps)


def enter(m: Memory, key: Array) -> tuple[Memory, Array]:
    """The number of a state, and the memory with it; NONE where there is no room."""
    size = len(m.places)
    mixed = key.astype(jnp.uint32) * jnp.uint32(2654435761)
    mixed = mixed ^ (mixed >> 15)
    where = ((mixed + jnp.arange(PROBES, dtype=jnp.uint32)) % jnp.uint32(size)).astype(jnp.int32)
    there = m.places[where]
    same = (there != NONE) & (m.keys[there] == key)
    free = there == NONE
    found = same.any()
    new = ~found & free.any() & (m.count < len(m.keys))
    number = jnp.where(found, there[jnp.argmax(same)], jnp.where(new, m.count, NONE))
    put = jnp.where(new, where[jnp.argmax(free)], size)
    at = jnp.where(new, m.count, len(m.keys))
    return m._replace(
        places=m.places.at[put].set(number, mode="drop"),
        keys=m.keys.at[at].set(key, mode="drop"),
        count=m.count + new,
        lost=m.lost + (number == NONE),
    ), number


def record(m: Memory, state: Array, action: Array, after: Array, code: Array, ended: Array) -> Memory:
    """The memory after one more step."""
    known = (state != NONE) & (after != NONE)
    at = jnp.where(known, state, len(m.keys))
    step = jnp.stack([after, code.astype(jnp.int32), ended.astype(jnp.int32)])
    return m._replace(steps=m.steps.at[at, action].set(step, mode="drop"))


def forget(m: Memory) -> Memory:
    """The memory without its steps; states keep their numbers."""
    return m._replace(steps=m.steps.at[..., 0].set(NONE))


def filled(m: Memory) -> Array:
    """Which numbers have a state, [n]."""
    return jnp.arange(len(m.keys)) < m.count
