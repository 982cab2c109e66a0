import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny import advance, linear, same_trees, tiny_agent, tiny_job

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.equations import (
    DsrPolicy,
    Encoder,
    Phi,
    Weights,
    all_features,
    feature_loss,
    features,
    fold,
    next_features,
    scores,
    successor_loss,
    successor_target,
    weights_loss,
)
from safedsr.agents.safedsr.learner import Batch, batch_features, init, learn, learn_successor, learn_weights
from safedsr.agents.safedsr.trainer import known_features, make_safedsr, offer
from safedsr.agents.value_based.trainer import Memory, Policy
from safedsr.core.config import MultiplierConfig
from safedsr.core.nets import Mlp, descend, pair
from safedsr.core.replay import Codec, init_reservoir, signals_of, store, value_bins
from safedsr.engine.program import Program
from safedsr.envs.environment import Environment, Spec
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.envs.grid.text import parse_scene
from safedsr.types import Transition

pytestmark = pytest.mark.usefixtures("compile_quickly")
CONFIG = SafeDsrConfig(gamma=0.9)
SPEC, CODEC = make_grid(GridConfig(), 2).spec, Codec(2, 2)
PHI = linear([[3, 0, 0, 0, 0, 0], [0, 2, 0, 0, 0, 0]], [0, 0])  # φ((1, 2), ·) = (3, 4) / 5
DECODER = linear([[1, 0], *[[0, 0]] * 5], [0] * 6)  # g(φ) = (φ_1, 0, 0, 0, 0, 0)
TWO = Weights(w_r=jnp.array([1.0, 2.0]), w_c=jnp.array([[1.0, 0.0], [0.0, -1.0]]))
NONE = Weights(w_r=jnp.array([1.0, 2.0]), w_c=jnp.zeros((0, 2)))
SUCCESSOR = linear([[1, 2], [3, 4]], [0.5, -0.5])


def transition(cost=(1.6, 1.2), action=0):
    return Transition(
        obs=jnp.array([1.0, 2.0]),
        action=jnp.int32(action),
        reward=jnp.float32(1.2),
        cost=jnp.array(cost),
        next_obs=jnp.array([0.5, 0.0]),
        terminated=jnp.float32(0),
    )


def test_features_have_unit_length():
    np.testing.assert_allclose(features(PHI, jnp.array([1.0, 2.0]), jnp.int32(3)), [0.6, 0.8], rtol=1e-6)
    by_action = linear(np.eye(6), [0] * 6)  # φ is (s, a) itself
    found = all_features(by_action, jnp.array([2.0, 2.0]))
    np.testing.assert_allclose(found, np.hstack([np.full((4, 2), 2 / 3), np.eye(4) / 3]), rtol=1e-6)


def test_features_without_unit_length():
    phi = Phi((6, 8, 12), key=jax.random.key(0), unit_length=False)
    obs, action = jnp.array([0.3, 0.7]), jnp.int32(2)
    plain = phi(pair(obs, action, 4))
    assert abs(jnp.linalg.norm(plain) - 1) > 0.1
    np.testing.assert_allclose(features(phi, obs, action), plain, rtol=1e-6)
    np.testing.assert_allclose(all_features(phi, obs)[2], plain, rtol=1e-5)
    short, net = next_features(phi, obs)[2], Mlp((12, 5), key=jax.random.key(1))
    np.testing.assert_allclose(fold(net, phi)(short), net(plain), rtol=1e-4, atol=1e-6)


def test_biases_learn_what_features_cannot_tell():
    config = dataclasses.replace(CONFIG, weight_bias=True, learning_rate=0.01)
    s = init(jax.random.key(0), SPEC, 2, config)
    s = s._replace(weights=Weights(jnp.zeros_like(s.weights.w_r), jnp.zeros_like(s.weights.w_c)))
    batch = jax.tree.map(lambda x: jnp.broadcast_to(x, (4, *x.shape)), transition())
    phi = jnp.zeros((4, config.features))
    s, _ = jax.lax.scan(lambda s, _: learn_weights(s, batch, phi, config), s, length=1000)
    assert s.biases is not None
    np.testing.assert_allclose(s.biases.w_r, transition().reward, atol=1e-3)
    np.testing.assert_allclose(s.biases.w_c, transition().cost, atol=1e-3)


