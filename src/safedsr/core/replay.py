"""Memory: a ring of the latest transitions, and a reservoir of every kind of reward and cost ever seen.

Biased sampling (Sec. 4.2): a share of each batch is drawn so that every value of the reward, and of each cost, is
equally likely. Values that differ too little share a bin. The reservoir keeps a fair sample of each bin, so that rare
events outlive the ring. A transition is one row of floats: one gather fetches it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.types import Transition

_FIXED = 7  # obs 2, action 1, reward 1, terminated 1, next obs 2; the rest are costs


def pack(t: Transition) -> Array:
    """A transition as a row [7 + J]."""
    single = jnp.stack([t.action.astype(jnp.float32), t.reward, t.terminated.astype(jnp.float32)], -1)
    return jnp.concatenate([t.obs, single, t.next_obs, t.cost], -1)


def unpack(row: Array) -> Transition:
    """The transition of a row."""
    return Transition(
        obs=row[..., 0:2],
        action=row[..., 2].astype(jnp.int32),
        reward=row[..., 3],
        terminated=row[..., 4],
        next_obs=row[..., 5:7],
        cost=row[..., _FIXED:],
    )


def init_ring(capacity: int, num_costs: int) -> Array:
    """An empty ring."""
    return jnp.zeros((capacity, _FIXED + num_costs))


def add(ring: Array, rows: Array, step: Array) -> Array:
    """Write rows that follow the first `step` ones; their number divides the capacity, so they never wrap."""
    return jax.lax.dynamic_update_slice_in_dim(ring, rows, step % len(ring), 0)


def choose(key: Array, filled: Array, shape: tuple[int, ...]) -> Array:
    """Places in the ring drawn uniformly, with replacement, from the first `filled`."""
    return jax.random.randint(key, shape, 0, filled)


class Reservoir(NamedTuple):
    """For each signal (reward, cost 1 … J; or the place alone) and bin: a fair sample of the rows that fell into it."""

    rows: Array  # [signals, bins, size, 7 + J]
    seen: Array  # [signals, bins] int32, how many rows there were


def init_reservoir(num_costs: int, bins: int, size: int, signals: int | None = None) -> Reservoir:
    """An empty reservoir, for the reward and every cost if the number of signals is not given."""
    signals = 1 + num_costs if signals is None else signals
    return Reservoir(
        jnp.zeros((signals, bins, size, _FIXED + num_costs)),
        jnp.zeros((signals, bins), jnp.int32),
    )


def bin_of(values: Array, low: Array, high: Array, bins: int) -> Array:
    """The histogram bin of each value between `low` and `high`."""
    share = (values - low) / jnp.maximum(high - low, 1e-9)
    return jnp.clip(jnp.floor(share * bins), 0, bins - 1).astype(jnp.int32)


def value_bins(rows: Array, low: Array, high: Array, bins: int) -> Array:
    """The bin [1 + J, n] of each row's reward and costs; `low` and `high` [1 + J] bound them."""
    t = unpack(rows)
    signals = jnp.concatenate([t.reward[:, None], t.cost], 1).T
    return jax.vmap(bin_of, (0, 0, 0, None))(signals, low, high, bins)


def store(key: Array, reservoir: Reservoir, rows: Array, bins: Array) -> Reservoir:
    """Offer rows [n, 7 + J] to the reservoir; `bins` [signals, n] says into which bin of each signal they fall."""
    count, size = reservoir.rows.shape[1:3]

    def offer(kept: Array, seen: Array, where: Array, luck: Array) -> tuple[Array, Array]:
        counts = seen[None] + jnp.cumsum(jax.nn.one_hot(where, count, dtype=jnp.int32), 0)  # [n, bins]
        nth = jnp.take_along_axis(counts, where[:, None], 1)[:, 0]
        slot = jnp.where(nth <= size, nth - 1, (luck * nth).astype(jnp.int32))
        # Of rows that want the same slot the last one gets it; without saying so, on a GPU, whichever is written last.
        order = jnp.arange(len(rows))
        last = jnp.full((count, size), -1).at[where, slot].max(order, mode="drop")
        slot = jnp.where(last.at[where, slot].get(mode="fill", fill_value=-1) == order, slot, size)
        return kept.at[where, slot].set(rows, mode="drop"), counts[-1]

    luck = jax.random.uniform(key, bins.shape)
    return Reservoir(*jax.vmap(offer)(reservoir.rows, reservoir.seen, bins, luck))


def sample_rare(key: Array, reservoir: Reservoir, shape: tuple[int, ...]) -> Array:
    """Rows [signals, *shape, 7 + J]: for each signal, every bin that has rows is equally likely."""
    size = reservoir.rows.shape[2]

    def draw(key: Array, rows: Array, seen: Array) -> Array:
        which, slot = jax.random.uniform(key, (2, *shape))
        filled = seen > 0
        nth = jnp.floor(which * filled.sum()).astype(jnp.int32)
        where = jnp.searchsorted(jnp.cumsum(filled), nth, side="right")  # the nth bin that has rows
        return rows[where, (slot * jnp.minimum(seen[where], size)).astype(jnp.int32)]

    return jax.vmap(draw)(jax.random.split(key, len(reservoir.seen)), reservoir.rows, reservoir.seen)


class Biased(NamedTuple):
    """Batches of which a share is rare rows."""

    places: Array  # [batches, n] in the ring
    rare: Array  # [batches, m, 7 + J]

    def rows(self, ring: Array) -> Array:
        """All rows [batches, n + m, 7 + J]."""
        return jnp.concatenate([ring[self.places], self.rare], 1)


def choose_biased(key: Array, reservoir: Reservoir, filled: Array, batches: int, size: int, share: float) -> Biased:
    """Batches of `size` rows: `share` of each is rare rows, split evenly over the signals, the rest uniform."""
    ring_key, rare_key = jax.random.split(key)
    signals = len(reservoir.seen)
    rare_each = min(round(size * share / signals), size // signals)
    places = choose(ring_key, filled, (batches, size - signals * rare_each))
    rare = sample_rare(rare_key, reservoir, (batches, rare_each))  # [signals, batches, rare_each, ...]
    rare = jnp.moveaxis(rare, 0, 1).reshape(batches, signals * rare_each, reservoir.rows.shape[-1])
    return Biased(places, rare)
