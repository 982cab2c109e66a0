"""Mixtures of two λ, beside a linear program over occupancies and in episodes."""

import json

import numpy as np
import pytest
from scipy.optimize import linprog
from test_adapt_rungs import HIGH_ROAD, LOW_ROAD, START, torn
from test_evaluate import goalless, on_mean
from walked import walked_agent

import safedsr
from safedsr.adapt.config import CertificateConfig
from safedsr.adapt.ladder import adapt
from safedsr.adapt.mixture import Tried, best_pair
from safedsr.adapt.penalty import with_lam
from safedsr.engine.evaluate import evaluate, run_episodes
from safedsr.engine.record import record
from safedsr.envs.grid.physics import ACTIONS
from safedsr.errors import UserError
from safedsr.figures.paths import agent_paths
from safedsr.runs import storage

pytestmark = pytest.mark.usefixtures("compile_quickly")
GAMMA, STATES, CHOICES = 0.9, 5, 3
SURE = CertificateConfig(episodes=2000)


def random_cmdp(seed):
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(STATES, 0.3), size=(STATES, CHOICES))
    return moves, rng.random((STATES, CHOICES)), rng.random((STATES, CHOICES)) * (rng.random((STATES, CHOICES)) < 0.6)


def best_for(lam, moves, reward, cost):
    """Return and cost of the policy that is best for reward - λ·cost, from state 0, by policy iteration."""
    policy = np.zeros(STATES, int)
    every = np.arange(STATES)
    while True:
        inverse = np.linalg.inv(np.eye(STATES) - GAMMA * moves[every, policy])
        value = inverse @ (reward - lam * cost)[every, policy]
        better = (reward - lam * cost + GAMMA * moves @ value).argmax(1)
        if (better == policy).all():
            return (inverse @ reward[every, policy])[0], (inverse @ cost[every, policy])[0]
        policy = better


def linear_program(moves, reward, cost, budget):
    """The best return of all policies, also randomised ones, whose mean cost is within the budget."""
    flow = np.kron(np.eye(STATES), np.ones(CHOICES)) - GAMMA * moves.reshape(-1, STATES).T
    start = np.eye(STATES)[0]
    found = linprog(-reward.ravel(), cost.reshape(1, -1), [budget], flow, start, method="highs")
    assert found.success
    return -found.fun


@pytest.mark.parametrize("seed", range(8))
def test_a_mixture_is_as_good_as_the_best_policy_of_a_linear_program(seed):
    cmdp = random_cmdp(seed)
    nothing = np.zeros(1)
    points = sorted({best_for(lam, *cmdp) for lam in (0.0, *np.geomspace(0.01, 100, 300))})
    tried = [Tried((float(n),), ret, np.array([cost]), nothing, 1) for n, (ret, cost) in enumerate(points)]
    least, most = min(cost for _, cost in points), max(cost for _, cost in points)
    for budget in np.linspace(least, most, 7)[1:-1]:
        best, pair = linear_program(*cmdp, budget), best_pair(tried, np.array([budget]))
        assert pair and best - 2e-3 * (points[-1][0] - points[0][0]) - 1e-6 <= pair.reward <= best + 1e-6
        load = (1 - pair.share) * pair.one.load + pair.share * pair.other.load
        assert load <= budget + 1e-9
    assert best_pair(tried, np.array([least - 0.01])) is None


def test_a_pair_keeps_every_limit_and_leaves_room_for_errors():
    free, dear = (
        Tried((lam,), reward, np.array(load), np.array([0.0, 0.04]), 100)
        for lam, reward, load in ((9.0, 0.0, [0.0, 0.1]), (0.0, 1.0, [1.0, 0.9]))
    )
    assert best_pair([free, dear], np.array([0.5, 9.0])).share == 0.5  # type: ignore[union-attr]
    assert best_pair([free, dear], np.array([0.5, 0.3])).share == pytest.approx(0.25, abs=2e-3)  # type: ignore[union-attr]
    careful = best_pair([free, dear], np.array([0.5, 9.0]), 100, 2.0)
    assert careful and careful.share == pytest.approx(0.405, abs=0.01)  # 0.5 less two errors of √(p(1 - p) / 100)
    alone = best_pair([free, dear], np.array([2.0, 2.0]))
    assert alone and alone.reward == 1.0


