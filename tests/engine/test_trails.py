"""Episodes with their positions are the episodes of an evaluation."""

import jax
import numpy as np

import safedsr
from safedsr.engine.evaluate import run_keys
from safedsr.engine.trails import trails

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
