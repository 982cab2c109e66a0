import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_evaluate import goalless
from test_safedsr import one_hot_phi
from tiny import same_trees, tiny_agent
from walked import walked_agent

from safedsr.adapt import certify, ladder, penalty
from safedsr.adapt.certify import Bound, Certificate
from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.adapt.costs import experience_of, learner_of, task_of
from safedsr.adapt.ladder import Rung, adapt, not_kept
from safedsr.adapt.online import learn_in, start_state
from safedsr.adapt.penalty import LADDER, Score, judge, learn_penalty, score, search_penalty, with_lam
from safedsr.adapt.successor import learn_from_memory, next_lam
from safedsr.agents.safedsr.equations import DsrPolicy, Weights, all_features, both_features, scores
from safedsr.agents.safedsr.learner import go_on, init
from safedsr.agents.safedsr.rehearsal import learn_from
from safedsr.core.replay import Codec
from safedsr.engine import evaluate
from safedsr.engine.evaluate import Outcome, run_episodes, run_keys, walked
from safedsr.engine.program import Program
from safedsr.envs.environment import Spec
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.physics import ACTIONS
from safedsr.errors import UserError
from safedsr.runs.config import DISCOUNTED_MEAN, Terms
from safedsr.runs.experience import relabelled
from safedsr.runs.policy import own_job
from safedsr.types import Transition

pytestmark = pytest.mark.usefixtures("compile_quickly")
LOW_ROAD = "S.G\n.C."  # two steps straight on, four by the lower road, which costs
HIGH_ROAD = np.array([[0, 1, 0], [0, 0, 0]], np.float32)  # now the straight one does
START = np.array([0.5, 0.5]) / 3
FEW = CertificateConfig(episodes=100)


@pytest.fixture(scope="module")
def agent():
    """It has found the straight road by learning from memory."""
    walked = walked_agent(LOW_ROAD, 0.5, exact=True)
    found, reached = learn_from_memory(walked, walked.task, 2000, 1.0)
    assert reached.safe == 1.0 and found.act(START) == ACTIONS.index("right")
    return found


@pytest.fixture(scope="module")
def moved(agent):
    """The same agent with cost weights for the other road."""
    return agent.refit(HIGH_ROAD)


def test_m_from_memory_becomes_that_of_the_greedy_policy():
    """Three states, deterministic steps, one-hot features and a linear M: (I - γP)⁻¹ of its own best actions."""
    states = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    phi = one_hot_phi()
    each = jax.vmap(all_features, (None, 0))(phi, states)  # [3, 4, 12]
    nexts = np.random.default_rng(5).integers(3, size=12)
    t = Transition(
        obs=jnp.repeat(states, 4, 0),
        action=jnp.tile(jnp.arange(4), 3),
        reward=jnp.zeros(12),
        cost=jnp.zeros((12, 1)),
        next_obs=states[nexts],
        terminated=jnp.zeros(12),
    )
    cached = jax.vmap(both_features, (None, 0))(phi, t)
    config = tiny_agent("safedsr", features=12, successor_hidden=(), gamma=0.8, learning_rate=0.01, batch_size=24)
    config = dataclasses.replace(config, sync_every=200, train_start=200, freeze=200)
    costs = np.random.default_rng(2).random(12).astype(np.float32)
    weights = Weights(jnp.zeros(12), jnp.asarray(costs)[None])
    spec = Spec(observations=2, actions=4, costs=1)
    start = init(jax.random.key(0), spec, 1, config)
    state = go_on(DsrPolicy(phi, start.successor, weights), jax.random.key(1), spec, config)
    lam = jnp.array([2.0])
    state, _ = learn_from(t, cached, state, lam, jax.random.key(2), config, 16_000)

    m = jax.vmap(state.successor)(each.reshape(12, 12))
    best = np.argmax(scores(state.successor, weights, each.reshape(12, 12), lam).reshape(3, 4), 1)
    chain = np.zeros((12, 12))
    chain[np.arange(12), 4 * nexts + best[nexts]] = 1
    np.testing.assert_allclose(m, np.linalg.inv(np.eye(12) - 0.8 * chain), atol=0.05)
    cheapest = np.zeros(12)  # value iteration: no policy pays less
    for _ in range(200):
        cheapest = costs + 0.8 * cheapest.reshape(3, 4).min(1)[nexts]
    np.testing.assert_allclose(m @ costs, cheapest, atol=0.05)


