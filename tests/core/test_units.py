import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safedsr.core import units
from safedsr.core.units import Units

STEPS = st.lists(
    st.tuples(st.floats(-4, 4, width=16), st.floats(0, 4, width=16), st.booleans()), min_size=1, max_size=12
)


def after(steps, gamma=0.5, reward=1.0, cost=1.0):
    """The scale after these steps, with rewards and costs in other units."""
    scale, ret, time = units.init(1), np.float32(0), 0
    for gained, paid, done in steps:
        ret, time = np.float32(ret + np.float32(reward * gained)), time + 1
        numbers = jnp.float32(reward * gained), jnp.array([cost * paid], jnp.float32)
        scale = units.push(scale, *numbers, jnp.float32(ret), jnp.int32(time), gamma)
        ret, time = (np.float32(0), 0) if done else (ret, time)
    return scale


@settings(max_examples=20)
@given(STEPS)
def test_the_units_are_the_largest_return_and_the_largest_cost(steps):
    ret, time, most, largest = 0.0, 0, 0.0, 0.0
    for gained, paid, done in steps:
        ret, time = ret + gained, time + 1
        discounted = ret / time * sum(0.5**n for n in range(time))
        most, largest = max(most, abs(discounted), abs(gained)), max(largest, paid)
        ret, time = (0.0, 0) if done else (ret, time)
    scale = after(steps)
    np.testing.assert_allclose([scale.reward, scale.cost[0]], [most, largest], rtol=1e-3, atol=1e-3)


def test_equal_rewards_give_the_discounted_return_exactly():
    scale = after([(1.0, 0.0, False)] * 10, gamma=0.9)
    np.testing.assert_allclose(scale.reward, (1 - 0.9**10) / 0.1, rtol=1e-5)


@settings(max_examples=20)
@given(STEPS)
def test_other_units_change_what_they_should(steps):
    one = units.units(after(steps), jnp.array([2.0]))
    other = units.units(after(steps, reward=8.0, cost=4.0), jnp.array([8.0]))
    np.testing.assert_array_equal(other.reward, 8 * one.reward)
    np.testing.assert_array_equal(other.cost, 4 * one.cost)
    if one.reward > 0:
        np.testing.assert_array_equal(other.lam, 2 * one.lam)


@pytest.mark.parametrize(("budget", "unit"), [(5.0, 5.0), (0.0, 2.0), (0.5, 2.0)])
def test_a_budget_below_the_largest_cost_is_no_unit(budget, unit):
    scale = after([(1.0, 2.0, False)])
    np.testing.assert_array_equal(units.units(scale, jnp.array([budget])).cost, [unit])


def test_what_is_not_known_yet_changes_nothing():
    """Before anything is seen, λ has the unit 1, also in a compiled function."""
    lam = jax.jit(lambda: units.units(units.init(2), jnp.array([0.0, 5.0])).lam)()
    np.testing.assert_array_equal(lam, [1.0, 1.0])
    np.testing.assert_array_equal(Units(jnp.float32(2.0), jnp.array([0.0, 8.0])).lam, [1.0, 0.25])
    np.testing.assert_array_equal(units.ones(2).lam, [1.0, 1.0])