@pytest.mark.parametrize(
    ("weights", "cost", "fit"),
    [
        (TWO, (1.6, 1.2), 0.25 * 1.0 + 10 * (1.0 + 4.0) / 2),  # φ·w_r = 2.2; w_c·φ = (0.6, -0.8)
        (NONE, (), 0.25),
    ],
)
def test_feature_loss_by_hand(weights, cost, fit):
    rebuilt = (0.4**2 + 2**2 + 1**2) / 6  # (1, 2, 1, 0, 0, 0) less (0.6, 0, …)
    phi = jnp.array([0.6, 0.8])
    np.testing.assert_allclose(weights_loss(weights, phi, transition(cost), CONFIG), fit, rtol=1e-5)
    found = feature_loss(Encoder(PHI, DECODER), weights, transition(cost), CONFIG)
    np.testing.assert_allclose(found, fit + 5 * rebuilt, rtol=1e-5)


def test_feature_loss_weighs_its_three_parts():
    def loss(**betas):
        config = SafeDsrConfig(**{"beta_r": 0.0, "beta_c": 0.0, "beta_g": 0.0, **betas})
        return feature_loss(Encoder(PHI, DECODER), TWO, transition(), config)

    assert loss() == 0
    np.testing.assert_allclose([loss(beta_r=2), loss(beta_c=2), loss(beta_g=2)], [2, 5, 1.72], rtol=1e-5)


def test_slope_of_the_weights_by_hand():
    slope = jax.grad(weights_loss)(TWO, jnp.array([0.6, 0.8]), transition(), CONFIG)
    np.testing.assert_allclose(slope.w_r, 0.25 * 2 * 1.0 * np.array([0.6, 0.8]), rtol=1e-5)
    errors = np.array([1.0, 2.0])  # cost less prediction, mean over the two costs
    np.testing.assert_allclose(slope.w_c, -10 * np.outer(errors, [0.6, 0.8]), rtol=1e-5)


@pytest.mark.parametrize("num_costs", [0, 1, 3])
def test_folded_scores_are_those_of_the_plain_form(num_costs):
    keys = jax.random.split(jax.random.key(num_costs), 4)
    phi, successor = Phi((6, 16, 12), key=keys[0]), Mlp((12, 20, 20, 12), key=keys[1])
    weights = Weights(jax.random.normal(keys[2], (12,)), jax.random.normal(keys[3], (num_costs, 12)))
    lam = jnp.arange(1.0, num_costs + 1)
    obs = jnp.array([0.3, 0.7])
    trainer = make_safedsr(CONFIG, make_grid(GridConfig(), num_costs))
    plain = trainer.values(Policy(DsrPolicy(phi, successor, weights), lam), obs)
    assert plain.k is not None and plain.m is not None and plain.k.shape == (4, num_costs)
    np.testing.assert_allclose(plain.q, plain.m @ weights.w_r, rtol=1e-5)
    np.testing.assert_allclose(plain.score, np.asarray(plain.q) - np.asarray(plain.k) @ np.asarray(lam), rtol=1e-5)
    found = scores(successor, weights, all_features(phi, obs), lam)
    np.testing.assert_allclose(found, plain.score, rtol=1e-5, atol=1e-5)
    assert np.ptp(found) > 1e-3


def test_scores_by_hand():
    phi = jnp.array([[1.0, 0.0], [0.0, 1.0]])  # M = (1.5, 2.5) and (2.5, 3.5)
    found = scores(SUCCESSOR, TWO, phi, jnp.array([2.0, 0.5]))
    np.testing.assert_allclose(found, [6.5 - 2 * 1.5 + 0.5 * 2.5, 9.5 - 2 * 2.5 + 0.5 * 3.5], rtol=1e-6)


@pytest.mark.parametrize("terminal", ["cut", "cut-all", "restart", "restart-goal", "absorb"])
@pytest.mark.parametrize("terminated", [0.0, 1.0])
def test_successor_target_by_hand(terminal, terminated):
    next_phi = jnp.array([[9.0, 9.0], [1.0, -1.0], [9.0, 9.0], [9.0, 9.0]])
    found = successor_target(
        SUCCESSOR,
        jnp.array([0.6, 0.8]),
        next_phi,
        jnp.int32(1),
        jnp.float32(terminated),
        dataclasses.replace(CONFIG, terminal=terminal),
    )
    ends = terminal in ("cut", "cut-all") and terminated
    np.testing.assert_allclose(found, [0.6, 0.8] if ends else [0.6 - 0.45, 0.8 - 1.35], rtol=1e-5)