@pytest.fixture(scope="module")
def divided():
    """At the start, a small λ goes straight on, which costs, and a large one goes down, which costs nothing."""
    agent = with_lam(torn(walked_agent(LOW_ROAD, 0.5, exact=True).refit(HIGH_ROAD)), [0.0])
    return on_mean(agent, gamma=0.9)


@pytest.fixture(scope="module")
def mixed(divided):
    straight = run_episodes(divided, divided.task, 2)
    budget = float(straight.cost[0, 0]) / 2
    return adapt(divided, None, "penalty", budget, SURE, mixture=True), straight, budget


def test_half_of_the_episodes_go_straight_on_if_half_of_their_cost_is_allowed(divided, mixed):
    found, straight, budget = mixed
    agent = found.agent
    assert found.certificate.passed and found.certificate.cost[0].bound <= budget
    assert agent.mixture and {part.act(START) for part in agent.parts} == {ACTIONS.index(x) for x in ("right", "down")}
    share = found.certificate.cost[0].value / float(straight.cost[0, 0])
    assert 0.42 < share <= 0.5
    alone = adapt(divided, None, "penalty", budget, SURE).certificate
    assert alone.passed and found.certificate.reward > alone.reward + 0.2
    assert evaluate(agent, episodes=500).cost[0].value == pytest.approx(found.certificate.cost[0].value, rel=0.15)
    rng = np.random.default_rng(0)
    drawn = [agent.drawn(rng).act(START) == ACTIONS.index("right") for _ in range(500)]
    assert np.mean(drawn) == pytest.approx(share, abs=0.08)


def test_a_mixture_is_saved_and_loaded(mixed, tmp_path):
    agent = mixed[0].agent
    agent.save(tmp_path)
    again = safedsr.load(tmp_path)
    assert again.mixture == agent.mixture and evaluate(again, episodes=64) == evaluate(agent, episodes=64)
    assert again.certify(episodes=100).cost == agent.certify(episodes=100).cost
    written = json.loads(json.dumps(mixed[0].to_dict()))
    assert written["mixture"]["share"] == again.mixture.share  # type: ignore[union-attr]
    assert len(agent_paths(again, again.task, [0.0, 0.0])) == 2
    assert {len(record(again, again.task, seed=n).ret) for n in range(8)} == {
        len(record(part, part.task).ret) for part in agent.parts
    }
    data = json.loads((tmp_path / "policy.json").read_text())
    del data[storage.SIGNED]
    for bad in ({"lam": [0.1, 0.2], "share": 0.5}, {"lam": [0.1], "share": 1.5}, {"lam": [-1.0], "share": 0.5}):
        storage.write_json(tmp_path / "policy.json", {**data, "mixture": bad}, signed=True)
        with pytest.raises(UserError, match="mixture is"):
            safedsr.load(tmp_path)


def test_what_a_mixture_cannot_do(mixed, divided, tmp_path):
    agent = mixed[0].agent
    for use in (lambda: agent.act(START), lambda: agent.predict(START)):
        with pytest.raises(
            UserError, match=r"this policy is a mixture: each episode draws one of two λ; call drawn\(\)"
        ):
            use()
    with pytest.raises(UserError, match="an exported file has one λ"):
        agent.export(tmp_path / "policy.npz")
    with pytest.raises(UserError, match="never has a larger share of safe goals"):
        adapt(walked_agent(LOW_ROAD, 0.5), None, "penalty", 1.0, mixture=True)
    assert with_lam(agent, [0.3]).mixture is None and agent.refit("none").mixture == agent.mixture


def test_episodes_without_a_goal_mix_for_the_required_share(divided):
    """All that go straight on break the budget of 0.5; a share of 0.4 of them may, less a margin."""
    agent = goalless(divided.changed(job=divided.job.__class__(**{**vars(divided.job), "budget_kind": "episode"})))
    found = adapt(agent, None, "penalty", 0.5, CertificateConfig(episodes=1000, require=0.6), mixture=True)
    assert found.certificate.passed and found.agent.mixture and 0.25 < found.certificate.violation.value < 0.4
