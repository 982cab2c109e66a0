import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safedsr.core import multiplier
from safedsr.core.config import MultiplierConfig, for_mean
from safedsr.core.multiplier import LEAST, MOST, Ended
from safedsr.core.units import Units
from safedsr.errors import UserError

CONFIG = MultiplierConfig(
    lam_start=0.3,
    lam_lr=0.02,
    lam_step=0.05,
    lam_most=3.0,
    chance=0.25,
    pid_kp=0.04,
    pid_ki=0.003,
    pid_kd=0.07,
    pid_smooth=0.8,
)
COSTS = st.lists(st.floats(0, 1000, width=32), min_size=1, max_size=12)


def plain_proportional(costs, aim):
    lam = CONFIG.lam_start
    for cost in costs:
        lam = max(0.0, lam + 0.02 * (cost - aim))
        yield lam


def plain_sign(costs, aim):
    lam = CONFIG.lam_start
    for cost in costs:
        lam = max(0.0, lam + 0.05 if cost > aim else lam - 0.05)
        yield lam


def plain_pid(costs, aim):
    """Stooke et al. (2020), Alg. 2, with the slope of the smoothed cost over one update."""
    integral, error, level = CONFIG.lam_start, 0.0, 0.0
    for cost in costs:
        error = 0.8 * error + 0.2 * (cost - aim)
        level, before = 0.8 * level + 0.2 * cost, level
        integral = max(0.0, integral + 0.003 * (cost - aim))
        yield max(0.0, 0.04 * error + integral + 0.07 * max(0.0, level - before))


def plain_chance(costs, aim):
    lam = CONFIG.lam_start
    for cost in costs:
        lam = min(max(0.0, lam + 0.05 * ((cost > aim) - 0.25)), 3.0)
        yield lam


def plain_mean(costs, aim):
    lam = CONFIG.lam_start
    for cost in costs:
        lam = min(max(0.0, lam + 0.05 * (cost - aim) / max(aim, 0.1)), 3.0)
        yield lam


def plain_share(costs, aim):
    lam = CONFIG.lam_start
    for cost in costs:
        lam = min(lam * math.exp(0.05 * ((cost > aim) - 0.25)), 3.0)
        yield lam


PLAIN = {
    "proportional": plain_proportional,
    "sign": plain_sign,
    "pid": plain_pid,
    "chance": plain_chance,
    "share": plain_share,
    "mean": plain_mean,
}


def lams(rule, costs, aim, config=CONFIG):
    """λ after each episode; `costs` is [episodes, J]."""
    aim = jnp.asarray(aim, jnp.float32)
    state = multiplier.init(len(aim), config)
    found = []
    for cost in np.asarray(costs, np.float32):
        state = multiplier.after_episode(state, Ended(jnp.asarray(cost), aim), replace(config, rule=rule))
        found.append(state.lam)
    return np.array(found)


def test_every_rule_has_its_twin():
    assert PLAIN.keys() == multiplier.RULES.keys()