def test_successor_loss_by_hand():
    goal, phi = jnp.array([1.0, 2.0]), jnp.array([0.6, 0.8])  # M = (2.7, 4.5)
    np.testing.assert_allclose(successor_loss(SUCCESSOR, phi, goal), (1.7**2 + 2.5**2) / 2, rtol=1e-5)
    slope = jax.grad(successor_loss)(SUCCESSOR, phi, goal).layers[0]
    np.testing.assert_allclose(slope.weight, np.outer([1.7, 2.5], [0.6, 0.8]), rtol=1e-5)
    np.testing.assert_allclose(slope.bias, [1.7, 2.5], rtol=1e-5)


def one_hot_phi():
    """φ for the states (1, 0), (0, 1) and (0, 0): a unit vector for each state and action."""
    rows, biases = [], []
    for state, bias in (((1, 0), -1), ((0, 1), -1), ((-1, -1), 0)):
        for action in range(4):
            rows.append([*state, *np.eye(4)[action]])
            biases.append(bias)
    phi = Phi((6, 12, 12), key=jax.random.key(0))
    numbers = [jnp.array(rows, jnp.float32), jnp.array(biases, jnp.float32), jnp.eye(12), jnp.zeros(12)]
    return eqx.tree_at(lambda n: [leaf for x in n.layers for leaf in (x.weight, x.bias)], phi, numbers)


def test_with_one_hot_features_m_becomes_the_successor_representation():
    """Three states, two equally likely successors of each step, some of which end the episode: (I - γP)⁻¹."""
    states = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    phi = one_hot_phi()
    known = jax.vmap(all_features, (None, 0))(phi, states)  # [3, 4, 12]
    np.testing.assert_array_equal(known.reshape(12, 12), np.eye(12))

    rng = np.random.default_rng(0)
    nexts, policy = rng.integers(3, size=(12, 2)), np.array([2, 0, 3])
    ended = rng.random((12, 2)) < 0.2
    chain = np.zeros((12, 12))
    for row in range(12):
        for state, end in zip(nexts[row], ended[row], strict=True):
            chain[row, 4 * state + policy[state]] += 0.5 * (1 - end)
    expected = np.linalg.inv(np.eye(12) - 0.9 * chain)
    assert 0 < ended.mean() < 1 and expected.max() > 3

    each = jnp.repeat(known.reshape(12, 12), 2, 0)  # [24, 12], two rows a pair
    after, best = known[nexts.ravel()], jnp.asarray(policy[nexts.ravel()])
    ends = jnp.asarray(ended.ravel(), jnp.float32)
    sgd = optax.sgd(8.0)

    def fit(successor, _):
        goal = jax.vmap(successor_target, (None, 0, 0, 0, 0, None))(successor, each, after, best, ends, CONFIG)

        def loss(successor):
            return jax.vmap(successor_loss, (None, 0, 0))(successor, each, goal).mean()

        def update(net, _):
            return descend(sgd, jax.grad(loss)(net), net, sgd.init(net))[0], None

        return jax.lax.scan(update, successor, None, 60)[0], None

    successor, _ = jax.jit(lambda net: jax.lax.scan(fit, net, None, 120))(Mlp((12, 12), key=jax.random.key(1)))
    np.testing.assert_allclose(jax.vmap(successor)(known.reshape(12, 12)), expected, rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def program():
    return Program(tiny_job("safedsr"))


@pytest.fixture(scope="module")
def collected(program):
    """The state after the collecting phase."""
    return advance(program, program.init(), 0, "collect")[0]


def moved(before, after):
    return not any(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True))


def test_collecting_learns_nothing(program, collected):
    assert same_trees(program.init().agent.learner, collected.agent.learner)


def test_the_features_phase_moves_everything(program, collected):
    after, _, losses = advance(program, collected, 20, "features")
    for name in ("encoder", "weights", "successor"):
        assert moved(getattr(collected.agent.learner, name), getattr(after.agent.learner, name)), name
    assert all(np.isfinite(loss).all() for loss in losses.values()) and len(losses) == 2


def test_the_frozen_phase_leaves_phi_and_g_alone(program, collected):
    after, _, _ = advance(program, collected, 60, "frozen")
    for name in ("encoder", "encoder_optimizer"):
        assert same_trees(getattr(collected.agent.learner, name), getattr(after.agent.learner, name)), name
    for name in ("weights", "successor"):
        assert moved(getattr(collected.agent.learner, name), getattr(after.agent.learner, name)), name