def test_a_learner_goes_on_from_a_policy(agent):
    learner = agent.policy.learner
    assert agent.trainer.adaptable
    state = agent.trainer.adaptable.learner(learner, jax.random.key(0), None)
    assert same_trees((state.encoder.phi, state.target_phi), (learner.phi, learner.phi))
    assert same_trees((state.successor, state.target_successor), (learner.successor, learner.successor))
    assert same_trees(state.weights, learner.weights) and not state.successor_optimizer[0].count


def test_a_policy_follows_from_memory_alone(agent, moved):
    before = jax.tree.map(np.array, (agent.policy, agent.experience))
    there = score(moved, moved.task, 0.0)
    assert (there.safe, there.goal) == (0.0, 1.0)  # still straight on, and it costs
    found, reached = learn_from_memory(moved, moved.task, 4000, 0.9)
    assert reached.safe == 1.0 and found.act(START) == ACTIONS.index("down")
    cost = run_episodes(found, moved.task, 5).cost
    assert not cost.any()
    same = found.policy._replace(
        learner=found.policy.learner._replace(successor=moved.policy.learner.successor), lam=moved.policy.lam
    )
    assert same_trees(same, moved.policy)  # φ, w_r and w_c are what they were
    assert same_trees(before, jax.tree.map(np.array, (agent.policy, agent.experience)))
    assert not same_trees(moved.policy, found.policy)


def test_which_caution_to_learn_next():
    lam, acted = jnp.array([1.0, 0.0]), jnp.array([3.0, 4.0])

    def after(safe, goal, lam=lam):
        return next_lam(lam, acted, Score(safe, goal, 0.0, 0.0)).tolist()

    assert after(0.5, 1.0) == [3.0, 4.0]  # what acted well
    assert after(0.0, 1.0) == pytest.approx([2.0, 2 * LADDER[1]])  # nothing is safe: more
    assert after(0.0, 0.2) == pytest.approx([0.5, 0.5 * LADDER[1]])  # not even the goal: less
    assert after(0.0, 1.0, jnp.array([40.0])) == pytest.approx([LADDER[2]])  # too much: from little again


def test_scores_are_those_of_plain_episodes(agent, monkeypatch):
    monkeypatch.setattr(penalty, "BATCH", 20)
    task = agent.task._replace(budgets=(1.5,))
    found = score(agent, task, 0.6, batches=4)
    outcome = run_episodes(agent, task, 80, 0.6)
    assert found.goal == outcome.success.mean() and 0 < found.safe < found.goal
    assert found.safe == (outcome.success & (outcome.cost[:, 0] <= 1.5)).mean()
    assert found.spared == pytest.approx(-np.maximum(outcome.cost - 1.5, 0).mean())
    assert found.reward == pytest.approx(outcome.ret.mean(), rel=1e-5)


def outcome(ret, cost):
    """Episodes that all count as successes."""
    count = len(ret)
    return Outcome(np.ones(count, bool), np.ones(count), np.array(ret, np.float32), np.array(cost, np.float32)[:, None])


def test_without_goals_the_return_decides_among_those_that_are_safe_enough(agent):
    task, terms = agent.task._replace(budgets=(1.0,)), Terms(success=False)
    idle, good = outcome([0.0] * 200, [0.0] * 200), outcome([9.0] * 200, [5.0] + [1.0] * 199)
    wild = outcome([99.0] * 200, [5.0] * 20 + [0.0] * 180)
    wilder = outcome([999.0] * 200, [9.0] * 20 + [0.0] * 180)
    found = [judge(o, task, terms, 0.95) for o in (idle, good, wild, wilder)]
    assert found[1] == max(found) == (0.95, 1.0, 0.0, 9.0) and found[0] == (0.95, 1.0, 0.0, 0.0)
    assert found[2].safe == 0.9 and found[2] > found[3]  # less over the budget
    assert judge(good, task, Terms(), 0.95) == (0.995, 1.0, pytest.approx(-0.02), 9.0)  # on the grid: as ever


def test_budgets_of_the_mean_are_a_condition_on_the_mean(agent):
    task, terms = agent.task._replace(budgets=(1.0,)), Terms(budget_kind=DISCOUNTED_MEAN)
    spread = outcome([9.0] * 100, [0.5, 1.1] * 50)  # 0.8 on average, and half of the episodes are above
    above, idle = outcome([99.0] * 100, [1.25] * 100), outcome([0.0] * 100, [0.0] * 100)
    assert judge(spread, task, terms, 1.0) == (1.0, 1.0, 0.0, 9.0) > judge(idle, task, terms, 1.0)
    assert judge(above, task, terms, 1.0) == (0.0, 1.0, -0.25, 99.0)
    unsure = outcome([9.0] * 4, [0.0, 0.0, 0.0, 3.9])  # 0.975 of 4 episodes is not sure
    assert judge(unsure, task, terms, 1.0).safe == 0.0


