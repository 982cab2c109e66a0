import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta, t
from tiny import linear, tiny_job, tiny_task

from safedsr.agent import Agent, evaluate_run
from safedsr.agents.value_based.trainer import Policy
from safedsr.engine import evaluate as module
from safedsr.engine import outcome
from safedsr.engine.evaluate import evaluate, run_episodes
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.physics import ACTIONS
from safedsr.errors import UserError
from safedsr.figures.paths import agent_paths

pytestmark = pytest.mark.usefixtures("compile_quickly")
STILL = GridConfig(step_std=0.0, time_limit=9)
FIVE = "S.C.G"  # going right: 0.5, 1.25, 2, 2.75, 3.5, 4.25: two of five steps end in the cost cell


def walker(direction, text=FIVE, budget=2.0, grid=STILL):
    """An agent that always wants the same."""
    job = tiny_job("safedqn", text, grid=grid, hidden=())
    job = dataclasses.replace(job, tasks=(tiny_task(text, budget),))
    q = linear(np.zeros((4, 2)), np.eye(4)[ACTIONS.index(direction)])
    return Agent(job, Policy(q, jnp.zeros(len(job.tasks[0].budgets))), 0, 0)


def goalless(agent):
    """The same agent where the goal is no goal."""
    environment = agent.job.environment
    spec = dataclasses.replace(environment.spec, success=False)
    return agent.changed(
        job=dataclasses.replace(agent.job, environment=dataclasses.replace(environment, spec=spec)),
    )


def on_mean(agent, gamma=0.5):
    """The same agent with budgets for the mean of its discounted costs."""
    settings = dataclasses.replace(agent.job.agent, gamma=gamma)
    return agent.changed(job=dataclasses.replace(agent.job, agent=settings, budget_kind="discounted-mean"))


def test_a_walk_that_is_known():
    found = evaluate(walker("right"), episodes=30)
    assert found.episodes == 30
    assert found.goal_rate.value == found.safe_goal_rate.value == 1.0
    assert found.goal_rate.high == 1.0 and 0.85 < found.goal_rate.low < 1.0
    assert found.cost[0] == (2.0, 2.0, 2.0) and found.length == (5.0, 5.0, 5.0) and len(found.cost) == 1
    np.testing.assert_allclose(found.reward, 0.95, rtol=1e-5)


def test_an_episode_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(outcome, "MANY", 20)
    agent = walker("left")
    spec = dataclasses.replace(agent.job.environment.spec, time_limit=None)
    environment = dataclasses.replace(agent.job.environment, spec=spec)
    endless = agent.changed(job=dataclasses.replace(agent.job, environment=environment))
    with pytest.raises(UserError, match=r"has not ended after 20 steps; give the environment a time limit"):
        evaluate(endless, episodes=4)


def test_the_time_limit_is_no_goal():
    found = evaluate(walker("left"), episodes=10)
    assert found.goal_rate.value == found.safe_goal_rate.value == 0.0 and found.goal_rate.low == 0.0
    assert found.length.value == 9 and found.cost[0].value == 0
    np.testing.assert_allclose(found.reward.value, -0.09, rtol=1e-5)


def test_reaching_the_goal_on_the_last_step_counts():
    for limit, rate in ((5, 1.0), (4, 0.0)):
        assert (
            evaluate(walker("right", grid=GridConfig(step_std=0.0, time_limit=limit)), episodes=2).goal_rate.value
            == rate
        )


def test_other_budgets_and_other_costs():
    agent = walker("right")
    tight = evaluate(agent, tiny_task(FIVE, budget=1.5), episodes=5)
    assert (tight.goal_rate.value, tight.safe_goal_rate.value) == (1.0, 0.0)
    both = tiny_task("SAA.G\n\nA = fire 1\n\ncost water\n. . . 0.5 .\n")
    found = evaluate(agent, both._replace(budgets=(0.5, 3.0)), episodes=5)
    assert both.cost_names == ("water", "fire")
    assert [cost.value for cost in found.cost] == [0.5, 3.0] and found.safe_goal_rate.value == 1.0
    assert evaluate(agent, both._replace(budgets=(0.4, 3.0)), episodes=5).safe_goal_rate.value == 0.0
    assert evaluate(agent, tiny_task("S...G"), episodes=5).cost == ()


def test_another_map():
    found = evaluate(walker("right"), tiny_task("S..#\n##..\n##.G\n"), episodes=3)
    assert found.goal_rate.value == 0.0 and found.length.value == 9


def test_random_actions_make_a_difference():
    agent = walker("right", grid=GridConfig(step_std=0.0, time_limit=200))
    found = evaluate(agent, episodes=400, epsilon=0.5)
    assert found.goal_rate.value > 0.95 and found.length.value > 7
    assert found.length.low < found.length.value < found.length.high
    again, other = (evaluate(agent, episodes=400, epsilon=0.5, seed=seed) for seed in (0, 1))
    assert again == found and other != found
    # Every step is random with probability 1/2 and then goes right, left or nowhere: 5/8, 1/8 and 1/4.
    assert np.mean(run_episodes(agent, agent.task, 400, 1.0).length) > found.length.high


