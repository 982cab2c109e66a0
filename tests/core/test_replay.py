"""Rows carry their transition's number in every field, so that a row mixed from two would show."""

import itertools
from collections import deque
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safedsr.core import replay
from safedsr.core.replay import Codec
from safedsr.types import Record, Transition

pytestmark = pytest.mark.usefixtures("compile_quickly")
COMMON, RARE = 0.0, 1.0
choose_biased = jax.jit(replay.choose_biased, static_argnums=(3, 4, 5))


def coded(numbers, num_costs=1, reward=None, cost=None):
    """The rows of transitions with these numbers; rewards and costs [n, J] may be given instead."""
    n = jnp.asarray(numbers, jnp.float32)
    return Codec(2, num_costs).pack(
        Transition(
            obs=jnp.stack([n, n + 0.25], -1),
            action=n.astype(jnp.int32),
            reward=n if reward is None else jnp.asarray(reward, jnp.float32),
            cost=jnp.tile(n[:, None], (1, num_costs)) if cost is None else jnp.asarray(cost, jnp.float32),
            next_obs=jnp.stack([n + 0.5, n + 0.75], -1),
            terminated=n.astype(bool),
        )
    )


def numbers(rows):
    """The numbers of rows, once every field that carries one was seen to agree."""
    width = rows.shape[-1]
    t = Codec(2, width - 7).unpack(jnp.asarray(rows).reshape(-1, width))
    n = np.asarray(t.action)
    np.testing.assert_array_equal(t.obs, np.stack([n, n + 0.25], 1))
    np.testing.assert_array_equal(t.next_obs, np.stack([n + 0.5, n + 0.75], 1))
    np.testing.assert_array_equal(t.terminated, n > 0)
    return n.reshape(rows.shape[:-1])


def empty_reservoir(num_costs, bins, size):
    """A reservoir for the reward and every cost, where an observation is two numbers."""
    return replay.init_reservoir(1 + num_costs, bins, size, Codec(2, num_costs).width)


def offer(key, reservoir, rows, every, low=COMMON, high=RARE):
    """Offer rows in batches of `every`, as training does."""
    low, high = (jnp.full(len(reservoir.seen), bound) for bound in (low, high))

    def store(reservoir, batch):
        key, rows = batch
        signals = replay.signals_of(Codec(2, len(low) - 1).unpack(rows))
        bins = replay.value_bins(signals, low, high, reservoir.rows.shape[1])
        return replay.store(key, reservoir, rows, bins), None

    batches = rows.reshape(-1, every, rows.shape[-1])
    return jax.lax.scan(store, reservoir, (jax.random.split(key, len(batches)), batches))[0]


@pytest.mark.parametrize("num_costs", [0, 1, 3])
def test_a_row_gives_its_transition_back(num_costs):
    codec = Codec(2, num_costs)
    t = Transition(
        obs=jnp.array([[0.1, 0.2]]),
        action=jnp.array([3]),
        reward=jnp.array([-0.01]),
        cost=jnp.arange(1.0, num_costs + 1)[None],
        next_obs=jnp.array([[0.3, 0.4]]),
        terminated=jnp.array([True]),
        success=jnp.array([True]),
        first=jnp.array([False]),
    )
    row = codec.pack(t)
    assert row.shape == (1, 7 + num_costs) and replay.init_ring(4, codec.width).shape == (4, 7 + num_costs)
    back = codec.unpack(row)
    for name, field in t._asdict().items():
        np.testing.assert_array_equal(getattr(back, name), field, err_msg=name)
    assert back.action.dtype == jnp.int32 and back.terminated.dtype == jnp.float32


def wide_transition():
    """A step between observations of five numbers, with two costs."""
    return Transition(
        obs=jnp.arange(5.0) / 8,
        action=jnp.int32(7),
        reward=jnp.float32(-2.5),
        cost=jnp.array([0.0625, 3.0]),
        next_obs=jnp.arange(5.0, 10.0) / 8,
        terminated=jnp.float32(2),
        success=jnp.float32(0),
        first=jnp.float32(1),
    )