def test_auto_goes_up_to_memory_where_a_safe_policy_may_be_worth_nothing(agent):
    easy = adapt(goalless(agent), scene_of(agent.task), certificate=FEW)
    assert [rung.level for rung in easy.rungs] == ["cost", "penalty", "memory"]
    assert all(rung.certificate.passed for rung in easy.rungs)
    best = max(easy.rungs, key=lambda rung: rung.certificate.reward)
    assert easy.certificate.reward == best.certificate.reward > 0.9


def test_the_penalty_is_learnt_on_discounted_costs(moved):
    """The second of two steps straight on costs 1, which counts 0.9 where 0.5 is allowed."""
    config = moved.job.agent
    rules = dataclasses.replace(config.multiplier, rule="proportional", lam_lr=0.02)
    epsilon = dataclasses.replace(config.epsilon, epsilon_start=0.0, epsilon_end=0.0)
    settings = dataclasses.replace(config, multiplier=rules, epsilon=epsilon, gamma=0.9)
    job = dataclasses.replace(moved.job, agent=settings, budget_kind="discounted-mean")
    task = task_of(moved, np.array([[0, 0, 1], [0, 0, 0]], np.float32), 0.5)
    found = learn_penalty(with_lam(moved.changed(job=job), [0.1]), task, steps=10)
    assert float(found.policy.lam[0]) == pytest.approx(0.1 + 5 * 0.02 * (0.9 - 0.5), rel=1e-5)


def torn(agent):
    """The agent with an M that says: straight on pays 1 and costs 1, down pays 0.5 and costs nothing; next, go on."""
    learner = agent.policy.learner
    d = len(learner.weights.w_r)
    weights = Weights(jnp.eye(d)[0], jnp.eye(d)[1:2])
    places = jnp.asarray([START, START + np.array([0.25, 0.0])], jnp.float32)  # a step of 0.75 cells, on a map of 3
    phi = np.asarray(jax.vmap(all_features, (None, 0))(learner.phi, places))
    wanted = np.zeros((2, 4, d))
    wanted[0, ACTIONS.index("right"), :2] = 1, 1
    wanted[0, ACTIONS.index("down"), 0] = 0.5
    wanted[1, ACTIONS.index("right"), 0] = 1
    matrix = np.linalg.lstsq(phi.reshape(8, -1), wanted.reshape(8, -1))[0].T
    numbers = jnp.asarray(matrix, jnp.float32), jnp.zeros(d)
    m = eqx.tree_at(lambda net: (net.layers[0].weight, net.layers[0].bias), learner.successor, numbers)
    return agent.with_policy(agent.policy._replace(learner=learner._replace(successor=m, weights=weights)))


def test_the_search_finds_the_caution_that_is_needed(monkeypatch, agent, moved):
    """Scores are read off the start's action: straight on is unsafe, down is safe, and waiting reaches nothing."""
    tried = []

    def judge(candidate, task, epsilon, batches=1, required=1.0):
        action = ACTIONS[candidate.act(START)]
        tried.append((float(candidate.policy.lam[0]), batches))
        return Score({"down": 1.0}.get(action, 0.0), {"up": 0.0, "left": 0.0}.get(action, 1.0), 0.0, 0.0)

    monkeypatch.setattr(penalty, "score", judge)
    divided = with_lam(torn(moved), [0.0])
    assert divided.act(START) == ACTIONS.index("right")
    found, best = search_penalty(divided, moved.task)
    assert best.safe == 1.0 and found.act(START) == ACTIONS.index("down") and found.policy.lam[0] > 0.5
    assert [lam for lam, batches in tried if batches == 1] == pytest.approx(LADDER)
    assert sum(batches > 1 for _, batches in tried) == 1 + penalty.FINALISTS
    assert same_trees(found.policy._replace(lam=divided.policy.lam), divided.policy)