def test_m_does_not_touch_the_features(program, collected):
    """While every action is random, φ, g, w_r and w_c learn the same whatever M is."""
    learner = collected.agent.learner
    other = jax.tree.map(lambda x: x + 1.0, learner.successor)
    both = learner, learner._replace(successor=other, target_successor=other)
    lanes = (collected._replace(agent=collected.agent._replace(learner=x)) for x in both)
    after, changed = (advance(program, lane, 0, "features")[0].agent.learner for lane in lanes)
    assert same_trees((after.encoder, after.weights), (changed.encoder, changed.weights))
    assert moved(after.successor_optimizer[0].mu, changed.successor_optimizer[0].mu)


def random_learner(config, count=16):
    """A learner whose targets differ from its networks, and random transitions with two costs."""
    keys = jax.random.split(jax.random.key(0), 3)
    s = init(keys[0], SPEC, 2, config)
    other = init(keys[1], SPEC, 2, config)
    s = s._replace(target_phi=other.encoder.phi, target_successor=other.successor)
    rows = jax.random.uniform(keys[2], (count, 9))
    rows = rows.at[:, 2].set(jnp.arange(count) % 4).at[:, 4].set(jnp.arange(count) % 3 == 0)  # action, terminated
    return s, rows


def test_splitting_the_first_layer_changes_nothing():
    """φ(s, ·) shares what the state adds; φ(s, a) is the network on the pair."""
    s, rows = random_learner(tiny_agent("safedsr"))
    for obs in CODEC.unpack(rows).obs:
        one_by_one = [features(s.encoder.phi, obs, action) for action in jnp.arange(4)]
        np.testing.assert_allclose(all_features(s.encoder.phi, obs), one_by_one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("widths", [(6, 8, 10), (6, 5, 8, 10), (6, 10, 8), (6, 9)])
@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
def test_features_in_short_are_worth_the_same(widths, hidden):
    """What M and the scores make of the input of φ's last layer, and where that is the shorter one."""
    keys = jax.random.split(jax.random.key(0), 5)
    phi, d = Phi(widths, key=keys[0]), widths[-1]
    net = Mlp((d, *hidden, d), key=keys[1])
    weights = Weights(jax.random.normal(keys[2], (d,)), jax.random.normal(keys[3], (2, d)))
    for obs in jax.random.uniform(keys[4], (5, 2)):
        whole, short = all_features(phi, obs), next_features(phi, obs)
        assert short.shape == (4, 9 if widths[-2:] == (8, 10) else d)
        np.testing.assert_allclose(jax.vmap(fold(net, phi))(short), jax.vmap(net)(whole), rtol=1e-5, atol=1e-6)
        lam = jnp.array([0.5, 2.0])
        found, expected = scores(fold(net, phi), weights, short, lam), scores(net, weights, whole, lam)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert np.ptp(expected) > 1e-4


def test_accelerators_take_features_as_they_are(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    phi = Phi((6, 8, 10), key=jax.random.key(0))
    assert next_features(phi, jnp.ones(2)).shape == (4, 10) and fold(phi, phi) is phi


@pytest.mark.parametrize("d", [6, 16])  # the second in short
def test_one_successor_update_by_plain_loops(d):
    """The best next action is the current networks' choice, what it is worth the target networks'."""
    config = tiny_agent("safedsr", features=d)
    s, rows = random_learner(config)
    t, lam = CODEC.unpack(rows), np.array([0.5, 2.0])
    batch = Batch(t, *batch_features(s.encoder.phi, t), *batch_features(s.target_phi, t))
    after, loss = learn_successor(s, batch, jnp.asarray(lam, jnp.float32), config)
    expected, disagreements = [], 0
    for n in range(len(rows)):

        def values(successor, phi):
            m = np.array([successor(f) for f in all_features(phi, t.next_obs[n])])  # noqa: B023
            return m, m @ np.asarray(s.weights.w_r) - m @ np.asarray(s.weights.w_c).T @ lam

        now, ahead = values(s.successor, s.encoder.phi)[1], values(s.target_successor, s.target_phi)
        disagreements += now.argmax() != ahead[1].argmax()
        goal = features(s.target_phi, t.obs[n], t.action[n]) + 0.99 * (1 - t.terminated[n]) * ahead[0][now.argmax()]
        expected.append(np.mean((goal - s.successor(features(s.encoder.phi, t.obs[n], t.action[n]))) ** 2))
    np.testing.assert_allclose(loss, np.mean(expected), rtol=1e-5)
    assert disagreements and not same_trees(after.successor, s.successor)
    same = [name for name in s._fields if not name.startswith("successor")]
    assert all(same_trees(getattr(after, name), getattr(s, name)) for name in same) and len(same) == 8


@pytest.mark.parametrize("d", [6, 16])  # the second in short
def test_what_is_computed_ahead_in_the_frozen_phase_is_the_same(d):
    """Steps too small to move anything: both phases see the same features, hence the same losses and slopes."""
    config = tiny_agent("safedsr", features=d, learning_rate=1e-30, beta_g=0.0)
    unsynced, rows = random_learner(config)
    start = unsynced._replace(target_phi=unsynced.encoder.phi)  # as it is once φ is frozen
    bins = value_bins(signals_of(CODEC.unpack(rows)), jnp.zeros(3), jnp.ones(3), 4)
    reservoir = store(jax.random.key(1), init_reservoir(3, 4, 8, CODEC.width), rows, bins)
    cached = jax.vmap(partial(known_features, start))(CODEC.unpack(rows))
    memory = Memory(rows, reservoir, jnp.int32(len(rows)), cached, CODEC.unpack)

    def learner(phase):
        return jax.jit(lambda s: learn(s, memory, jnp.ones(2), jax.random.key(2), phase, config))

    learners = [learner(phase) for phase in ("features", "frozen")]
    results = [f(start) for f in learners]
    (thawed, thawed_losses), (frozen, frozen_losses) = results
    for name in ("weights_optimizer", "successor_optimizer"):
        pairs = (jax.tree.leaves(getattr(s, name)) for s in (thawed, frozen))
        for one, other in zip(*pairs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7)
    assert np.abs(frozen.successor_optimizer[0].mu.layers[0].weight).max() > 1e-4
    assert same_trees(start.successor, thawed.successor) and thawed.successor_optimizer[0].count == 2
    for name, loss in thawed_losses.items():
        np.testing.assert_allclose(loss, frozen_losses[name], rtol=1e-5)
    # φ_prev is part of M's target and of nothing else
    _, losses = learners[0](unsynced)
    assert np.isclose(losses["feature_loss"], thawed_losses["feature_loss"], rtol=1e-5)
    assert not np.isclose(losses["successor_loss"], thawed_losses["successor_loss"], rtol=1e-2)


def nowhere(spec):
    """An environment that is only asked what it is."""

    def never(*args):
        raise AssertionError("nobody walks here")

    return Environment("nowhere", spec, reset=never, step=never)


def labelled(rewards, costs):
    """Rows of steps with these rewards and costs, between observations of three numbers."""
    count = len(rewards)
    t = Transition(
        obs=jnp.zeros((count, 3)),
        action=jnp.arange(count),
        reward=jnp.array(rewards),
        cost=jnp.array(costs)[:, None],
        next_obs=jnp.zeros((count, 3)),
        terminated=jnp.zeros(count),
    )
    return Codec(3, 1).pack(t)


def test_where_ranges_are_unknown_the_bins_span_what_was_seen():
    """Rewards between -1 and 3, then down to -5; the cost is 2 until it is 10, too."""
    spec = Spec(observations=3, actions=2, costs=1)
    config = tiny_agent("safedsr", value_bins=4, reservoir_size=8)
    environment = nowhere(spec)
    trainer = make_safedsr(config, environment)
    first = trainer.init(jax.random.key(0), jnp.uint32(0), None)[0].reservoir
    assert first.ranges is not None and first.rows.shape == (2, 4, 8, Codec(3, 1).width)

    def put(key, reservoir, rows):
        return offer(key, None, reservoir, rows, Codec(3, 1).unpack(rows), None, environment, config)[1]

    seen = put(jax.random.key(1), first, labelled([-1.0, 0.5, 1.5, 3.0, 3.0], [2.0] * 5))
    np.testing.assert_array_equal(seen.ranges, [[-1.0, 2.0], [3.0, 2.0]])
    np.testing.assert_array_equal(seen.seen, [[1, 1, 1, 2], [5, 0, 0, 0]])
    np.testing.assert_array_equal(Codec(3, 1).unpack(seen.rows[0, 3, :2]).action, [3, 4])
    later = put(jax.random.key(2), seen, labelled([-5.0, -2.0, 0.0, 3.0], [2.0, 4.5, 6.5, 10.0]))
    np.testing.assert_array_equal(later.ranges, [[-5.0, 2.0], [3.0, 10.0]])
    # What was kept stays where it was; new rows are binned within all that was seen: by 2 from -5, and by 2 from 2.
    np.testing.assert_array_equal(later.seen - seen.seen, [[1, 1, 1, 1], [1, 1, 1, 1]])
    np.testing.assert_array_equal(Codec(3, 1).unpack(later.rows[1, 3, :1]).cost, [[10.0]])


def test_where_ranges_are_known_they_stay():
    spec = Spec(observations=3, actions=2, costs=1, reward_range=(-8.0, 8.0), cost_ceilings=(4.0,))
    environment, config = nowhere(spec), tiny_agent("safedsr", value_bins=4, reservoir_size=8)
    first = make_safedsr(config, environment).init(jax.random.key(0), jnp.uint32(0), None)[0].reservoir
    rows = labelled([-1.0, 0.5, 1.5, 5.0], [0.0, 0.5, 1.5, 4.0])
    _, found = offer(jax.random.key(1), None, first, rows, Codec(3, 1).unpack(rows), None, environment, config)
    assert first.ranges is None and found.ranges is None
    np.testing.assert_array_equal(found.seen, [[0, 1, 2, 1], [2, 1, 0, 1]])


def test_a_refilled_reservoir_spans_its_new_rows_alone():
    environment = nowhere(Spec(observations=3, actions=2, costs=1))
    trainer = make_safedsr(tiny_agent("safedsr", value_bins=4, reservoir_size=8), environment)
    state, _ = trainer.init(jax.random.key(0), jnp.uint32(0), None)
    assert trainer.refill
    for rewards, costs in (([-9.0, 9.0], [0.0, 9.0]), ([2.0, 3.0, 4.0], [5.0, 5.0, 7.0])):
        state = trainer.refill(state, jax.random.key(1), labelled(rewards, costs), None)
        np.testing.assert_array_equal(
            state.reservoir.ranges, [np.min([rewards, costs], 1), np.max([rewards, costs], 1)]
        )
    np.testing.assert_array_equal(state.reservoir.seen.sum(1), [3, 3])


def test_the_networks_of_table_2():
    trainer = make_safedsr(SafeDsrConfig(), make_grid(GridConfig(), 1))
    state, _ = jax.eval_shape(trainer.init, jax.random.key(0), jnp.uint32(0), parse_scene("S.C.G").layout)
    learner = state.learner

    def shapes(net):
        return [layer.weight.shape for layer in net.layers]

    assert shapes(learner.encoder.phi) == shapes(learner.target_phi) == [(64, 6), (64, 64), (128, 64)]
    assert shapes(learner.encoder.decoder) == [(64, 128), (64, 64), (6, 64)]
    assert shapes(learner.successor) == shapes(learner.target_successor) == [(128, 128), (128, 128), (128, 128)]
    assert learner.weights.w_r.shape == (128,) and learner.weights.w_c.shape == (1, 128)
    assert state.ring.shape[0] == 25_000


def test_every_default_is_that_of_table_2():
    assert dataclasses.asdict(SafeDsrConfig()) == {
        "epsilon": {"epsilon_start": 1.0, "epsilon_end": 0.25, "epsilon_from": 20_000, "epsilon_to": 100_000},
        "multiplier": dataclasses.asdict(MultiplierConfig()),
        "terminal": "cut",
        "gamma": 0.99,
        "batch_size": 256,
        "buffer_size": 25_000,
        "learning_rate": 0.001,
        "train_start": 15_000,
        "train_every": 10,
        "update_steps": 10,
        "sync_every": 500,
        "freeze": 50_000,
        "pretrain": 0,
        "beta_r": 0.25,
        "beta_c": 10.0,
        "beta_g": 5.0,
        "biased_share": 0.2,
        "value_bins": 4,  # neither of the two is in the table
        "reservoir_size": 1000,
        "pretrain_labels": True,  # nor is one of these four: what the text says
        "unit_length": True,
        "weight_bias": False,
        "target_features": True,
        "features": 128,
        "phi_hidden": (64, 64),
        "decoder_hidden": (64, 64),
        "successor_hidden": (128, 128),
    }
