"""Costs that are sums and multiples of known ones, beside the K that the agent has learnt."""

import numpy as np
import pytest

import safedsr
from safedsr.adapt.combination import as_words, combination
from safedsr.adapt.costs import Samples, learner_of, stored_steps, task_of
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


def test_updates_begin_at_weights_of_features(agent):
    """Labels one by one change w_c on the features, not the row of the known cost."""
    steps = stored_steps(agent, agent.task, 5)
    new = agent.update(steps.obs, steps.action, np.asarray(steps.cost))
    w_c = np.asarray(learner_of(new).weights.w_c)
    assert np.abs(w_c[:, : len(agent.experience.gram)]).max() > 0.1 and not w_c[:, len(agent.experience.gram) :].any()


def test_words():
    assert as_words(np.array([[2.0, 0.0], [1.0, 0.5]]), ("fuel", "time"), ("a", "b")) == (
        "a is 2 × fuel, so its K follows from the K of known costs, without a fit",
        "b is 1 × fuel + 0.5 × time, so its K follows from the K of known costs, without a fit",
    )
    assert "zero in every remembered step" in as_words(np.zeros((1, 1)), ("fuel",), ("a",))[0]