def test_rows_are_as_wide_as_observations_and_costs_need():
    codec, t = Codec(5, 2, extras=2), wide_transition()._replace(extra=jnp.array([101.0, 102.0]))
    row = codec.pack(t)
    assert row.shape == (codec.width,) == (17,)
    assert len(set(row.tolist())) == 17, "every number has a place of its own"
    several = jnp.tile(row, (3, 4, 1))
    for rows, shape in ((row, ()), (several, (3, 4))):
        back = codec.unpack(rows)
        for name, field in t._asdict().items():
            np.testing.assert_array_equal(
                getattr(back, name), np.broadcast_to(field, shape + field.shape), err_msg=name
            )
        np.testing.assert_array_equal(codec.pack(back), rows)


@pytest.mark.parametrize("flags", [*itertools.product([0, 1, 2], [0, 1], [0, 1])])
def test_a_row_keeps_how_its_episode_began_and_ended(flags):
    t = wide_transition()._replace(
        **dict(zip(("terminated", "success", "first"), map(jnp.float32, flags), strict=True))
    )
    back = Codec(5, 2).unpack(Codec(5, 2).pack(t))
    assert (float(back.terminated), float(back.success), float(back.first)) == flags


def test_a_row_gives_its_record_back():
    codec = Codec(5, 2)
    record = Record(
        done=jnp.array(True),
        success=jnp.array(False),
        length=jnp.int32(17),
        ret=jnp.float32(-0.75),
        cost=jnp.array([0.25, 3.0]),
        obs=jnp.arange(5.0) / 8,
    )
    row = codec.pack_record(record)
    assert row.shape == (codec.record_width,) == (11,) and row.dtype == jnp.float32
    for rows, shape in ((row, ()), (jnp.tile(row, (3, 1)), (3,))):
        back = codec.unpack_record(rows)
        for name, field in record._asdict().items():
            found = getattr(back, name)
            np.testing.assert_array_equal(found, np.broadcast_to(field, shape + field.shape), err_msg=name)
            assert found.dtype == field.dtype, name


@pytest.mark.parametrize("codec", [Codec(5, 1), Codec(5, 3), Codec(4, 2), Codec(6, 2)])
def test_a_row_of_another_width_is_refused(codec):
    row = Codec(5, 2).pack(wide_transition())
    message = f"numbers where {codec.observations} observations and {codec.costs} costs need {codec.width}$"
    with pytest.raises(ValueError, match=f"^a row of 15 {message}"):
        codec.unpack(row)
    with pytest.raises(ValueError, match=f"^a row of 15 {message}"):
        codec.pack(wide_transition())
    with pytest.raises(ValueError, match=rf"^a row of 11 .* need {codec.record_width}$"):
        codec.unpack_record(jnp.zeros(11))


@given(every=st.sampled_from([1, 4]), batches_held=st.sampled_from([1, 3]), batches=st.integers(0, 10))
def test_the_ring_is_a_bounded_deque(every, batches_held, batches):
    capacity = every * batches_held
    ring, twin = replay.init_ring(capacity, Codec(2, 1).width), deque(maxlen=capacity)
    for batch in range(batches):
        new = np.arange(batch * every, (batch + 1) * every)
        ring = replay.add(ring, coded(new), jnp.int32(batch * every))
        twin.extend(new.tolist())
    held = ring[: len(twin)]
    assert sorted(numbers(held).tolist()) == list(twin)
    np.testing.assert_array_equal(held, coded(numbers(held)))
    assert not np.any(ring[len(twin) :])


@pytest.mark.parametrize("filled", [1, 5, 8])
def test_only_filled_rows_are_sampled_and_all_of_them_alike(filled):
    ring = coded(np.arange(8))
    drawn = numbers(ring[replay.choose(jax.random.key(0), jnp.int32(filled), (4, 2000))])
    assert drawn.shape == (4, 2000)
    counts = np.bincount(drawn.ravel(), minlength=8)
    assert not counts[filled:].any()
    assert np.abs(counts[:filled] - 8000 / filled).max() < 5 * (8000 / filled) ** 0.5


