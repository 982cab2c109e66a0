"""Costs that are sums and multiples of known ones, beside the K that the agent has learnt."""

import numpy as np
import pytest

import safedsr
from safedsr.adapt.closed import GOOD_R2, expressed
from safedsr.adapt.combination import as_words, beside_known, combination
from safedsr.adapt.costs import Samples, fit_set, learner_of, stored_steps, task_of
from safedsr.envs.grid.environment import scene_of

pytestmark = pytest.mark.usefixtures("compile_quickly")


@pytest.fixture(scope="module")
def agent():
    return safedsr.pretrained("one-room")


@pytest.fixture(scope="module")
def places(agent):
    return np.asarray(agent.experience.steps.obs[:200])


def layer(agent, name):
    return np.asarray(scene_of(task_of(agent, name)).layout.costs)[0]


def test_another_price_needs_no_fit(agent, places):
    new = agent.refit("2.5*diamond")
    np.testing.assert_allclose(new.values(places).k, 2.5 * np.asarray(agent.values(places).k), rtol=1e-5)
    np.testing.assert_array_equal(new.values(places).q, agent.values(places).q)
    found = agent.adapt("2.5*diamond", level="cost", budget=3, episodes=50)
    assert found.notes[0].startswith("2.5*diamond is 2.5 × diamond") and not found.remarks
    np.testing.assert_array_equal(learner_of(found.agent).weights.w_c, learner_of(new).weights.w_c)


def test_sums_of_two_costs(agent, places):
    """Also with another number of costs, whose rows are written into M."""
    both = agent.refit(["diamond", "square"])
    diamond, square = layer(agent, "diamond"), layer(agent, "square")
    one = both.refit(diamond + 3 * square)
    first, second = np.moveaxis(np.asarray(both.values(places).k), -1, 0)
    np.testing.assert_allclose(one.values(places).k[..., 0], first + 3 * second, rtol=1e-4, atol=1e-5)
    turned = both.refit(np.stack([square, diamond]))
    np.testing.assert_allclose(turned.values(places).k, both.values(places).k[..., ::-1], rtol=1e-4, atol=1e-6)


def test_other_costs_are_fitted(agent):
    assert combination(agent, task_of(agent, "square")) is None
    nearly = layer(agent, "diamond").copy()
    inside = np.argwhere(nearly > 0)[0]
    nearly[tuple(inside)] *= 1.5
    assert combination(agent, task_of(agent, nearly)) is None


def test_costs_of_an_agent_that_was_fitted_are_no_rows_of_m(agent):
    """After a fit, or labels of another cost, the rows of M are not those of the agent's costs."""
    fitted = agent.refit("square")
    assert combination(fitted, task_of(agent, "2*square")) is None
    steps = stored_steps(agent, agent.task, 4000)
    labelled = agent.refit(Samples(steps.obs, steps.action, np.asarray(steps.cost)[:, 0] * 2))
    assert combination(labelled, task_of(agent, "2*diamond")) is None


def test_an_agent_that_stays_as_it_was_does_not_know_the_new_costs(agent, tmp_path):
    """Its weights are still those of the diamond, also after it was saved; so the square is fitted later."""
    found = agent.adapt("square", level="auto", highest="cost", episodes=20, require=0.99)
    same = next(rung.agent for rung in found.rungs if rung.level == "none")
    same.save(tmp_path / "same")
    fitted = np.asarray(learner_of(agent.refit("square")).weights.w_c)
    for one in (same, safedsr.load(tmp_path / "same")):
        assert one.task.cost_names == ("square",) and not one.knows_costs
        assert combination(one, task_of(one, "2*square")) is None
        again = one.adapt(budget=4, level="cost", episodes=20)
        np.testing.assert_allclose(learner_of(again.agent).weights.w_c, fitted, rtol=1e-4, atol=1e-6)
        assert again.agent.knows_costs and not again.notes


def stranger(obs, action, next_obs, reward, info, even=1.0):
    """Another function with a parameter of the same name."""
    return even * (next_obs[0] > 0)


def test_an_agent_with_other_cost_functions_does_not_know_their_costs(pusher, tmp_path):
    pusher.save(tmp_path / "pusher")
    known = safedsr.load(tmp_path / "pusher", environment=pusher.job.environment)
    assert known.knows_costs and combination(known, known.task) is not None
    other = safedsr.load(tmp_path / "pusher", environment=safedsr.envs.from_gymnasium("CartPole-v1", cost=stranger))
    assert not other.knows_costs and combination(other, task_of(other, {"even": 2.0})) is None
    assert other.experience
    size = len(other.experience.gram)
    assert np.asarray(learner_of(other.refit({"even": 2.0})).weights.w_c)[:, :size].any()  # fitted on codes


def test_updates_begin_at_weights_of_features(agent):
    """Labels one by one change w_c on the features, not the row of the known cost."""
    steps = stored_steps(agent, agent.task, 5)
    new = agent.update(steps.obs, steps.action, np.asarray(steps.cost))
    w_c = np.asarray(learner_of(new).weights.w_c)
    assert np.abs(w_c[:, : len(agent.experience.gram)]).max() > 0.1 and not w_c[:, len(agent.experience.gram) :].any()


def price(obs, action, next_obs, reward, info, even=1.0, odd=0.2, far=0.0):
    """A cost of fine stripes, and of places on the right."""
    return np.where(np.floor(1e4 * next_obs[0]) % 2 == 0, even, odd) + far * (next_obs[0] > 0.02)


@pytest.fixture(scope="module")
def pusher():
    """An agent in CartPole, whose eight codes are far coarser than the stripes."""
    env = safedsr.envs.from_gymnasium("CartPole-v1", cost=price)
    return safedsr.train(
        "safedsr-plus", env, budget=20, steps=1_000, train_start=500, points=8, trunk=8, head=8, batch_size=64
    )


def test_a_cost_like_a_known_one_is_fitted_with_its_help(pusher):
    """Every step costs 0.4 besides 0.9 times the known cost: a constant is the sum of all codes."""
    new = {"even": 1.3, "odd": 0.58}
    fit = fit_set(pusher, task_of(pusher, new))
    helped = beside_known(pusher, new, fit)
    assert expressed(fit).r2[0] < GOOD_R2 and helped and expressed(helped.fit).r2[0] > 0.99
    size = fit.phi.shape[1]
    before, after = (np.asarray(learner_of(one).weights.w_c)[0] for one in (pusher, pusher.refit(new)))
    assert not before[:size].any()
    np.testing.assert_allclose(after[size:], 0.9 * before[size:], rtol=0.01)
    assert not pusher.adapt(new, level="cost", episodes=4).remarks  # no warning of a poor fit


def test_a_cost_that_resembles_no_known_one_is_fitted_on_codes_alone(pusher):
    new = {"even": 0.0, "odd": 0.0, "far": 1.0}
    assert beside_known(pusher, new, fit_set(pusher, task_of(pusher, new))) is None
    size = len(pusher.experience.gram)
    assert not np.asarray(learner_of(pusher.refit(new)).weights.w_c)[:, size:].any()


def test_words():
    assert as_words(np.array([[2.0, 0.0], [1.0, 0.5]]), ("fuel", "time"), ("a", "b")) == (
        "a is 2 × fuel, so its K follows from the K of known costs, without a fit",
        "b is 1 × fuel + 0.5 × time, so its K follows from the K of known costs, without a fit",
    )
    assert "zero in every remembered step" in as_words(np.zeros((1, 1)), ("fuel",), ("a",))[0]
