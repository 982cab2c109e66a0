import dataclasses
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from by_gradient import refit_by_gradient
from test_evaluate import walker
from tiny import same_trees
from walked import walked_agent

from safedsr.adapt.closed import RIDGE, ridge
from safedsr.adapt.costs import Samples, changed_scene, experience_of, fit_set, task_of
from safedsr.adapt.recursive import Recursion, learn_steps
from safedsr.agent import Agent, load
from safedsr.agents.safedsr.equations import weights_loss
from safedsr.agents.value_based.trainer import Policy
from safedsr.core.nets import descend, mean_square
from safedsr.envs.grid.catalog import with_costs
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import grid_task, make_grid, scene_of
from safedsr.envs.grid.layout import make_layout
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError
from safedsr.runs.experience import relabelled

pytestmark = pytest.mark.usefixtures("compile_quickly")
GRID = GridConfig(time_limit=50)
ROOM = "S.C.\n..C.\n.#.G"
NEW = np.array([[0, 1, 0, 0], [1, 0, 0, 0.5], [0, 0, 0, 0]], np.float32)
OTHER = NEW[::-1].copy() * (NEW[::-1] != 1)
REFIT = """
import json, sys
from safedsr.agent import load
agent = load(sys.argv[1]).refit(sys.argv[2])
print(json.dumps([agent.policy.learner.weights.w_c.tolist(), agent.task.title]))
"""


@pytest.fixture(scope="module")
def agent():
    return walked_agent(ROOM, grid=GRID)


@pytest.fixture(scope="module")
def frozen(agent):
    """What must never change."""
    before = jax.tree.map(np.array, (agent.policy, agent.experience))
    return lambda: (
        same_trees(before, jax.tree.map(np.array, (agent.policy, agent.experience))) and agent.recursion is None
    )


def remembered(agent, layout):
    """What the agent remembers, with the costs of a map."""
    return relabelled(experience_of(agent), agent.job.environment, layout)


def test_the_closed_form_is_least_squares_with_a_ridge():
    rng = np.random.default_rng(0)
    phi, targets = rng.normal(size=(50, 6)), rng.normal(size=(50, 3))
    found = ridge(phi, phi.T @ phi, targets, 0.01)
    stacked = np.vstack([phi, np.sqrt(0.01 * 50) * np.eye(6)])
    expected = np.linalg.lstsq(stacked, np.vstack([targets, np.zeros((6, 3))]))[0].T
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    for j in range(3):  # each cost as if it were alone
        np.testing.assert_allclose(found[j : j + 1], ridge(phi, phi.T @ phi, targets[:, j : j + 1], 0.01), rtol=1e-9)


def test_the_closed_form_is_where_gradient_descent_ends(agent):
    """Gradient descent with momentum on the cost term of Eq. (14), full batches, until it stands still."""
    layout = with_costs(scene_of(agent.task), NEW).layout
    t = remembered(agent, layout)
    phi = jnp.asarray(agent.features(t.obs, t.action), jnp.float32)
    weights, config = agent.policy.learner.weights, agent.job.agent
    steepest = 2 * config.beta_c * np.linalg.eigvalsh(phi.T @ phi / len(phi))[-1]
    sgd = optax.sgd(1 / steepest, momentum=0.98)

    def loss(w_c):
        only_cost = t._replace(reward=phi @ weights.w_r)
        return jax.vmap(weights_loss, (None, 0, 0, None))(weights._replace(w_c=w_c), phi, only_cost, config).mean()

    def update(carry, _):
        w_c, state = carry
        return descend(sgd, jax.grad(loss)(w_c), w_c, state), None

    start = jnp.zeros((1, phi.shape[1]))
    (w_c, _), _ = jax.jit(lambda: jax.lax.scan(update, (start, sgd.init(start)), None, 10_000))()
    assert np.linalg.norm(jax.grad(loss)(w_c)) < 1e-5 * np.linalg.norm(jax.grad(loss)(start))
    found = agent.refit(NEW, strength=1e-9).policy.learner.weights.w_c
    assert 0 < loss(found) < config.beta_c * np.var(t.cost)
    np.testing.assert_allclose(loss(found), loss(w_c), rtol=1e-3)
    assert np.linalg.norm(phi @ (found - w_c).T) < 1e-3 * np.linalg.norm(phi @ w_c.T)