@pytest.mark.parametrize("wanted", [0.0, 0.05, 0.53, 1.1, 90.0, 640.0])
def test_the_search_looks_between_and_above_the_values_of_the_ladder(monkeypatch, moved, wanted):
    """The nearer to the wanted λ, the better; the search comes within a fifth of it."""
    tried = []

    def judge(candidate, task, epsilon, batches=1, required=1.0):
        tried.append(value := float(candidate.policy.lam[0]))
        return Score(-abs(np.log2((value + 1e-3) / (wanted + 1e-3))), 0.0, 0.0, 0.0)

    monkeypatch.setattr(penalty, "score", judge)
    found, _ = search_penalty(with_lam(moved, [3.0]), moved.task)
    assert wanted / 1.2 <= float(found.policy.lam[0]) <= wanted * 1.2
    assert len(set(tried)) <= len(LADDER) + 10 and (wanted > 51 or max(tried) < 80)


def test_on_an_accelerator_all_values_of_the_ladder_are_tried_together(monkeypatch, moved):
    """The scores are those of one λ after the other, and so are the counted steps."""
    lams, how = np.asarray(LADDER, np.float32)[:, None], {"task": moved.task, "epsilon": 0.1, "batches": 2}
    moved = torn(moved)
    before = walked()
    wanted = penalty.scores(moved, lams, **how)
    steps = walked() - before
    for module in (penalty, evaluate):
        monkeypatch.setattr(module, "accelerated", lambda: True)
    monkeypatch.setattr(evaluate, "MANY", 500)
    found = penalty.scores(moved, lams, **how)
    assert found == wanted and walked() == before + 2 * steps
    assert len({one.reward for one in found}) > 1


def test_search_and_certificate_have_the_same_share_of_random_actions(monkeypatch, agent):
    """Every episode of an adaptation has the ε at which the policy will act."""
    used = []

    def watched(policy, task, keys, epsilon=0.0):
        used.append(epsilon)
        return run_keys(policy, task, keys, epsilon)

    for module in (penalty, certify):
        monkeypatch.setattr(module, "run_keys", watched)
    found = adapt(agent, HIGH_ROAD, "memory", 0.5, CertificateConfig(episodes=20, epsilon=0.3), ClimbConfig(updates=20))
    assert set(used) == {0.3} and len(used) > len(LADDER) and found.certificate.epsilon == 0.3
    assert "acts with this ε" in found.certificate.assumes


def test_an_agent_that_no_level_improves_stays_as_it_was(agent, monkeypatch):
    """Its own costs again, and a level that turns its rewards round, so that it stays away from the goal."""

    def spoil(old, request):
        weights = learner_of(old).weights
        learner = learner_of(old)._replace(weights=weights._replace(w_r=-weights.w_r))
        return old.with_policy(old.policy._replace(learner=learner)).changed(task=request.task)

    monkeypatch.setitem(ladder.RUNGS, "cost", spoil)
    found = adapt(agent, scene_of(agent.task), certificate=FEW, spend=ClimbConfig(highest="cost"))
    assert [rung.level for rung in found.rungs] == ["cost", "none"] and found.level == "none"
    assert not found.rungs[0].certificate.passed and found.certificate.passed
    np.testing.assert_array_equal(found.agent.values(START).score, agent.values(START).score)
    assert found.notes[-1].startswith("no level is better for the new costs than the agent as it was")
    alone = adapt(agent, scene_of(agent.task), "cost", certificate=FEW)
    assert [rung.level for rung in alone.rungs] == ["cost"]


def test_simulated_steps_are_counted(agent):
    found = adapt(agent, "none", "penalty", certificate=CertificateConfig(episodes=20))
    assert found.rungs[0].simulated_steps > 64 * len(LADDER)
    assert found.rungs[0].to_dict()["simulated_steps"] == found.rungs[0].simulated_steps
    assert adapt(agent, "none", "cost", certificate=CertificateConfig(episodes=20)).rungs[0].simulated_steps == 0


def test_a_search_over_several_costs_goes_one_after_the_other(monkeypatch, moved):
    both = moved.refit(np.stack([HIGH_ROAD, HIGH_ROAD]))

    def judge(candidate, task, epsilon, batches=1, required=1.0):
        first, second = np.asarray(candidate.policy.lam)
        return Score(-abs(np.log2((first + 0.01) / 0.4)) - abs(np.log2((second + 0.01) / 6.4)), 0.0, 0.0, 0.0)

    monkeypatch.setattr(penalty, "score", judge)
    found, _ = search_penalty(both, both.task)
    np.testing.assert_allclose(found.policy.lam, [0.4, 6.4], rtol=1e-6)