def test_bins_part_the_range_evenly():
    values = jnp.array([-5.0, 0.0, 0.24, 0.26, 0.5, 0.99, 1.0, 9.0])
    found = replay.bin_of(values, jnp.float32(0), jnp.float32(1), 4)
    np.testing.assert_array_equal(found, [0, 0, 0, 1, 2, 3, 3, 3])
    np.testing.assert_array_equal(replay.bin_of(jnp.zeros(2), jnp.float32(0), jnp.float32(0), 4), [0, 0])


@pytest.mark.parametrize("every", [1, 8])
def test_the_reservoir_keeps_a_fair_sample(every):
    """Each of 40 rows of a bin of 8 is kept with probability 1/5, however they are offered."""
    trials, size, count = 4000, 8, 40
    rows = coded(np.arange(count), reward=np.zeros(count), cost=np.zeros((count, 1)))
    empty = empty_reservoir(1, 2, size)
    one = jax.jit(jax.vmap(partial(offer, rows=rows, every=every), (0, None)))
    found = one(jax.random.split(jax.random.key(0), trials), empty)
    np.testing.assert_array_equal(found.seen, np.broadcast_to([[count, 0], [count, 0]], (trials, 2, 2)))
    kept = numbers(found.rows[:, :, 0])
    for signal in (0, 1):
        times = np.bincount(kept[:, signal].ravel(), minlength=count)
        p = size / count
        assert np.abs(times - trials * p).max() < 4.5 * (trials * p * (1 - p)) ** 0.5
    assert (np.diff(np.sort(kept, -1), axis=-1) > 0).all()  # nothing is kept twice
    assert not (kept[:, 0] == kept[:, 1]).all(-1).any()  # every signal draws for itself


def test_rows_offered_together_are_kept_as_one_after_the_other():
    """Of several that want the same slot the last one stays."""
    key, count, size = jax.random.key(3), 60, 4
    bins = jnp.arange(count)[None] % 2
    found = replay.store(key, empty_reservoir(0, 2, size), coded(np.arange(count), 0), bins)
    luck, kept, wanted = np.asarray(jax.random.uniform(key, (1, count)))[0], np.zeros((2, size), int), []
    for n in range(count):
        seen = n // 2 + 1
        slot = seen - 1 if seen <= size else int(luck[n] * np.float32(seen))
        if slot < size:
            kept[n % 2, slot] = n
            wanted.append((n % 2, slot))
    np.testing.assert_array_equal(numbers(found.rows[0]), kept)
    assert len(wanted) > len(set(wanted)) + 5


def test_rare_rows_survive_for_ever():
    rare = coded([1, 2, 3], reward=[RARE] * 3, cost=[[COMMON]] * 3)
    plenty = coded(np.arange(4, 1004), reward=np.zeros(1000), cost=np.zeros((1000, 1)))
    found = offer(jax.random.key(0), empty_reservoir(1, 4, 8), jnp.concatenate([rare, plenty[:-3]]), 8)
    np.testing.assert_array_equal(found.seen[0], [997, 0, 0, 3])
    np.testing.assert_array_equal(numbers(found.rows[0, 3, :3]), [1, 2, 3])
    assert (numbers(found.rows[0, 0]) > 3).all() and found.seen[1, 0] == 1000