def test_stochastic_descent_ends_nearby(agent):
    layout = with_costs(scene_of(agent.task), NEW).layout
    t = remembered(agent, layout)
    phi = jnp.asarray(agent.features(t.obs, t.action), jnp.float32)
    w_c = refit_by_gradient(jax.random.key(0), agent.policy.learner.phi, t, layout, updates=4000, rate=0.02)

    def error(weights):
        return float(mean_square(t.cost - phi @ weights.T))

    closed = error(agent.refit(NEW, strength=1e-9).policy.learner.weights.w_c)
    assert closed <= error(w_c) < 1.02 * closed


@pytest.mark.parametrize("both", [np.stack([NEW, OTHER])])
def test_several_costs_at_once(agent, both, frozen):
    found = agent.refit(both)
    assert found.policy.learner.weights.w_c.shape == (2, 8) and found.task.budgets == (5.0, 5.0)
    alone = [agent.refit(layer).policy.learner.weights.w_c[0] for layer in both]
    np.testing.assert_allclose(found.policy.learner.weights.w_c, alone, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found.policy.lam, np.repeat(agent.policy.lam, 2))
    assert found.values([0.1, 0.1]).k.shape == (4, 2) and frozen()


def test_only_the_cost_weights_change(agent, frozen):
    found = agent.refit(NEW)
    assert scene_of(found.task).cost_names == ("cost-0",) and found.task.budgets == agent.task.budgets
    assert not np.array_equal(found.policy.learner.weights.w_c, agent.policy.learner.weights.w_c)
    back = found.policy._replace(learner=found.policy.learner._replace(weights=agent.policy.learner.weights))
    assert same_trees(back, agent.policy) and frozen()
    again = found.refit(scene_of(agent.task))
    np.testing.assert_array_equal(again.policy.learner.weights.w_c, agent.policy.learner.weights.w_c)


def test_reward_weights_on_request(agent):
    lost = agent.policy.learner.weights._replace(w_r=jnp.zeros(8))
    agent = agent.with_policy(agent.policy._replace(learner=agent.policy.learner._replace(weights=lost)))
    assert not agent.refit(NEW).policy.learner.weights.w_r.any()
    w_r = agent.refit(NEW, rewards=True).policy.learner.weights.w_r
    t = remembered(agent, agent.task.params)
    phi = agent.features(t.obs, t.action)
    expected = np.linalg.solve(phi.T @ phi + RIDGE * len(phi) * np.eye(8), phi.T @ np.asarray(t.reward))
    np.testing.assert_allclose(w_r, expected, rtol=1e-3, atol=1e-4)


def test_all_ways_to_say_the_same_costs(agent, write_map):
    scene = with_costs(scene_of(agent.task), NEW)
    text = write_map("SC..\nC..A\n.#.G\n\nC = cost 1\nA = cost 0.5\n")

    def function(x, y):
        return NEW[np.floor(y).astype(int), np.floor(x).astype(int)]

    expected = agent.refit(NEW).policy.learner.weights.w_c
    t = remembered(agent, scene.layout)
    for costs in (scene, scene.layout, text, NEW[None], function, Samples(t.obs, t.action, t.cost)):
        np.testing.assert_allclose(agent.refit(costs).policy.learner.weights.w_c, expected, rtol=1e-4, atol=1e-5)
    for costs in (scene, scene.layout, text, NEW, function):
        np.testing.assert_array_equal(changed_scene(scene_of(agent.task), costs).layout.costs[0], NEW)
    assert agent.refit(scene).task.cost_names == ("cost-0",)