@pytest.mark.parametrize(("rule", "change"), [("proportional", 0.01), ("sign", 0.02)])
def test_the_penalty_is_learnt_on_policy(moved, rule, change):
    """Straight on costs 1 an episode, two steps long, where 0.5 is allowed: λ climbs by the same step each time."""
    config = moved.job.agent
    rules = dataclasses.replace(config.multiplier, rule=rule, lam_lr=0.02, lam_step=0.02)
    epsilon = dataclasses.replace(config.epsilon, epsilon_start=0.0, epsilon_end=0.0)
    greedy = moved.changed(
        job=dataclasses.replace(moved.job, agent=dataclasses.replace(config, multiplier=rules, epsilon=epsilon))
    )
    task = moved.task._replace(budgets=(0.5,))
    found = learn_penalty(with_lam(greedy, [0.1]), task, steps=10)
    assert greedy.act(START) == ACTIONS.index("right")
    assert float(found.policy.lam[0]) == pytest.approx(0.1 + 5 * change, rel=1e-5)
    aimed = dataclasses.replace(rules, aim=(1.0,))
    aims = greedy.changed(
        job=dataclasses.replace(greedy.job, agent=dataclasses.replace(config, multiplier=aimed, epsilon=epsilon))
    )
    there = learn_penalty(with_lam(aims, [0.1]), task, steps=10).policy.lam[0]
    assert float(there) == pytest.approx(0.1 if rule == "proportional" else 0.0, abs=1e-6)


def test_training_goes_on_where_the_agent_is(moved):
    program = Program(own_job(moved))
    state = start_state(program, moved, moved.task, seed=0, count=3000).agent
    kept = relabelled(experience_of(moved), moved.environment, moved.task.params)
    assert same_trees(program.trainer.policy(state), moved.policy) and state.count == 3000
    ring = Codec(2, 1).unpack(state.ring)
    count = len(kept.obs)
    for name in Transition._fields:
        np.testing.assert_array_equal(getattr(ring, name)[:count], getattr(kept, name))
        np.testing.assert_array_equal(getattr(ring, name)[count : 2 * count], getattr(kept, name))
    assert state.reservoir is not None and int(state.reservoir.seen.sum()) == 2 * count  # reward and cost
    assert np.asarray(ring.cost).any()


def test_new_interactions(moved):
    before = jax.tree.map(np.array, (moved.policy, moved.experience))
    later = list(learn_in(moved, moved.task, 190, 100))
    assert len(later) == 2  # of 100 steps each, since a period has 50
    first, last = (a.policy.learner for a in later)
    assert same_trees(first.phi, moved.policy.learner.phi) and same_trees(last.phi, first.phi)
    for name in ("successor", "weights"):
        assert not same_trees(getattr(first, name), getattr(moved.policy.learner, name))
        assert not same_trees(getattr(first, name), getattr(last, name))
    kept = len(experience_of(later[1]).steps.action)
    assert len(last.weights.w_c) == 1 and kept >= len(experience_of(moved).steps.action)
    assert same_trees(before, jax.tree.map(np.array, (moved.policy, moved.experience)))


def test_auto_climbs_until_the_certificate_passes(agent):
    shown = []
    found = adapt(agent, HIGH_ROAD, budget=0.5, certificate=FEW, show=shown.append)
    assert [rung.level for rung in found.rungs] == ["cost", "penalty", "memory"] and tuple(shown) == found.rungs
    assert [rung.certificate.passed for rung in found.rungs] == [False, False, True]
    assert found.level == "memory" and found.certificate.passed and found.agent is found.rungs[-1].agent
    assert found.agent.act(START) == ACTIONS.index("down") and found.agent.task.budgets == (0.5,)
    easy = adapt(agent, scene_of(agent.task), certificate=FEW)
    assert easy.level == "cost" and len(easy.rungs) == 1


@pytest.mark.parametrize(("level", "passes"), [("cost", False), ("penalty", False), ("memory", True)])
def test_a_level_is_reached_and_certified_once(agent, level, passes):
    found = adapt(agent, HIGH_ROAD, level, 0.5, FEW, ClimbConfig(updates=4000))
    assert [rung.level for rung in found.rungs] == [level] and found.certificate.passed == passes


