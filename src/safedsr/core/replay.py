"""Replay memory: a ring buffer of the latest transitions, and a reservoir for biased sampling (Sec. 4.2).

In biased sampling, a share of each batch is drawn so that every value of the reward, and of each cost, is equally
likely; similar values share a bin. The reservoir keeps a uniform random sample of each bin, so that rare events stay
available after the ring has overwritten them. A transition is one row of floats, so that one gather reads it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from safedsr.core.normalizer import HIGH
from safedsr.types import Record, Transition

SUCCESS, FIRST = 3.0, 6.0  # added to `terminated` (0, 1 or JOINED), so that these flags need no columns of their own


class Codec(NamedTuple):
    """Converts transitions and records to rows of floats and back; a row of another width is an error."""

    observations: int
    costs: int
    extras: int = 0

    @property
    def width(self) -> int:
        """Length of a transition's row: action, reward, terminated, two observations, the costs and the extras."""
        return 3 + 2 * self.observations + self.costs + self.extras

    @property
    def record_width(self) -> int:
        """Length of a record's row: done, success, length, return, an observation and the costs."""
        return 4 + self.observations + self.costs

    def pack(self, t: Transition) -> Array:
        """A transition, or several, as a row [..., width]."""
        single = jnp.stack([t.action.astype(jnp.float32), t.reward, _flags(t)], -1)
        parts = [t.obs, single, t.next_obs, t.cost, *([t.extra] if self.extras else [])]
        return self._checked(jnp.concatenate(parts, -1), self.width)

    def unpack(self, rows: Array) -> Transition:
        """The transition of a row, or the transitions of rows."""
        rows, n = self._checked(rows, self.width), self.observations
        end, flags = self.width - self.extras, rows[..., n + 2]
        ended = flags % FIRST
        return Transition(
            obs=rows[..., :n],
            action=rows[..., n].astype(jnp.int32),
            reward=rows[..., n + 1],
            terminated=ended % SUCCESS,
            next_obs=rows[..., n + 3 : 2 * n + 3],
            cost=rows[..., 2 * n + 3 : end],
            extra=rows[..., end:] if self.extras else (),
            success=(ended >= SUCCESS).astype(jnp.float32),
            first=(flags >= FIRST).astype(jnp.float32),
        )

    def pack_record(self, record: Record) -> Array:
        """A record as one row, because writing several arrays at each step is slow on accelerators."""
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


def _flags(t: Transition) -> Array:
    """`terminated`, `success` and `first` as one number; what is not known counts as 0."""
    known = [(weight, flag) for weight, flag in ((SUCCESS, t.success), (FIRST, t.first)) if not isinstance(flag, tuple)]
    return sum((weight * flag for weight, flag in known), t.terminated.astype(jnp.float32))


def init_ring(capacity: int, width: int) -> Array:
    """An empty ring buffer."""
    return jnp.zeros((capacity, width))


def add(ring: Array, rows: Array, count: Array) -> Array:
    """Write rows after the first `count` rows; their number divides the capacity, so that no write wraps around."""
    return jax.lax.dynamic_update_slice_in_dim(ring, rows, count % len(ring), 0)


def counted(count: Array, new: ArrayLike, capacity: int) -> Array:
    """The count after new rows of a ring. After a billion rows it starts again at a full ring: no int32 overflows."""
    total, turns = count + new, HIGH // capacity * capacity
    return jnp.where(total >= turns + capacity, total - turns, total)


def choose(key: Array, filled: Array, shape: tuple[int, ...]) -> Array:
    """Indices of rows in the ring, drawn uniformly with replacement from the first `filled` rows."""
    return jax.random.randint(key, shape, 0, filled)


class Reservoir(NamedTuple):
    """A uniform random sample of the rows of each bin of each signal (reward, cost 1 … J; or the group of s′ alone)."""

    rows: Array  # [signals, bins, size, width]
    seen: Array  # [signals, bins] int32, number of rows offered so far
    ranges: Array | None = None  # [2, signals] smallest and largest value so far, if not known in advance