@pytest.mark.parametrize(("hits", "count"), [(0, 20), (7, 20), (20, 20), (499, 1000)])
def test_shares_have_clopper_pearson_intervals(hits, count):
    found = module._share(np.arange(count) < hits)
    low = float(beta.ppf(0.025, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, count - hits)) if hits < count else 1.0
    np.testing.assert_allclose(found, [hits / count, low, high], rtol=1e-6, atol=1e-12)


def test_means_have_students_intervals():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    half = t.ppf(0.975, 3) * np.sqrt(np.var(values, ddof=1) / 4)
    np.testing.assert_allclose(module._mean(values), [4.0, 4.0 - half, 4.0 + half])


@pytest.mark.parametrize(
    ("given", "message"), [({"episodes": 0}, "episodes is 0"), ({"epsilon": 1.5}, "epsilon is 1.5")]
)
def test_impossible_evaluations(given, message):
    with pytest.raises(UserError, match=f"^{message}; give"):
        evaluate(walker("right"), **given)


def test_paths_for_pictures():
    greedy, random = agent_paths(walker("right"), tiny_task(FIVE), (0.0, 1.0))
    np.testing.assert_allclose(greedy, [[0.5 + 0.75 * k, 0.5] for k in range(6)])
    assert random.shape[1] == 2 and not np.array_equal(random, greedy)


def test_every_policy_of_a_run(trained):
    rows = evaluate_run(trained("safedqn"), episodes=20)
    assert [(agent.seed, where.title) for agent, where, _ in rows] == [(0, "corridor, cost"), (1, "corridor, cost")]
    assert [where.budgets for _, where, _ in rows] == [(1.0,), (1.0,)]
    ((agent, _, found),) = evaluate_run(trained("safedqn"), episodes=20, seed=1)
    assert agent.seed == 1 and found == rows[1][2]
    with pytest.raises(UserError, match=r"^seed is 5; the run has 0, 1"):
        evaluate_run(trained("safedqn"), seed=5)


def test_a_run_on_other_costs(trained, write_map):
    other = write_map("SAG\n\nA = fire 1\n\ncost water\n. . 1\n", "other.txt")
    rows = evaluate_run(trained("safedqn"), costs=other, episodes=20)
    assert {where.budgets for _, where, _ in rows} == {(5.0, 5.0)}  # two costs now: the usual budget
    assert all(len(found.cost) == 2 for _, _, found in rows)
    rows = evaluate_run(trained("safedqn"), costs="none", budget="2", episodes=20)
    assert {where.title for _, where, _ in rows} == {"corridor, none"} and {w.budgets for _, w, _ in rows} == {(2.0,)}
    assert all(found.cost[0].value == 0 for _, _, found in rows)


def test_numbers_for_machines():
    found = evaluate(walker("right"), episodes=4).to_dict()
    assert found["cost"] == [{"value": 2.0, "low": 2.0, "high": 2.0}] and found["episodes"] == 4
    assert found.keys() == {"episodes", "goal_rate", "safe_goal_rate", "reward", "length", "cost"}
    assert all(type(leaf) in (int, float) for leaf in jax.tree.leaves(found))


def test_episodes_do_not_depend_on_who_walks_beside_them():
    agent = walker("right", grid=GridConfig(time_limit=40))
    together = run_episodes(agent, agent.task, 150, 0.6)  # more than there are walkers
    keys = jax.random.split(jax.random.key(0), 150)
    apart = [module.run_keys(agent, agent.task, keys[n : n + 50], 0.6) for n in (0, 50, 100)]
    for name, whole in together._asdict().items():
        np.testing.assert_array_equal(whole, np.concatenate([getattr(part, name) for part in apart]))
    assert together.length.max() > 3 * together.length.min() and module.WALKERS < 150


def test_without_goals_safe_episodes_count():
    found = evaluate(goalless(walker("left")), episodes=10)
    assert found.safe_goal_rate.value == 1.0 and found.length.value == 9 and not found.terms.success
    assert found.to_dict().keys() == {"episodes", "safe_episode_rate", "reward", "length", "cost"}
    assert evaluate(goalless(walker("right", budget=1.5)), episodes=10).safe_goal_rate.value == 0.0


def test_discounted_costs():
    """The second and the third step cost 1 each."""
    found = evaluate(on_mean(walker("right", budget=0.7)), episodes=10)
    assert found.cost[0] == (0.75, 0.75, 0.75) and found.safe_goal_rate.value == 0.0 and found.goal_rate.value == 1.0
    np.testing.assert_allclose(found.reward, 0.95, rtol=1e-5)
    assert found.to_dict()["budget_kind"] == "discounted-mean"
    assert evaluate(on_mean(walker("right", budget=0.8)), episodes=10).safe_goal_rate.value == 1.0