def test_a_function_is_read_where_steps_end(agent):
    fit = fit_set(agent, lambda x, y: np.stack([x, x * y]))
    t = remembered(agent, agent.task.params)
    x, y = (np.asarray(t.next_obs) * 4).T
    goal = np.asarray(t.terminated) == 1
    x, y = np.where(goal, 3.5, x), np.where(goal, 2.5, y)
    np.testing.assert_allclose(fit.cost, np.stack([x, x * y], 1), rtol=1e-5)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ("diamond", "cost shape 'diamond' is drawn for rooms"),
        (np.zeros((3, 5)), r"cost layers have shape \(1, 3, 5\); this map needs \[J, 3, 4\]"),
        (-NEW, "cost -1.0 in layer 1 at row 1, column 2; costs are finite and at least 0"),
        (parse_scene("S.CG"), "this map has 1 × 4 cells; the agent was trained on 'corridor' with 3 × 4 cells"),
        (parse_scene("S.C.\n..#.\n.#.G"), "this map has other walls or another goal"),
        (make_layout(np.zeros((3, 4)), np.zeros((1, 3, 4)), [(0, 0)], (3, 2)), "this map has other walls"),
        (lambda x, y: x[:2], r"the cost function returned shape \(2,\) for positions of shape"),
        (lambda x, y: x - 2.0, "some of the costs are negative or not finite"),
        (Samples([[0.1, 0.1]], [0, 1], [1.0]), r"labelled steps have shapes \(1, 2\), \(2,\) and \(1, 1\)"),
        (Samples([[0.1, 0.1]], [4], [1.0]), r"actions are 0 … 3 \(up, down, left, right\)"),
        (Samples([[0.1, 0.1], [0.1, 0.9]], [0, 0], [1, 1]), r"label 2 at observation \(0.1, 0.9\) is off the map"),
        (Samples([[0.3, 0.6]], [0], [1.0]), r"label 1 at observation \(0.3, 0.6\) is off the map or in a wall"),
        (Samples([[np.nan, 0.6]], [0], [1.0]), r"obs is \[\[nan, 0.6\]\]; give finite numbers"),
        (Samples([[0.1, 0.1]], [0], [np.inf]), r"cost is \[inf\]; give finite numbers"),
        (Samples([[0.1, 0.1]], [0], [1.0]), "1 labelled steps determine 1 of the .* label more steps, at more"),
        (Samples([[0.1, 0.1]] * 99, [0, 1, 2] * 33, [1.0] * 99), "99 labelled steps determine . of the"),
    ],
)
def test_costs_that_cannot_be(agent, costs, message, frozen):
    with pytest.raises(UserError, match=f"^{message}"):
        agent.refit(costs)
    assert frozen()


def test_labels_for_another_number_of_costs(agent):
    t = remembered(agent, agent.task.params)
    with pytest.raises(UserError, match=r"^costs is 2; label each of the agent's 1 costs"):
        agent.refit(Samples(t.obs, t.action, np.repeat(t.cost, 2, 1)))
    with pytest.raises(UserError, match=r"^labelled steps do not give the costs of the whole map"):
        task_of(agent, Samples(t.obs, t.action, t.cost))


def test_agents_that_cannot_be_refitted(agent):
    with pytest.raises(UserError, match=r"^this policy has no replay memory to fit weights on: there is no memory"):
        agent.changed(experience=None).refit(NEW)
    with pytest.raises(UserError, match=r"^safedqn has no cost weights to fit to new costs"):
        walker("right").refit("none")


def test_costs_for_an_agent_that_never_had_any(agent, tmp_path):
    empty = grid_task(with_costs(scene_of(agent.task), ()), ())
    job = dataclasses.replace(agent.job, algorithm="dsr", tasks=(empty,), environment=make_grid(GRID, 0))
    weights = agent.policy.learner.weights._replace(w_c=jnp.zeros((0, 8)))
    policy = Policy(agent.policy.learner._replace(weights=weights), jnp.zeros(0))
    found = Agent(job, policy, 0, 3, agent.experience).refit(NEW)
    np.testing.assert_array_equal(found.policy.learner.weights.w_c, agent.refit(NEW).policy.learner.weights.w_c)
    assert found.task.budgets == (5.0,)
    assert found.policy.lam.shape == (1,)
    found.save(tmp_path)
    again = load(tmp_path)
    assert again.job.algorithm == "safedsr" and same_trees(again.policy, found.policy)


