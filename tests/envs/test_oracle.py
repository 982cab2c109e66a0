from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from safedsr.core.config import EpsilonSchedule
from safedsr.core.exploration import anneal, epsilon_at
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.config import GridConfig, OracleConfig
from safedsr.envs.grid.oracle import expected_rewards, find_oracle, oracle_paths, plan
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError

HALF_STEPS = GridConfig(
    step_mean=0.5, step_std=0.0, time_limit=200
)  # a step is one of two sub-cells: nothing is random
COARSE = OracleConfig(subcells=2, noise_points=1, steps=2000, walks=2)
GREEDY = EpsilonSchedule(epsilon_start=0.0, epsilon_end=0.0, epsilon_from=0, epsilon_to=0)
RIGHT = 3


def test_plan_of_a_corridor_by_hand(corridor):
    found = plan(corridor.layout, np.zeros(1, np.float32), COARSE, HALF_STEPS)
    steps = np.array([8, 7, 6, 5, 4, 3, 2, 1, 1, 1])  # from each sub-cell; inside the goal one more step ends it
    values = 0.99 ** (steps - 1) - 0.01 * (1 - 0.99**steps) / (1 - 0.99)
    np.testing.assert_allclose(found.values, np.tile(values, (2, 1)), atol=1e-5)
    np.testing.assert_array_equal(found.actions, np.full((2, 10), RIGHT))


def test_plan_counts_the_costs_on_the_way(corridor):
    found = plan(corridor.layout, np.array([0.1], np.float32), COARSE, HALF_STEPS)
    rewards = np.full(8, -0.01)  # of the steps out of the sub-cells 0 … 7
    rewards[[3, 4]] -= 0.1  # the two that end in the cost cell
    rewards[7] += 1
    expected = [sum(0.99**t * r for t, r in enumerate(rewards[k:])) for k in range(8)]
    np.testing.assert_allclose(found.values[0, :8], expected, atol=1e-5)


def test_a_plan_for_random_actions_is_the_value_of_random_walking(corridor):
    found = plan(
        corridor.layout, np.zeros(1, np.float32), replace(COARSE, plan_epsilon=1.0, tolerance=1e-7), HALF_STEPS
    )
    matrix, rewards = np.eye(10), np.zeros(10)
    for here in range(10):
        for there in (here, here, max(here - 1, 0), min(here + 1, 9)):  # up and down are undone
            rewards[here] += (-0.01 + (there >= 8)) / 4
            matrix[here, there] -= 0.99 / 4 * (there < 8)
    np.testing.assert_allclose(found.values[1], np.linalg.solve(matrix, rewards), atol=1e-4)


@pytest.mark.parametrize(("error", "length"), [(-0.001, 7), (0.001, 200)])
def test_with_expected_rewards_a_little_too_high_nobody_finishes(corridor, error, length):
    """A step that seems to give anything at all is worth more, for ever, than the goal that ends it."""
    rewards = jnp.full((20, 4), error).at[7, RIGHT].add(0.05).at[17, RIGHT].add(0.05)  # the step into the goal
    found = find_oracle(corridor.layout, (5.0,), GREEDY, COARSE, HALF_STEPS, rewards)
    assert found.greedy.length == length and found.greedy.goal_rate == (length < 200)


def test_rewards_are_expected_at_the_centres_by_rows(corridor):
    def features(obs, action):
        return jnp.array([obs[0], obs[1], action])

    found = expected_rewards(features, jnp.array([5.0, 50.0, 1000.0]), corridor.layout, 2)  # the map is 5 cells wide
    x, y = np.tile(np.arange(10) / 2 + 0.25, 2), np.repeat([0.25, 0.75], 10)
    np.testing.assert_allclose(found, (x + 10 * y)[:, None] + 1000 * np.arange(4), rtol=1e-5)


def test_walks_of_a_corridor_by_hand(corridor):
    found = find_oracle(corridor.layout, (5.0,), GREEDY, COARSE, HALF_STEPS)
    assert found.greedy.length == 7  # from 0.5 to 4
    np.testing.assert_array_equal(found.greedy.cost, [2])
    assert found.greedy.goal_count == found.greedy.safe_goal_count == 2000 // 7
    assert found.greedy.goal_rate == found.greedy.safe_goal_rate == 1
    (path,) = oracle_paths(found, corridor.layout, (0.0,), COARSE, HALF_STEPS)
    np.testing.assert_array_equal(path, [[x, 0.5] for x in np.arange(0.5, 4.5, 0.5)])


