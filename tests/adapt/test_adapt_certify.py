import json

import jax
import numpy as np
import pytest
from scipy.stats import binomtest, t
from test_evaluate import FIVE, goalless, on_mean, walker

from safedsr.adapt import certify as module
from safedsr.adapt.certify import Bound, certify, lower_bound, upper_bound
from safedsr.adapt.config import CertificateConfig
from safedsr.engine.evaluate import Outcome
from safedsr.envs.grid.config import GridConfig
from safedsr.errors import UserError
from safedsr.runs.config import DISCOUNTED_MEAN, Terms

pytestmark = pytest.mark.usefixtures("compile_quickly")
NOISY = GridConfig(time_limit=60)


@pytest.mark.parametrize(("hits", "count"), [(0, 20), (7, 20), (20, 20), (499, 1000), (9_950, 10_000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_bounds_are_those_of_clopper_and_pearson(hits, count, confidence):
    low = binomtest(hits, count, alternative="greater").proportion_ci(confidence, "exact").low
    high = binomtest(hits, count, alternative="less").proportion_ci(confidence, "exact").high
    np.testing.assert_allclose(lower_bound(hits, count, confidence), low, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(upper_bound(hits, count, confidence), high, rtol=1e-6, atol=1e-12)


def test_a_bound_holds_as_often_as_it_says():
    hits = np.random.default_rng(0).binomial(50, 0.8, 3000)
    assert np.mean([lower_bound(int(h), 50, 0.9) <= 0.8 for h in hits]) >= 0.9


def test_a_policy_that_is_known():
    found = certify(walker("right"), episodes=300)
    assert found.passed and found.episodes == 300 and found.budgets == (2.0,)
    assert found.safe_goal_rate == found.goal_rate == (1.0, lower_bound(300, 300, 0.95))
    assert found.violation == (0.0, pytest.approx(1 - 0.05 ** (1 / 300)))
    assert found.cost == ((2.0, 2.0),) and found.length == 5.0
    assert "simulator is right" in found.assumes and "policy stays" in found.assumes
    tight = certify(walker("right"), budget=1.5, episodes=300)
    assert not tight.passed and tight.violation.value == 1.0 and tight.goal_rate.value == 1.0
    lost = certify(walker("left"), episodes=300)
    assert not lost.passed and lost.violation.value == 0.0 and lost.safe_goal_rate == (0.0, 0.0)


def test_the_mean_cost_has_students_bound():
    cost = np.random.default_rng(0).exponential(size=(40, 2)).astype(np.float32)
    outcome = Outcome(np.ones(40, bool), np.ones(40), np.ones(40, np.float32), cost)
    task = walker("right").task._replace(budgets=(1.0, 100.0))
    found = module._judge(outcome, task, CertificateConfig(episodes=40, confidence=0.9))
    for j in range(2):
        x = cost[:, j].astype(float)
        assert found.cost[j].value == pytest.approx(x.mean())
        assert found.cost[j].bound == pytest.approx(x.mean() + t.ppf(0.9, 39) * x.std(ddof=1) / np.sqrt(40))
    over = int((cost[:, 0] > 1).sum())
    assert found.violation.bound == pytest.approx(upper_bound(over, 40, 0.9)) and 0 < over < 40


def test_it_stops_as_soon_as_it_cannot_pass(monkeypatch):
    monkeypatch.setattr(module, "BATCH", 20)
    agent = walker("right", grid=NOISY)
    assert lower_bound(900, 1000, 0.95) < 0.9 < lower_bound(920, 1000, 0.95)
    assert certify(walker("left"), episodes=1000).episodes == 100  # after 80 misses it could still pass
    whole = certify(agent, episodes=100, epsilon=0.5, require=0.0)
    hard = certify(agent, episodes=100, epsilon=0.5, require=0.99)
    assert whole.episodes == 100 and not hard.passed and hard.episodes < 100
    other = certify(agent, episodes=100, epsilon=0.5, require=0.0, episode_seed=2)
    assert other != whole == certify(agent, episodes=100, epsilon=0.5, require=0.0)


def test_batches_are_no_matter(monkeypatch):
    agent = walker("right", grid=NOISY)
    found = []
    for batch in (30, 100):
        monkeypatch.setattr(module, "BATCH", batch)
        found.append(certify(agent, episodes=100, epsilon=0.3, require=0.0))
    assert found[0] == found[1] and 0 < found[0].safe_goal_rate.value < 1


def test_other_costs():
    found = certify(walker("right"), np.array([[0, 3, 0, 0, 0]], np.float32), 2.0, episodes=20)
    assert found.environment == "corridor, cost-0" and found.cost[0].value == 3.0 and not found.passed
    assert certify(walker("right"), lambda x, y: x * 0 + 1.0, 5.0, episodes=20).cost[0].value == 5.0
    assert len(FIVE) == 5


def test_numbers_for_machines():
    found = certify(walker("right"), episodes=4).to_dict()
    assert json.loads(json.dumps(found))["safe_goal_rate"]["value"] == 1.0
    assert found["cost"] == [{"value": 2.0, "bound": 2.0}] and found["passed"] is False  # four are too few
    assert all(type(leaf) in (int, float, str, bool) for leaf in jax.tree.leaves(found))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"episodes": 1}, "episodes is 1; give at least 2"),
        ({"confidence": 1.0}, "confidence is 1.0; give a share between"),
        ({"require": 1.0}, "require is 1.0; give a share of at least 0"),
        ({"epsilon": -0.1}, "epsilon is -0.1; give a share"),
        ({"budget": "x"}, "budget 'x' is not a list of numbers"),
        ({"costs": np.zeros((2, 2))}, "cost layers have shape"),
    ],
)
def test_impossible_certificates(given, message):
    with pytest.raises(UserError, match=f"^{message}"):
        certify(walker("right"), **given)