def test_a_saved_policy_adapts_in_a_process_that_never_trained(agent, tmp_path, write_map):
    agent.save(tmp_path / "saved")
    args = [
        sys.executable,
        "-c",
        REFIT,
        str(tmp_path / "saved"),
        write_map("SA..\nA..B\n.#.G\n\nA = fire 1\nB = fire 0.5\n"),
    ]
    w_c, name = json.loads(subprocess.run(args, stdout=subprocess.PIPE, check=True).stdout)
    np.testing.assert_allclose(w_c, agent.refit(NEW).policy.learner.weights.w_c, rtol=1e-4, atol=1e-5)
    assert name == "corridor, fire"


def test_an_adapted_agent_is_saved_and_loaded(agent, tmp_path):
    found = agent.refit(np.stack([NEW, OTHER]))
    found.save(tmp_path)
    again = load(tmp_path)
    assert same_trees(found.policy, again.policy) and again.seed == 3
    assert same_trees(experience_of(found)._replace(different=0), experience_of(again))  # a file does not have it
    np.testing.assert_array_equal(again.task.params.costs, found.task.params.costs)
    np.testing.assert_array_equal(again.act([[0.1, 0.1], [0.6, 0.3]]), found.act([[0.1, 0.1], [0.6, 0.3]]))


def test_recursion_is_weighted_least_squares():
    rng = np.random.default_rng(1)
    phi, cost = rng.normal(size=(40, 5)), rng.normal(size=(40, 2))
    prior, start = np.cov(rng.normal(size=(5, 30))), rng.normal(size=(2, 5))
    r = Recursion(prior, np.zeros((2, 5)), start)
    for block in np.split(np.arange(40), [1, 2, 10]):  # one by one or together
        r = learn_steps(r, phi[block], cost[block], 0.9)
    weight = np.sqrt(0.9 ** np.arange(40)[::-1, None])
    # The prior as rows of a least squares problem for the change of the weights.
    root = np.linalg.cholesky(prior).T * np.sqrt(0.9**40)
    rows = np.vstack([weight * phi, root])
    targets = np.vstack([weight * (cost - phi @ start.T), np.zeros((5, 2))])
    expected = np.linalg.lstsq(rows, targets)[0].T
    np.testing.assert_allclose(np.linalg.solve(r.gram, r.moment.T).T, expected, rtol=1e-8)


def test_updates_follow_costs_that_drift(agent, frozen):
    t = remembered(agent, with_costs(scene_of(agent.task), NEW).layout)
    phi = agent.features(t.obs, t.action)
    goal = agent.refit(NEW).policy.learner.weights.w_c

    def distance(a):
        return np.linalg.norm(phi @ np.asarray(a.policy.learner.weights.w_c - goal).T)

    found = agent
    for _ in range(4):
        found = found.update(t.obs, t.action, t.cost)
    assert distance(found) < 0.1 * distance(agent) and frozen()
    slow = agent.update(t.obs, t.action, t.cost, forgetting=1.0)  # the refit set weighs as much as the new steps
    assert distance(found) < distance(slow) < distance(agent)
    assert found.recursion is not None and found.refit(NEW).recursion is None


def test_steps_one_by_one_or_together(agent):
    obs, action, cost = np.array([[0.1, 0.1], [0.4, 0.3], [0.6, 0.1]]), np.array([3, 1, 0]), np.array([0.0, 2.0, 1.0])
    together = agent.update(obs, action, cost[:, None], forgetting=0.9)
    one_by_one = agent
    for n in range(3):
        one_by_one = one_by_one.update(obs[n], int(action[n]), cost[n], forgetting=0.9)
    found, expected = (a.policy.learner.weights.w_c for a in (one_by_one, together))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(found, agent.policy.learner.weights.w_c, atol=1e-3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([0.1, 0.1], 0, [1.0, 2.0]), "cost is .*; give 1 per step, for 1 steps"),
        (([0.1, 2.0], 0, 1.0), "label 1 at observation"),
        (([0.1, 0.1], 0, 1.0, 0.0), "forgetting is 0.0; give a share above 0"),
    ],
)
def test_updates_that_cannot_be(agent, given, message, frozen):
    with pytest.raises(UserError, match=f"^{message}"):
        agent.update(*given)
    assert frozen()
