"""The parts of the agent with tables: its memory, its passes over it, its library and its guesses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from safedsr.envs.twins.four_room import read_map
from safedsr.errors import UserError
from safedsr.transfer import guess as guesses
from safedsr.transfer import library as libraries
from safedsr.transfer import memory as memories
from safedsr.transfer import tables
from safedsr.transfer.memory import NONE
from safedsr.transfer.rooms import LEARNT, rooms_of
from safedsr.transfer.tables import Plan

PLAN = (0.9, 0.2)  # γ, ε


def mapped(function, *args):
    """A function of one trial, with the axis that agents are mapped over."""
    one = jax.vmap(function, axis_name=tables.TRIALS)
    return jax.tree.map(lambda x: x[0], one(*jax.tree.map(lambda x: jnp.asarray(x)[None], args)))


def test_a_memory_numbers_states_in_the_order_in_which_they_are_met():
    rng, m, known = np.random.default_rng(0), memories.empty(64, 4), {}
    enter = jax.jit(memories.enter)
    for key in rng.integers(0, 40, 200) * 169_001:
        m, number = enter(m, jnp.int32(key))
        assert int(number) == known.setdefault(int(key), len(known))
    assert int(m.count) == len(known) and int(m.lost) == 0
    assert m.keys[: len(known)].tolist() == list(known)


def test_a_full_memory_says_so_and_keeps_what_it_has():
    m, numbers = memories.empty(4, 2), []
    for key in (5, 6, 7, 8, 9, 5):
        m, number = memories.enter(m, jnp.int32(key))
        numbers.append(int(number))
    assert numbers == [0, 1, 2, 3, NONE, 0] and int(m.lost) == 1
    unchanged = memories.record(m, jnp.int32(NONE), jnp.int32(1), jnp.int32(0), jnp.int32(1), jnp.array(False))
    assert np.array_equal(unchanged.steps, m.steps)


def corridor(length=5):
    """States 0 … n - 1 in a row; action 1 goes right and ends at the last one, action 0 goes left."""
    m = memories.empty(8, 2)
    for key in range(length):
        m, _ = memories.enter(m, jnp.int32(key))
    for s in range(length - 1):
        for a, after in ((0, max(s - 1, 0)), (1, s + 1)):
            ended = after == length - 1
            m = memories.record(m, jnp.int32(s), jnp.int32(a), jnp.int32(after), jnp.int32(ended), jnp.array(ended))
    return m


def test_passes_over_a_memory_end_at_the_successor_features_of_the_best_policy():
    m, features = corridor(), jnp.array([[1.0, 0, 0], [0, 1.0, 0]])  # of an inner step, of the last one; novelty
    aim, usual = jnp.array([0.0, 1.0, 0.0]), jnp.zeros((8, 2, 3))
    found = mapped(lambda t, m: tables.sweeps(200, t, Plan(m, features, aim, usual, *PLAN)), jnp.zeros((8, 2, 3)), m)
    # The best action is always 1, so later actions are 1 with a chance of 0.9 and 0 with one of 0.1.
    gamma, moves = PLAN[0], np.array([[max(s - 1, 0), s + 1] for s in range(4)])
    chain = np.zeros((4, 4))
    now = np.array([[[0.0, 1.0] if after == 4 else [1.0, 0.0] for after in row] for row in moves])
    for s in range(4):
        for chance, after in zip((0.1, 0.9), moves[s], strict=True):
            if after < 4:
                chain[s, after] += chance
    values = np.linalg.solve(np.eye(4) - gamma * chain, np.einsum("a,sad->sd", [0.1, 0.9], now))
    ahead = np.concatenate([values, np.zeros((1, 2))])[moves]
    assert np.allclose(found[:4, :, :2], now + gamma * ahead, atol=1e-5)
    assert (np.argmax(found[:4] @ aim, 1) == 1).all()


def test_what_was_never_tried_is_as_usual_in_its_cell():
    m, usual = corridor(), jnp.arange(48.0).reshape(8, 2, 3)
    features, aim = jnp.eye(2, 3), jnp.array([0.0, 1.0, 0.0])
    found = mapped(lambda t, m: tables.sweeps(1, t, Plan(m, features, aim, usual, *PLAN)), jnp.zeros((8, 2, 3)), m)
    assert np.array_equal(found[4], usual[4])  # nothing was done in the last state
    means = mapped(lambda t, m: tables.mean_of_cells(t, m, 8), found, m)
    assert np.allclose(means[:4], found[:4]) and means[6].tolist() == [[0, 0, 1]] * 2  # novel


def test_what_was_forgotten_stays_as_it_was_learnt():
    m, features, aim = memories.forget(corridor()), jnp.eye(2, 3), jnp.array([0.0, 1.0, 0.0])
    before = jnp.arange(48.0).reshape(8, 2, 3)
    after = mapped(lambda t, m: tables.sweeps(3, t, Plan(m, features, aim, None, *PLAN)), before, m)
    assert np.array_equal(after, before) and int(m.count) == 5


def test_passes_over_some_states_change_these_and_what_follows_from_them():
    m, features, aim = corridor(), jnp.eye(2, 3), jnp.array([0.0, 1.0, 0.0])
    visited = jnp.array([3, NONE, 2])

    def passes(table, m):
        plan = Plan(m, features, aim, jnp.zeros((8, 2, 3)), *PLAN)
        table, ahead = tables.revisit(4, table, tables.all_onward(table, plan), visited, plan)
        return table, ahead, tables.all_onward(table, plan)

    table, ahead, again = mapped(passes, jnp.zeros((8, 2, 3)), m)
    assert np.allclose(ahead[:5], again[:5]) and (ahead[2:4, 1] > 0).all()
    assert (table[2:4, 1] @ aim > 0.5).all() and not table[:2].any() and not table[4:].any()


def test_a_library_keeps_distinct_policies_and_replaces_the_most_similar_one():
    m, aim = corridor(), jnp.array([1.0])
    left, right = (jnp.zeros((8, 2, 1)).at[:, a].set(1.0) for a in (0, 1))
    mixed = jnp.where(jnp.arange(8)[:, None, None] < 2, left, right)
    library = libraries.empty(2, left)
    for table in (left, 2 * left, right):
        library = libraries.offer(library, table, aim, m, 0.3)
    assert library.used.tolist() == [True, True]
    assert np.array_equal(library.tables, jnp.stack([2 * left, right]))  # the second replaced its like
    full = libraries.offer(library, mixed, aim, m, 0.3)  # differs from `right` in two of five states
    assert np.array_equal(full.tables, jnp.stack([2 * left, mixed]))


def test_generalised_policy_improvement_takes_the_best_of_all_policies():
    rng = np.random.default_rng(1)
    stored, own = jnp.asarray(rng.normal(size=(3, 8, 2, 4))), jnp.asarray(rng.normal(size=(8, 2, 4)))
    aim = jnp.asarray(rng.normal(size=4))
    library = libraries.Library(stored, jnp.zeros((3, 4)), jnp.array([True, True, False]))
    table, better = libraries.best_of(library, own, aim)
    wanted = np.maximum((stored[:2] @ aim).max(0), own @ aim)
    assert np.allclose(table @ aim, wanted, atol=1e-6)
    assert np.array_equal(better, wanted > np.asarray(own @ aim) + 1e-7)


def test_one_earlier_task_has_no_correlations():
    given = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, 200), jnp.float32)

    @jax.jit  # compiled, the sums are rounded differently
    def guessed(given):
        g = guesses.next_task(guesses.push(guesses.init(200), jnp.arange(200), given, jnp.zeros(200)))
        g = guesses.push(g, jnp.arange(6), jnp.array([0.3, -0.4, 0.9, -0.9, 0.8, 0.1]), jnp.zeros(6))
        return guesses.rewards(g, 0.5)

    assert jnp.array_equal(guessed(given)[6:], given[6:])  # those of the task before


def test_guesses_are_means_of_this_task_and_hopeful_where_it_has_shown_nothing():
    g = guesses.init(3)
    for reward in (1.0, -1.0):
        g = guesses.next_task(guesses.push(g, jnp.array([0, 0]), jnp.array([reward, reward]), jnp.array([0.0, 1.0])))
    g = guesses.push(g, jnp.array([1]), jnp.array([0.25]), jnp.zeros(1))
    assert guesses.rewards(g, 0.5).tolist() == pytest.approx([0.5, 0.25, 0.0])  # mean 0, standard deviation 1
    assert guesses.costs(g).tolist() == [0.5, 0.0, 0.0]
    assert g.number.tolist() == [0, 1, -1]


def test_a_feature_keeps_its_number_when_others_are_found_later():
    """Stored policies are tables over these numbers."""
    rooms = rooms_of(known=False)
    g = guesses.init(rooms.codes)
    g = guesses.push(g, jnp.array([5, 6]), jnp.array([0.0, 1.0]), jnp.zeros(2))
    first = rooms.features_of(g)
    g = guesses.next_task(guesses.push(g, jnp.array([2, 4]), jnp.array([0.5, 0.0]), jnp.array([0.0, 1.0])))
    later = rooms.features_of(g)
    assert first[6, 0] == 1 and first.sum() == 1
    assert jnp.array_equal(later[6], first[6]) and later[2, 1] == later[4, 2] == 1 and later.sum() == 3


def test_a_map_with_more_to_learn_than_there_are_features_is_refused():
    row = "S" + "T" * (LEARNT - 1) + "G"
    assert rooms_of(False, read_map(row)).features == LEARNT
    with pytest.raises(UserError, match=r"1 shapes, 31 traps and a goal; .* 32 at most"):
        rooms_of(False, read_map(f"1{row}"))


def test_shapes_that_paid_alike_in_earlier_tasks_are_expected_to_pay_alike():
    rng, g = np.random.default_rng(3), guesses.init(4)
    codes = jnp.arange(4)
    for _ in range(30):  # codes 0 and 1 are of one kind, 2 is the opposite, 3 has nothing to do with them
        kind, other = rng.uniform(-1, 1, 2)
        paid = jnp.array([kind, kind, -kind, other], jnp.float32)
        g = guesses.next_task(guesses.push(g, codes, paid, jnp.zeros(4)))
    g = guesses.push(g, jnp.array([0]), jnp.array([0.8]), jnp.zeros(1))
    plain, hopeful = np.asarray(guesses.rewards(g, 0.0)), np.asarray(guesses.rewards(g, 1.0))
    assert plain[:3] == pytest.approx([0.8, 0.8, -0.8], abs=0.1) and abs(plain[3]) < 0.4
    spread = hopeful - plain
    assert spread[0] == 0 and spread[1] < 0.25 and spread[3] > 0.4  # what is known needs no hope
