"""Memory: a ring of the latest transitions, and a reservoir of every kind of reward and cost ever seen.

Biased sampling (Sec. 4.2): a share of each batch is drawn so that every value of the reward, and of each cost, is
equally likely. Values that differ too little share a bin. The reservoir keeps a fair sample of each bin, so that rare
events outlive the ring. A transition is one row of floats: one gather fetches it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.types import Record, Transition


class Codec(NamedTuple):
    """Transitions and records as rows of floats; a row of another width is an error."""

    observations: int
    costs: int

    @property
    def width(self) -> int:
        """Numbers of a transition: action, reward, terminated, two observations and the costs."""
        return 3 + 2 * self.observations + self.costs

    @property
    def record_width(self) -> int:
        """Numbers of a record: done, success, length, return, an observation and the costs."""
        return 4 + self.observations + self.costs

    def pack(self, t: Transition) -> Array:
        """A transition, or several, as a row [..., width]."""
        single = jnp.stack([t.action.astype(jnp.float32), t.reward, t.terminated.astype(jnp.float32)], -1)
        return self._checked(jnp.concatenate([t.obs, single, t.next_obs, t.cost], -1), self.width)

    def unpack(self, rows: Array) -> Transition:
        """The transition of a row, or the transitions of rows."""
        rows, n = self._checked(rows, self.width), self.observations
        return Transition(
            obs=rows[..., :n],
            action=rows[..., n].astype(jnp.int32),
            reward=rows[..., n + 1],
            terminated=rows[..., n + 2],
            next_obs=rows[..., n + 3 : 2 * n + 3],
            cost=rows[..., 2 * n + 3 :],
        )

    def pack_record(self, record: Record) -> Array:
        """A record as a row: accelerators spend much of a step on writing one array after the other."""
        single = jnp.stack([record.done, record.success, record.length, record.ret])
        return self._checked(jnp.concatenate([single, record.obs, record.cost]), self.record_width)

    def unpack_record(self, rows: Array) -> Record:
        """The record of a row, or the records of rows."""
        rows, n = self._checked(rows, self.record_width), self.observations
        return Record(
            done=rows[..., 0] > 0,
            success=rows[..., 1] > 0,
            length=rows[..., 2].astype(jnp.int32),
            ret=rows[..., 3],
            obs=rows[..., 4 : 4 + n],
            cost=rows[..., 4 + n :],
        )

    def _checked(self, rows: Array, width: int) -> Array:
        if rows.shape[-1] != width:
            raise ValueError(
                f"a row of {rows.shape[-1]} numbers where {self.observations} observations and {self.costs} costs need "
                f"{width}"
            )
        return rows


def init_ring(capacity: int, width: int) -> Array:
    """An empty ring."""
    return jnp.zeros((capacity, width))


def add(ring: Array, rows: Array, count: Array) -> Array:
    """Write rows that follow the first `count` ones; their number divides the capacity, so they never wrap."""
    return jax.lax.dynamic_update_slice_in_dim(ring, rows, count % len(ring), 0)


def choose(key: Array, filled: Array, shape: tuple[int, ...]) -> Array:
    """Places in the ring drawn uniformly, with replacement, from the first `filled`."""
    return jax.random.randint(key, shape, 0, filled)


class Reservoir(NamedTuple):
    """For each signal (reward, cost 1 … J; or a feature alone) and bin: a fair sample of the rows that fell into it."""

    rows: Array  # [signals, bins, size, width]
    seen: Array  # [signals, bins] int32, how many rows there were
    ranges: Array | None = None  # [2, signals] least and greatest value seen, where they are not known beforehand


def init_reservoir(signals: int, bins: int, size: int, width: int, *, ranged: bool = False) -> Reservoir:
    """An empty reservoir; `ranged` if it has to find out itself between which values the signals lie."""
    # Finite numbers, since a training checks that its state is finite.
    most = jnp.finfo(jnp.float32).max
    ranges = jnp.stack([jnp.full(signals, most), jnp.full(signals, -most)]) if ranged else None
    return Reservoir(jnp.zeros((signals, bins, size, width)), jnp.zeros((signals, bins), jnp.int32), ranges)


def emptied(reservoir: Reservoir) -> Reservoir:
    """A reservoir of the same shape that holds nothing."""
    signals, bins, size, width = reservoir.rows.shape
    return init_reservoir(signals, bins, size, width, ranged=reservoir.ranges is not None)


def filled_slots(reservoir: Reservoir) -> Array:
    """Which slots hold a row, [signals, bins, size]."""
    return jnp.arange(reservoir.rows.shape[2])[None, None] < reservoir.seen[..., None]


def bin_of(values: Array, low: Array, high: Array, bins: int) -> Array:
    """The histogram bin of each value between `low` and `high`."""
    share = (values - low) / jnp.maximum(high - low, 1e-9)
    return jnp.clip(jnp.floor(share * bins), 0, bins - 1).astype(jnp.int32)


def signals_of(t: Transition) -> Array:
    """Reward and costs [1 + J, n] of n transitions."""
    return jnp.concatenate([t.reward[:, None], t.cost], 1).T


def value_bins(signals: Array, low: Array, high: Array, bins: int) -> Array:
    """The bin [signals, n] of each value; `low` and `high` [signals] bound them."""
    return jax.vmap(bin_of, (0, 0, 0, None))(signals, low, high, bins)


def widen(ranges: Array, signals: Array) -> Array:
    """Least and greatest values [2, signals] after these [signals, n]."""
    return jnp.stack([jnp.minimum(ranges[0], signals.min(1)), jnp.maximum(ranges[1], signals.max(1))])


def store(key: Array, reservoir: Reservoir, rows: Array, bins: Array) -> Reservoir:
    """Offer rows [n, width] to the reservoir; `bins` [signals, n] says into which bin of each signal they fall."""
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
    kept, seen = jax.vmap(offer)(reservoir.rows, reservoir.seen, bins, luck)
    return reservoir._replace(rows=kept, seen=seen)


def sample_rare(key: Array, reservoir: Reservoir, shape: tuple[int, ...]) -> Array:
    """Rows [signals, *shape, width]: for each signal, every bin that has rows is equally likely."""
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
    rare: Array  # [batches, m, width]

    def rows(self, ring: Array) -> Array:
        """All rows [batches, n + m, width]."""
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