def test_without_goals_safe_episodes_are_certified():
    found = certify(goalless(walker("left")), episodes=300)
    assert found.passed and found.safe_goal_rate == (1.0, lower_bound(300, 300, 0.95)) and not found.success
    assert found.rank == (0.9, found.reward)
    data = found.to_dict()
    assert data["safe_episode_rate"]["value"] == 1.0 and data["success"] is False and "kind" not in data
    assert not {"goal_rate", "safe_goal_rate"} & data.keys()
    usual = certify(walker("right"), episodes=300)
    assert not {"success", "kind", "safe_episode_rate"} & usual.to_dict().keys()
    assert usual.rank == (usual.safe_goal_rate.bound, 0.0)


def test_more_safety_than_required_is_worth_nothing_without_goals():
    idle = certify(goalless(walker("left")), episodes=300)
    good = idle._replace(safe_goal_rate=Bound(0.98, 0.95), reward=5.0)
    unsafe = idle._replace(safe_goal_rate=Bound(0.9, 0.89), reward=50.0)
    assert max(idle, good, unsafe, key=lambda one: one.rank) is good


def test_the_mean_of_discounted_costs_is_certified():
    """0.75 in each episode, whatever share of episodes that is within the budget."""
    within, above = (certify(on_mean(walker("right", budget=b)), episodes=50) for b in (0.75, 0.7))
    assert within.passed and within.cost == ((0.75, 0.75),) and within.kind == "discounted-mean"
    assert not above.passed and above.episodes == 50  # no test stops early
    assert within.rank == (0.0, within.reward) and above.rank[0] == pytest.approx(-0.05)
    assert within.to_dict()["kind"] == "discounted-mean"


def test_bounds_of_several_means_hold_together():
    cost = np.random.default_rng(0).exponential(size=(400, 2)).astype(np.float32)
    outcome = Outcome(np.ones(400, bool), np.ones(400), np.ones(400, np.float32), cost)
    task, terms = walker("right").task, Terms(budget_kind=DISCOUNTED_MEAN)
    found = module._judge(outcome, task._replace(budgets=(2.0, 2.0)), CertificateConfig(episodes=400), terms)
    for j in range(2):
        x = cost[:, j].astype(float)
        assert found.cost[j].bound == pytest.approx(x.mean() + t.ppf(0.975, 399) * x.std(ddof=1) / 20)
    assert found.passed and found.violation.value > 0.2  # single episodes may exceed the budget
    tight = (2.0, found.cost[1].value + 0.01)
    assert not module._judge(outcome, task._replace(budgets=tight), CertificateConfig(episodes=400), terms).passed