@pytest.mark.parametrize("rule", PLAIN)
@pytest.mark.parametrize("aim", [0.0, 5.0])
def test_rules_follow_their_equations(rule, aim):
    costs = np.random.default_rng(0).choice([0, 1, 4, 5, 6, 30], 60)
    expected = list(PLAIN[rule](costs.tolist(), aim))
    assert max(expected) > 0.3 and (aim == 0 or min(expected) < 0.3)
    np.testing.assert_allclose(lams(rule, costs[:, None], [aim])[:, 0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", PLAIN)
@given(costs=COSTS, aim=st.floats(0, 1000, width=32))
def test_lam_is_never_negative(rule, costs, aim):
    found = lams(rule, np.array(costs)[:, None], [aim])
    assert np.isfinite(found).all() and (found >= 0).all()


@pytest.mark.parametrize("rule", PLAIN)
def test_costs_do_not_touch_one_another(rule):
    costs = np.random.default_rng(1).integers(0, 12, (30, 3))
    together = lams(rule, costs, [5.0, 0.0, 8.0])
    for j, aim in enumerate([5.0, 0.0, 8.0]):
        np.testing.assert_array_equal(together[:, j], lams(rule, costs[:, j : j + 1], [aim])[:, 0])
    assert len(set(together[-1])) == 3


@pytest.mark.parametrize("rule", PLAIN)
def test_no_costs_at_all(rule):
    assert lams(rule, np.zeros((2, 0)), []).shape == (2, 0)


WAITING = replace(CONFIG, after_goal=True, penalty_start=0)


def step(state, cost, done=True, success=False, config=WAITING):
    cost, aim = (jnp.full(len(state.lam), x, jnp.float32) for x in (cost, 5.0))
    ended = Ended(cost, aim, success=jnp.asarray(success))
    return multiplier.after_step(state, ended, jnp.asarray(done), jnp.int32(0), config)


@pytest.mark.parametrize("rule", PLAIN)
def test_after_the_first_goal_it_is_as_if_it_had_never_waited(rule):
    config = replace(WAITING, rule=rule)
    state = multiplier.init(2, config)
    for _ in range(3):
        state = step(state, 9.0, config=config)
        np.testing.assert_array_equal(state.lam, 0)
    state = step(state, 9.0, success=True, config=config)
    before, usual = state, multiplier.at(jnp.full(2, CONFIG.lam_start))
    for kept, expected in zip(state, usual, strict=True):
        np.testing.assert_array_equal(kept, expected)
    for cost in (9.0, 8.0):
        state, usual = (step(s, cost, success=True, config=config) for s in (state, usual))
    np.testing.assert_array_equal(state.lam, usual.lam)
    assert (state.lam != before.lam).all()


def test_lam_starts_where_it_is_told_to():
    np.testing.assert_allclose(multiplier.init(2, CONFIG).lam, [0.3, 0.3])
    np.testing.assert_array_equal(multiplier.init(1, MultiplierConfig()).lam, [0.0])


@pytest.mark.parametrize("rule", PLAIN)
def test_a_cost_on_the_aim(rule):
    """C_ep = b breaks no budget: λ stays, or falls by the sign rule's step."""
    after = {
        "proportional": 0.3,
        "sign": 0.25,
        "pid": 0.3,
        "chance": 0.2975,
        "share": 0.3 * math.exp(-0.0025),
        "mean": 0.3,
    }[rule]
    config = MultiplierConfig(lam_start=0.3, lam_step=0.05, pid_kd=0.0)
    np.testing.assert_allclose(lams(rule, [[5.0]], [5.0], config), [[after]], rtol=1e-6)


@pytest.mark.parametrize(
    ("field", "value"),
    [("penalty_start", -1), ("lam_start", -0.1), ("lam_lr", -1), ("pid_ki", -1), ("pid_smooth", 1.0)],
)
def test_impossible_settings(field, value):
    with pytest.raises(UserError, match=f"^{field} is {value}; give a"):
        MultiplierConfig(**{field: value})


def test_the_chance_rule_stops_at_its_greatest():
    config = MultiplierConfig(rule="chance", lam_start=0.3, lam_step=0.05, lam_most=0.32)
    np.testing.assert_allclose(lams("chance", [[9.0]] * 3, [5.0], config)[:, 0], [0.32] * 3, rtol=1e-6)


def test_the_chance_rule_rests_where_its_share_breaks_the_budget():
    """One episode in four over the budget, and a chance of a quarter: λ comes back to where it was."""
    found = lams("chance", [[9.0], [1.0], [1.0], [1.0]] * 5, [5.0])
    np.testing.assert_allclose(found[3::4, 0], CONFIG.lam_start, rtol=1e-5)


@pytest.mark.parametrize(("unit", "aim"), [(1.0, 0.8), (40.0, 10.0)])
def test_the_mean_rule_brings_the_mean_cost_to_the_budget(unit, aim):
    """An agent that pays 3 units while λ is small, 1 while it is larger, and nothing above: it ends up in between."""
    config = MultiplierConfig(rule="mean", lam_step=0.01)
    state, costs = multiplier.init(1, config), []
    for _ in range(4000):
        lam = float(state.lam[0])
        costs.append(unit * (3.0 if lam < 0.2 else 1.0 if lam < 0.5 else 0.0))
        state = multiplier.mean(state, Ended(jnp.float32([costs[-1]]), jnp.float32([aim])), config)
    assert np.mean(costs[1000:]) == pytest.approx(aim, rel=0.01)


def test_a_budget_of_the_mean_has_a_rule_of_its_own():
    usual = MultiplierConfig(rule="chance", lam_most=0.05)
    assert for_mean(usual, [usual]) == replace(usual, rule="mean", lam_most=None)
    other = replace(usual, rule="share", lam_most=0.25)
    assert for_mean(other, [usual, other]) == replace(other, rule="mean", lam_most=None)
    assert for_mean(replace(usual, lam_most=2.0), [usual]) == replace(usual, rule="mean", lam_most=2.0)
    pid = replace(usual, rule="pid")
    assert for_mean(pid, [usual]) is pid


def test_where_there_are_no_goals_the_share_rule_has_no_limit():
    config = replace(CONFIG, rule="share")
    over, aim = jnp.array([9.0]), jnp.array([5.0])
    found = [
        multiplier.share(multiplier.at(jnp.array([2.99])), Ended(over, aim, goals), config) for goals in (True, False)
    ]
    np.testing.assert_allclose([m.lam[0] for m in found], [3.0, 2.99 * math.exp(0.05 * 0.75)], rtol=1e-6)
    low, high = (
        multiplier.share(multiplier.at(jnp.array([x])), Ended(over, aim, False), config).lam[0] for x in (0.0, 1e9)
    )
    assert low == pytest.approx(LEAST * math.exp(0.05 * 0.75)) and high == MOST


FREE = MultiplierConfig(rule="share", lam_step=0.02, chance=0.03, tilt=0.2)


def settle(chance_over, config=FREE, episodes=12_000, length=lambda lam: 1.0, seed=0):
    """λ and the share of episodes above the budget, over the last 5 000 episodes, all of which reach the goal.

    An episode with λ is above the budget by chance, `chance_over(λ)`, and has `length(λ)` steps.
    """

    def episode(m, luck):
        lam = multiplier.acting(m, config, goals=True)[0]
        over = luck < chance_over(lam)
        ended = Ended(jnp.where(over, 2.0, 0.5)[None], jnp.ones(1), steps=jnp.float32(length(lam)))
        return multiplier.share(m, ended, config), (m.lam[0], over)

    luck = jax.random.uniform(jax.random.key(seed), (episodes,))
    lam, over = jax.lax.scan(episode, multiplier.at(jnp.full(1, 0.25)), luck)[1]
    return lam[-5000:], over[-5000:].mean()


@pytest.mark.parametrize("needed", [0.5, 8.0])
def test_lam_rises_as_far_as_the_problem_needs(needed):
    """Every episode breaks the budget until λ is large enough."""
    lam, over = settle(lambda lam: lam < needed)
    assert lam.mean() == pytest.approx(needed, rel=0.05)
    assert 0.02 < over < 0.04


@pytest.mark.parametrize("optimum", [0.3, 1.0])
def test_where_the_budget_cannot_be_kept_lam_is_that_of_most_safe_goals_per_step(optimum):
    """A fifth of the episodes is above the budget with any λ, more with a small one; a large λ makes episodes long."""

    def chance_over(lam):
        return 0.2 + 0.6 * jnp.exp(-4 * lam / optimum)

    def length(lam):
        return 100 * (1 + (lam / optimum / 2) ** 2)

    grid = np.linspace(0.05, 5, 2000) * optimum
    best = grid[np.argmax((1 - chance_over(grid)) / length(grid))]
    found, over = settle(chance_over, length=length)
    assert best / 1.4 < np.exp(np.log(found).mean()) < best * 1.4
    assert 0.18 < over < 0.35
    alone, _ = settle(chance_over, replace(FREE, tilt=0.0), length=length)
    assert alone.mean() > MOST / 2  # without the comparison, λ rises for ever


def test_if_most_episodes_fail_lam_falls():
    """All episodes are above the budget, without success: λ may be what keeps the agent from the goal."""
    m = multiplier.at(jnp.ones(1))
    for _ in range(200):
        m = multiplier.share(m, Ended(jnp.full(1, 2.0), jnp.ones(1), success=jnp.array(False)), FREE)
    assert m.lam[0] < 0.1


def test_two_lam_are_compared_in_all_combinations():
    m = multiplier.at(jnp.array([1.0, 2.0]))
    seen = set()
    for _ in range(4):
        hard = m._replace(over=jnp.ones(2))
        seen.add(tuple(np.sign(np.log(multiplier.acting(hard, FREE, goals=True) / m.lam)).tolist()))
        np.testing.assert_array_equal(multiplier.acting(m, FREE, goals=True), m.lam)  # nothing is hard
        np.testing.assert_array_equal(multiplier.acting(hard, FREE, goals=False), m.lam)
        m = m._replace(episodes=m.episodes + 1)
    assert seen == {(1, 1), (-1, 1), (1, -1), (-1, -1)}


@pytest.mark.parametrize("rule", PLAIN)
@settings(max_examples=10)
@given(costs=COSTS)
def test_in_units_every_rule_works_with_pure_numbers(rule, costs):
    """Rewards and costs in other units: λ changes by the ratio of both, bit for bit for powers of two."""
    config = replace(CONFIG, rule=rule)
    small, large = Units(jnp.float32(1.0), jnp.array([5.0])), Units(jnp.float32(4.0), jnp.array([40.0]))
    one, other = multiplier.at(jnp.array([0.3])), multiplier.at(jnp.array([0.3 * 4 / 8], jnp.float32))
    for cost in np.asarray(costs, np.float32):
        one = multiplier.after_episode(one, Ended(jnp.array([cost]), jnp.array([5.0])), config, small)
        other = multiplier.after_episode(other, Ended(jnp.array([8 * cost]), jnp.array([40.0])), config, large)
        np.testing.assert_array_equal(other.lam, one.lam / 2)