def test_bins_are_drawn_alike_and_empty_ones_never():
    """One row in one bin, 10 000 in another, none in two more."""
    rewards = np.zeros(10_001)
    rewards[5000] = RARE
    rows = coded(np.arange(1, 10_002), num_costs=0, reward=rewards, cost=np.zeros((10_001, 0)))
    found = offer(jax.random.key(0), empty_reservoir(0, 4, 16), rows, 10_001)
    drawn = replay.sample_rare(jax.random.key(1), found, (8000,))
    assert drawn.shape == (1, 8000, 7)
    drawn = numbers(drawn[0])
    assert abs((drawn == 5001).sum() - 4000) < 4.5 * 2000**0.5
    others, counts = np.unique(drawn[drawn != 5001], return_counts=True)
    assert set(others) == set(numbers(found.rows[0, 0]).tolist()) and 0 not in drawn
    assert np.abs(counts - 250).max() < 4.5 * 250**0.5


@pytest.mark.parametrize(("num_costs", "shares"), [(0, [20]), (1, [10, 10]), (3, [5, 5, 5, 5])])
def test_a_biased_batch_has_its_share_of_every_signal(num_costs, shares):
    """The ring holds number 0 alone, the reservoir of signal i the number i + 1 alone."""
    signals = 1 + num_costs
    reservoir = empty_reservoir(num_costs, 4, 2)
    own = coded(np.arange(1, signals + 1), num_costs)
    reservoir = replay.Reservoir(reservoir.rows.at[:, 1, 0].set(own), reservoir.seen.at[:, 1].set(1))
    ring = coded(np.zeros(4), num_costs)
    batch = choose_biased(jax.random.key(0), reservoir, jnp.int32(4), 3, 100, 0.2).rows(ring)
    assert batch.shape == (3, 100, 7 + num_costs)
    for one in numbers(batch):
        np.testing.assert_array_equal(np.bincount(one), [80, *shares])


def test_no_bias_draws_from_the_ring_alone():
    ring = coded(np.arange(1, 5))
    batch = choose_biased(jax.random.key(0), empty_reservoir(1, 2, 2), jnp.int32(4), 2, 50, 0.0).rows(ring)
    assert set(numbers(batch).ravel()) == {1, 2, 3, 4}


@pytest.mark.parametrize("num_costs", [0, 2])
def test_every_signal_is_binned_by_its_own_value(num_costs):
    reward = [0.0, 1.0, 0.0, 1.0]
    cost = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 1.0]])[:, :num_costs]
    rows = coded([1, 2, 3, 4], num_costs, reward, cost)
    found = offer(jax.random.key(0), empty_reservoir(num_costs, 2, 4), rows, 4)
    np.testing.assert_array_equal(found.seen, [[2, 2], [3, 1], [1, 3]][: 1 + num_costs])
    np.testing.assert_array_equal(numbers(found.rows[0, 1, :2]), [2, 4])
    if num_costs:
        np.testing.assert_array_equal(numbers(found.rows[1, 1, :1]), [3])
        np.testing.assert_array_equal(numbers(found.rows[2, 1, :3]), [2, 3, 4])


def test_a_reservoir_that_knows_no_ranges_finds_them_out():
    reservoir = replay.init_reservoir(2, 4, 8, 9, ranged=True)
    assert reservoir.ranges is not None and np.isfinite(reservoir.ranges).all()
    assert (reservoir.ranges[0] > reservoir.ranges[1]).all()  # nothing lies between
    ranges = replay.widen(reservoir.ranges, jnp.array([[1.0, -3.0], [0.5, 0.5]]))
    np.testing.assert_array_equal(ranges, [[-3.0, 0.5], [1.0, 0.5]])
    ranges = replay.widen(ranges, jnp.array([[0.0], [2.0]]))
    np.testing.assert_array_equal(ranges, [[-3.0, 0.5], [1.0, 2.0]])
    assert replay.init_reservoir(2, 4, 8, 9).ranges is None


def test_slots_are_filled_as_far_as_rows_were_seen():
    reservoir = replay.Reservoir(jnp.zeros((1, 3, 4, 9)), jnp.array([[0, 3, 9]]))
    expected = [[[False] * 4, [True] * 3 + [False], [True] * 4]]
    np.testing.assert_array_equal(replay.filled_slots(reservoir), expected)