def test_nothing_is_safe_where_the_only_way_costs_too_much(corridor):
    found = find_oracle(corridor.layout, (1.0,), GREEDY, COARSE, HALF_STEPS)
    assert found.scheduled.goal_count > 0 and found.scheduled.safe_goal_count == 0


THREE_WAYS = """\
..........
.########.
SAAAAAAAAG
BBBBBBBBBB

A = fire 1
B = water 1
"""


@pytest.mark.parametrize(
    ("budgets", "length", "cost"),
    [
        ((99.0, 99.0), 17, (16, 0)),  # straight on
        ((0.0, 99.0), 19, (0, 18)),  # through the water
        ((0.0, 0.0), 24, (0, 0)),  # round the wall
    ],
)
def test_two_costs_at_once(budgets, length, cost):
    layout = parse_scene(THREE_WAYS).layout
    found = find_oracle(layout, budgets, GREEDY, COARSE, HALF_STEPS)
    relative = (1 + np.mean(budgets)) / (1 + np.array(budgets))
    np.testing.assert_allclose(found.lams, found.lam * relative, rtol=1e-6)
    assert found.greedy.safe_goal_rate == 1
    assert found.greedy.length == length
    np.testing.assert_array_equal(found.greedy.cost, cost)


def test_a_map_without_costs():
    found = find_oracle(parse_scene("S...G").layout, (), GREEDY, COARSE, HALF_STEPS)
    assert found.lam == 0 and found.lams.shape == (0,) and found.greedy.cost.shape == (0,)
    assert found.greedy.safe_goal_count == found.greedy.goal_count == 285


def test_exploring_walks_reach_the_goal_less_often(corridor):
    schedule = EpsilonSchedule(epsilon_start=1.0, epsilon_end=0.25, epsilon_from=500, epsilon_to=1000)
    found = find_oracle(corridor.layout, (5.0,), schedule, COARSE, HALF_STEPS)
    assert found.scheduled.goal_count < found.exploring.goal_count < found.greedy.goal_count


# Tables 1 and 2 of the paper: 1 until 20 000 steps, then linear to 0.25 at 100 000.
@pytest.mark.parametrize(
    ("step", "epsilon"), [(0, 1), (20_000, 1), (40_000, 0.8125), (60_000, 0.625), (100_000, 0.25), (500_000, 0.25)]
)
def test_epsilon_schedule(step, epsilon):
    assert epsilon_at(step, EpsilonSchedule()) == pytest.approx(epsilon)


def test_a_schedule_may_jump():
    np.testing.assert_array_equal(anneal(jnp.arange(4), 5.0, 2.0, 2, 2), [5, 5, 5, 2])


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (EpsilonSchedule, {"epsilon_start": 1.5}, "epsilon_start is 1.5; give a share between 0 and 1"),
        (EpsilonSchedule, {"epsilon_from": 9, "epsilon_to": 8}, "9 … 8'; the schedule must not end before it starts"),
        (OracleConfig, {"gamma": 1.0}, "gamma is 1.0"),
        (OracleConfig, {"walks": 0}, "walks is 0; give at least 1"),
        (OracleConfig, {"plan_epsilon": -1.0}, "plan_epsilon is -1.0"),
        (OracleConfig, {"tolerance": 0.0}, "tolerance is 0.0"),
    ],
)
def test_bad_settings(config, options, message):
    with pytest.raises(UserError) as error:
        config(**options)
    assert message in str(error.value)


# Counts over 500 000 steps and lengths of greedy paths, found once by value iteration in another program.
@pytest.mark.parametrize(
    ("layout", "costs", "goals", "steps"),
    [pytest.param("one-room", "none", 23_029, 13.1, marks=pytest.mark.slow), ("two-rooms", "diamond", 6_900, 43.0)],
)
def test_reference_counts(layout, costs, goals, steps):
    found = find_oracle(load_scene(layout, costs).layout, (5.0,), config=OracleConfig(walks=4))
    assert found.scheduled.safe_goal_count == pytest.approx(goals, rel=0.015)
    assert found.greedy.length == pytest.approx(steps, rel=0.02)
    if costs == "none":
        assert found.scheduled.goal_count == found.scheduled.safe_goal_count
        assert found.greedy.cost == 0
