"""What the page draws, computed without a server."""

import numpy as np

import safedsr
from safedsr.adapt.costs import task_of
from safedsr.engine.trails import trails
from safedsr.studio.picture import charged


def test_other_costs_change_only_what_the_episodes_cost():
    agent = safedsr.pretrained("one-room")
    for costs in ("square", "offset-diamond"):
        task = task_of(agent, costs)
        expected = trails(agent, task, 16, 200, 0.2, 3)
        found = charged(trails(agent, agent.task, 16, 200, 0.2, 3), task.params)
        assert expected.cost.sum() > 0
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