def init_reservoir(signals: int, bins: int, size: int, width: int, *, ranged: bool = False) -> Reservoir:
    """An empty reservoir; `ranged` if it has to record the smallest and largest value of each signal."""
    # Finite numbers, because training checks that its state is finite.
    most = jnp.finfo(jnp.float32).max
    ranges = jnp.stack([jnp.full(signals, most), jnp.full(signals, -most)]) if ranged else None
    return Reservoir(jnp.zeros((signals, bins, size, width)), jnp.zeros((signals, bins), jnp.int32), ranges)


def emptied(reservoir: Reservoir) -> Reservoir:
    """An empty reservoir of the same shape."""
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
    """The bin [signals, n] of each value; `low` and `high` [signals] are the bounds of the values."""
    return jax.vmap(bin_of, (0, 0, 0, None))(signals, low, high, bins)


def widen(ranges: Array, signals: Array) -> Array:
    """Smallest and largest values [2, signals], updated by new values `signals` [signals, n]."""
    return jnp.stack([jnp.minimum(ranges[0], signals.min(1)), jnp.maximum(ranges[1], signals.max(1))])


def store(key: Array, reservoir: Reservoir, rows: Array, bins: Array) -> Reservoir:
    """Reservoir sampling of new rows [n, width]; `bins` [signals, n] holds the bin of each row for each signal."""
    count, size = reservoir.rows.shape[1:3]

    def offer(kept: Array, seen: Array, where: Array, luck: Array) -> tuple[Array, Array]:
        counts = seen[None] + jnp.cumsum(jax.nn.one_hot(where, count, dtype=jnp.int32), 0)  # [n, bins]
        nth = jnp.take_along_axis(counts, where[:, None], 1)[:, 0]
        slot = jnp.where(nth <= size, nth - 1, (luck * nth).astype(jnp.int32))
        # Of rows with the same slot the last one is stored; without this, the result on a GPU is not deterministic.
        order = jnp.arange(len(rows))
        last = jnp.full((count, size), -1).at[where, slot].max(order, mode="drop")
        slot = jnp.where(last.at[where, slot].get(mode="fill", fill_value=-1) == order, slot, size)
        return kept.at[where, slot].set(rows, mode="drop"), jnp.minimum(counts[-1], HIGH)

    luck = jax.random.uniform(key, bins.shape)
    kept, seen = jax.vmap(offer)(reservoir.rows, reservoir.seen, bins, luck)
    return reservoir._replace(rows=kept, seen=seen)


def sample_rare(key: Array, reservoir: Reservoir, shape: tuple[int, ...]) -> Array:
    """Rows [signals, *shape, width]: for each signal, all bins that have rows are equally likely."""
    size = reservoir.rows.shape[2]

    def draw(key: Array, rows: Array, seen: Array) -> Array:
        which, slot = jax.random.uniform(key, (2, *shape))
        filled = seen > 0
        nth = jnp.floor(which * filled.sum()).astype(jnp.int32)
        where = jnp.searchsorted(jnp.cumsum(filled), nth, side="right")  # the nth bin that has rows
        return rows[where, (slot * jnp.minimum(seen[where], size)).astype(jnp.int32)]

    return jax.vmap(draw)(jax.random.split(key, len(reservoir.seen)), reservoir.rows, reservoir.seen)


class Biased(NamedTuple):
    """Batches of biased sampling: rows of the ring, and rows of the reservoir."""

    places: Array  # [batches, n] indices of rows in the ring
    rare: Array  # [batches, m, width] rows of the reservoir

    def rows(self, ring: Array) -> Array:
        """All rows [batches, n + m, width]."""
        return jnp.concatenate([ring[self.places], self.rare], 1)


def choose_biased(key: Array, reservoir: Reservoir, filled: Array, batches: int, size: int, share: float) -> Biased:
    """Batches of `size` rows: a `share` from the reservoir, equal for all signals, the rest uniform from the ring."""
    ring_key, rare_key = jax.random.split(key)
    signals = len(reservoir.seen)
    rare_each = min(round(size * share / signals), size // signals)
    places = choose(ring_key, filled, (batches, size - signals * rare_each))
    rare = sample_rare(rare_key, reservoir, (batches, rare_each))  # [signals, batches, rare_each, ...]
    rare = jnp.moveaxis(rare, 0, 1).reshape(batches, signals * rare_each, reservoir.rows.shape[-1])
    return Biased(places, rare)
