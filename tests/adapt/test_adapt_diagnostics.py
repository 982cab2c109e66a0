import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from walked import walked_agent

from safedsr.adapt.closed import GOOD_R2, RIDGE, area_under_curve, expressed
from safedsr.adapt.costs import FitSet, experience_of, fit_set
from safedsr.adapt.diagnostics import leverage_map, remarks
from safedsr.envs.grid.config import GridConfig
from safedsr.runs.experience import FIT_STEPS, Experience, take

pytestmark = pytest.mark.usefixtures("compile_quickly")
ROOM = "S.C.\n..C.\n.#.G"


@pytest.fixture(scope="module")
def agent():
    return walked_agent(ROOM, grid=GridConfig(time_limit=50))


def fit_features(agent, steps):
    """φ of the steps that weights are fitted on."""
    return agent.features(steps.obs[:FIT_STEPS], steps.action[:FIT_STEPS])


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30))
def test_the_area_under_the_curve_is_a_count_of_pairs(pairs):
    guess, positive = (np.array(x) for x in zip(*pairs, strict=True))
    wins = [(a > b) + 0.5 * (a == b) for a in guess[positive] for b in guess[~positive]]
    found = area_under_curve(guess.astype(float), positive)
    assert np.isnan(found) if not wins else found == pytest.approx(np.mean(wins))


def test_every_step_is_left_out_of_its_own_prediction():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(30, 4))
    cost = np.stack([phi[:, 0] + 0.3 * rng.normal(size=30), rng.random(30) > 0.5], 1)
    guesses = np.zeros((30, 2))
    for n in range(30):
        rest = np.arange(30) != n
        matrix = phi[rest].T @ phi[rest] + RIDGE * 30 * np.eye(4)
        guesses[n] = phi[n] @ np.linalg.solve(matrix, phi[rest].T @ cost[rest])
    found = expressed(FitSet(phi, phi.T @ phi, cost))
    np.testing.assert_allclose(found.r2, 1 - ((cost - guesses) ** 2).mean(0) / cost.var(0), rtol=1e-8)
    np.testing.assert_allclose(found.auc, [area_under_curve(guesses[:, j], cost[:, j] > 0) for j in (0, 1)])
    assert found.r2[0] > 0.8 > 0 > found.r2[1]  # what is in the features, and what is not


def test_a_cost_that_is_nowhere(agent):
    found = expressed(fit_set(agent, "none"))
    assert found.r2 == pytest.approx((1.0,)) and np.isnan(found.auc[0]) and not remarks(agent, "none")


def test_leverage_by_hand(agent):
    found, layout = leverage_map(agent), agent.task.params
    phi = fit_features(agent, experience_of(agent).steps)
    inverse = np.linalg.inv(phi.T @ phi + RIDGE * len(phi) * np.eye(8))
    usual = np.mean([f @ inverse @ f for f in phi])
    places = [(2 + x, 1 + y) for x in (0.17, 0.5, 0.83) for y in (0.17, 0.5, 0.83)]  # row 2, column 3
    there = [
        f @ inverse @ f for place in places for f in agent.features(np.tile(np.array(place) / 4, (4, 1)), np.arange(4))
    ]
    assert found[1, 2] == pytest.approx(np.mean(there) / usual, rel=1e-4)
    np.testing.assert_array_equal(np.isnan(found), layout.walls)


def test_ground_where_it_has_not_been(agent):
    steps = experience_of(agent).steps
    known = take(steps, np.floor(steps.obs[:, 0] * 4) < 3)  # of the last column it knows nothing
    phi = fit_features(agent, known)
    stranger = agent.changed(experience=Experience(known, phi.T @ phi))
    assert not any("unknown to the agent" in remark for remark in remarks(agent, "none"))
    (found,) = remarks(stranger, "none")
    assert found.startswith("2 of 11 cells are unknown to the agent, such as row 1, column 4")  # not the goal
    rise = leverage_map(stranger)[:2, 3] / leverage_map(agent)[:2, 3]
    assert (rise > 1.2).all()


def test_costs_that_phi_cannot_express(agent):
    checkers = np.indices((3, 4)).sum(0) % 2 * (1 - np.asarray(agent.task.params.walls))
    both = np.stack([checkers, np.zeros((3, 4))]).astype(np.float32)
    assert expressed(fit_set(agent, both)).r2[0] < GOOD_R2
    (found,) = remarks(agent, both)
    assert found.startswith("cost 1: φ represents it poorly (R² ") and "new cost weights alone may not" in found
