"""Episodes with their positions are the episodes of an evaluation."""

import jax
import numpy as np

import safedsr
from safedsr.adapt.costs import task_of
from safedsr.engine.evaluate import run_keys
from safedsr.engine.trails import charged, trails

COUNT, SEED, EPSILON = 16, 3, 0.2


def test_they_end_as_those_of_an_evaluation_and_add_up_the_costs_on_their_way():
    agent = safedsr.pretrained("one-room").refit("square")
    found = trails(agent, agent.task, COUNT, 1000, EPSILON, SEED)
    wanted = run_keys(agent, agent.task, jax.random.split(jax.random.key(SEED), COUNT), EPSILON)
    assert wanted.cost.any()
    for mine, theirs in ((found.length, wanted.length), (found.success, wanted.success), (found.cost, wanted.cost)):
        assert np.array_equal(mine, theirs)
    layout = agent.task.params
    for n, length in enumerate(found.length):
        columns, rows = np.floor(found.positions[n, 1 : length + 1]).astype(int).T
        assert layout.costs[0, rows, columns].sum() == found.cost[n, 0]
        assert not layout.walls[rows, columns].any()


def test_an_episode_that_is_cut_off_has_not_reached_the_goal():
    agent = safedsr.pretrained("one-room")
    found = trails(agent, agent.task, 4, 5)
    assert found.positions.shape == (4, 6, 2) and not found.success.any() and (found.length == 5).all()


def test_other_costs_change_only_what_the_episodes_cost():
    agent = safedsr.pretrained("one-room")
    for costs in ("square", "offset-diamond"):
        task = task_of(agent, costs)
        expected = trails(agent, task, COUNT, 200, EPSILON, SEED)
        found = charged(trails(agent, agent.task, COUNT, 200, EPSILON, SEED), task.params)
        assert expected.cost.sum() > 0
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
