import numpy as np
import pytest
from test_adapt_rungs import HIGH_ROAD, LOW_ROAD, torn
from test_evaluate import walker
from walked import walked_agent

from safedsr.adapt.front import Point, choose, front
from safedsr.engine.evaluate import run_episodes
from safedsr.errors import UserError

pytestmark = pytest.mark.usefixtures("compile_quickly")


def point(lam, reward, *cost):
    return Point(lam, reward, cost, 1.0, 1.0)


def test_the_most_reward_that_a_budget_allows():
    points = [
        point(0.0, 0.9, 8.0, 0.0),
        point(1.0, 0.7, 4.0, 1.0),
        point(2.0, 0.5, 1.0, 0.0),
        point(3.0, 0.6, 1.0, 2.0),
    ]
    assert [choose(points, budget) for budget in (10, 5, 2, 1)] == [points[0], points[1], points[3], points[2]]
    assert choose(points, 0.5) is None


@pytest.fixture(scope="module")
def found():
    """Above λ = 0.5 it leaves the straight road, which costs, and then waits for ever."""
    agent = torn(walked_agent(LOW_ROAD, 0.5, exact=True).refit(HIGH_ROAD))
    return agent, front(agent, [2.0, 0.0], lams=(1.0, 0.0, 0.25), episodes=8)


def test_points_are_plain_means(found):
    agent, result = found
    assert [p.lam for p in result.points] == [0.0, 0.25, 1.0]
    for p in result.points:
        lam = np.array([p.lam], np.float32)
        o = run_episodes(agent.with_policy(agent.policy._replace(lam=lam)), agent.task, 8)
        assert p.cost == (pytest.approx(o.cost.mean()),) and p.reward == pytest.approx(o.ret.mean(), rel=1e-5)
        assert (p.goal_rate, p.length) == (o.success.mean(), o.length.mean())
    assert result.points[0].cost[0] > 0 == result.points[2].cost[0]


def test_each_budget_has_its_multiplier(found):
    _, result = found
    assert result.chosen[2.0] == max(result.points, key=lambda p: p.reward)
    assert result.chosen[0.0] == result.points[2]


def test_no_other_point_beats_those_of_the_front(found):
    _, result = found
    for p, best in zip(result.points, result.best, strict=True):
        beaten = any(
            q.reward >= p.reward and q.cost <= p.cost and (q.reward, q.cost) != (p.reward, p.cost)
            for q in result.points
        )
        assert best != beaten


def test_a_front_needs_multipliers(found):
    with pytest.raises(UserError, match=r"^safedqn has no cost weights"):
        front(walker("right"), [1.0])
    for lams in ((), (-1.0,)):
        with pytest.raises(UserError, match=r"^lams is .*; give at least one, none below 0"):
            front(found[0], [1.0], lams=lams)