def test_the_full_rung_goes_on_if_memory_did_not_do(agent, monkeypatch):
    """One update is too few, new steps with the same learner are enough; λ is learnt, not searched.

    This learner's large steps lose the way and find it again, at times that depend on rounding; the best stage counts.
    """
    monkeypatch.setattr(ladder, "STAGE", 500)
    spend = ClimbConfig(penalty="learn", penalty_steps=50, updates=1, steps=10_000)
    penalty, memory, full = (adapt(agent, HIGH_ROAD, level, 0.5, FEW, spend) for level in ("penalty", "memory", "full"))
    assert not penalty.certificate.passed and not memory.certificate.passed
    assert memory.agent.act(START) == ACTIONS.index("right")
    assert full.level == "full" and full.certificate.passed and full.certificate.budgets == (0.5,)
    assert full.agent.act(START) == ACTIONS.index("down")
    before, after = agent.policy.learner, full.agent.policy.learner
    assert same_trees(after.phi, before.phi) and not same_trees(after.successor, before.successor)
    assert full.agent.policy.lam[0] > penalty.agent.policy.lam[0] > agent.policy.lam[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"costs": HIGH_ROAD, "level": "mermory"}, "unknown level 'mermory'; did you mean 'memory'"),
        ({"costs": "square"}, "cost shape 'square' is drawn for rooms"),
        ({"costs": HIGH_ROAD, "budget": "1,2"}, "budget is '1,2'; there are 1 costs"),
    ],
)
def test_adaptations_that_cannot_be(agent, given, message):
    with pytest.raises(UserError, match=f"^{message}"):
        adapt(agent, **given)
    with pytest.raises(UserError, match=r"^this policy has no replay memory"):
        adapt(agent.changed(experience=None), HIGH_ROAD)


@pytest.mark.parametrize("name", ["penalty_steps", "updates", "steps"])
def test_nothing_can_be_done_with_nothing(name):
    with pytest.raises(UserError, match=f"^{name} is 0; give at least 1"):
        dataclasses.replace(ClimbConfig(), **{name: 0})


def test_what_an_environment_is_after_adapting(agent):
    both = task_of(agent, np.stack([HIGH_ROAD, 2 * HIGH_ROAD]), "1,2")
    assert both.budgets == (1.0, 2.0) and both.cost_names == ("cost-0", "cost-1")
    assert task_of(agent, None) == agent.task


@pytest.mark.parametrize(
    "level, highest, from_memory, wanted",
    [
        ("auto", "memory", False, "memory"),
        ("auto", "full", False, "full"),
        ("auto", "full", True, "memory"),
        ("auto", "penalty", True, "penalty"),
        ("cost", "full", False, "cost"),
    ],
)
def test_the_last_level(level, highest, from_memory, wanted):
    assert ladder._last(level, ClimbConfig(highest=highest), from_memory) == wanted


def certified(passed=False, violation=0.4, safe=0.5, budgets=(1.0,), **fields):
    """A certificate with these numbers."""
    cost = tuple(Bound(1.5 * b, 1.6 * b) for b in budgets)
    shares = {"safe_goal_rate": Bound(safe, safe), "goal_rate": Bound(0.9, 0.9), "violation": Bound(violation, 0.5)}
    return Certificate(passed, "x", budgets, 100, 0.95, 0.9, 0.0, **shares, cost=cost, reward=1.0, length=9.0, **fields)


def rungs_of(*certificates):
    levels = ("cost", "penalty", "memory")[: len(certificates)]
    return [Rung(*each, 0.0) for each in zip(levels, [None] * 3, certificates, strict=False)]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("certificates", "said"),
    [
        (
            [certified(), certified(), certified(violation=0.3, safe=0.6)],
            "no λ tried keeps the budget; the best share of episodes within it is 0.700, and the best share that also "
            "reaches the goal is 0.600; possible remedies: the level 'full', a larger budget, fewer random actions",
        ),
        (
            [certified(), certified(budgets=(1.0, 2.0), success=False)],
            "no λ tried keeps all budgets; the best share of episodes within it is 0.600; possible remedies: the level "
            "'memory', a larger budget, fewer random actions",
        ),
        (
            [certified(), certified(budgets=(1.0, 2.0), success=False, kind="discounted-mean")],
            "no λ tried keeps all budgets; the mean discounted cost closest to it is 1.5 of 1, 3 of 2; possible "
            "remedies: the level 'memory', a larger budget, fewer random actions",
        ),
        ([certified(), certified(violation=0.05)], None),  # goals are missed, not budgets
        ([certified(), certified(passed=True)], None),
        ([certified()], None),  # no λ was searched
    ],
)
def test_budgets_that_no_lam_keeps_are_named(certificates, said):
    assert not_kept(rungs_of(*certificates)) == said
