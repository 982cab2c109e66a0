from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from tiny import linear

from safedsr.agents.onpolicy import rollout
from safedsr.agents.onpolicy.baselines import BASELINES
from safedsr.agents.onpolicy.config import BY_GRADIENT, OnPolicyConfig
from safedsr.agents.onpolicy.controllers import barrier, lagrangian, pid, switch
from safedsr.agents.onpolicy.learner import clip_length, minibatches
from safedsr.agents.onpolicy.problem import divergence, log_probs
from safedsr.agents.onpolicy.rollout import Sample, init_walk, init_window, make_batch, mean_cost, remember_cost
from safedsr.agents.onpolicy.trust_region import conjugate_gradient, fisher_product, line_search
from safedsr.core import normalizer
from safedsr.core.nets import Mlp
from safedsr.envs.environment import Spec
from safedsr.errors import UserError
from safedsr.types import Seen

CONFIG = OnPolicyConfig(gamma=0.9, gae_lambda=0.8)


def advantages(signal, value, next_value, terminated, done):
    """Slow twin: the sum of discounted errors up to the end of the episode or the epoch."""
    error = signal + CONFIG.gamma * next_value * (1 - terminated) - value
    found, later = np.zeros_like(error), 0.0
    for t in reversed(range(len(error))):
        later = error[t] + (0.0 if done[t] else CONFIG.gamma * CONFIG.gae_lambda * later)
        found[t] = later
    return found


@pytest.mark.parametrize("seed", range(5))
def test_batch_equals_the_recursion_with_termination_truncation_and_cut(seed):
    rng, steps, num_costs = np.random.default_rng(seed), 40, 2
    obs, next_obs = rng.normal(size=(2, steps, 2))
    reward, cost = rng.normal(size=steps), rng.random((steps, num_costs))
    terminated = rng.random(steps) < 0.1
    done = terminated | (rng.random(steps) < 0.1)
    done[-1] = terminated[-1] = seed == 0  # else the epoch cuts the last episode
    weights = rng.normal(size=(1 + num_costs, 2))
    critics = [linear(weight[None], [0.5]) for weight in weights]
    cost_critics = jax.tree.map(lambda *leaves: jnp.stack(leaves), *critics[1:])
    numbers = (obs, np.zeros(steps, int), np.zeros(steps), reward, cost, next_obs)
    samples = Sample(*(jnp.asarray(x) for x in (*numbers, terminated, done)))
    batch = jax.jit(make_batch, static_argnums=3)(samples, critics[0], cost_critics, CONFIG)

    values, next_values = obs @ weights.T + 0.5, next_obs @ weights.T + 0.5
    signals = np.column_stack([reward, cost])
    columns = zip(signals.T, values.T, next_values.T, strict=True)
    found = np.column_stack([advantages(*column, terminated, done) for column in columns])
    np.testing.assert_allclose(batch.reward_target, (found + values)[:, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(batch.cost_target, (found + values)[:, 1:], rtol=1e-4, atol=1e-5)
    reward_advantage = found[:, 0]
    scaled = (reward_advantage - reward_advantage.mean()) / reward_advantage.std()
    np.testing.assert_allclose(batch.reward_advantage, scaled, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(batch.cost_advantage, found[:, 1:] - found[:, 1:].mean(0), rtol=1e-4, atol=1e-5)


@given(st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=20))
def test_normalizer_equals_numpy(samples):
    samples = np.array(samples)
    running = normalizer.init(())
    for x in samples:
        running, scaled = normalizer.push_and_apply(running, jnp.float32(x))
    want = (samples[-1] - samples.mean()) / max(samples.std(ddof=1), 0.01)
    np.testing.assert_allclose(running.mean, samples.mean(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scaled, np.clip(want, -5, 5), rtol=1e-3, atol=2e-2)


def test_normalizer_passes_the_first_sample_raw():
    _, scaled = normalizer.push_and_apply(normalizer.init((2,)), jnp.array([7.0, -30.0]))
    np.testing.assert_array_equal(scaled, [7, -30])


def test_normalizer_has_a_smallest_deviation_and_a_largest_value():
    running = normalizer.init(())
    for x in [0.0, 0.002, 0.004, 0.006]:
        running = normalizer.push(running, jnp.float32(x))
    np.testing.assert_allclose(normalizer.apply(running, jnp.float32(0.006)), 0.003 / 0.01, rtol=1e-4)
    assert normalizer.apply(running, jnp.float32(9)) == 5
    assert normalizer.apply(running, jnp.float32(-9)) == -5


def run(controller, costs, budget):
    """λ after each update."""
    state, found = controller.init(costs.shape[1]), []
    for j_c in costs:
        state = controller.update(state, jnp.asarray(j_c, jnp.float32), jnp.asarray(budget, jnp.float32))
        found.append(np.asarray(controller.lam(state)))
    return np.array(found)


def pid_by_hand(costs, budget):
    integral, error, level, past, found = 0.001, 0.0, 0.0, deque([0.0], maxlen=10), []
    for j_c in costs:
        integral = max(0.0, integral + 0.01 * (j_c - budget))
        error = 0.95 * error + 0.05 * (j_c - budget)
        level = 0.95 * level + 0.05 * j_c
        found.append(max(0.0, 0.1 * error + integral + 0.01 * max(0.0, level - past[0])))
        past.append(level)
    return found


def adam_by_hand(costs, budget):
    lam, mean, square, found = 0.001, 0.0, 0.0, []
    for t, j_c in enumerate(costs, 1):
        slope = budget - j_c
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        lam -= 0.035 * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
        lam = max(0.0, lam)
        found.append(lam)
    return found


@pytest.mark.parametrize(("make", "by_hand"), [(pid, pid_by_hand), (lagrangian, adam_by_hand)])
@pytest.mark.parametrize("seed", range(3))
def test_multipliers_equal_a_plain_transcription(make, by_hand, seed):
    rng = np.random.default_rng(seed)
    costs = rng.random((30, 2)) * np.linspace(60, 2, 30)[:, None]  # from far above both budgets to below
    found = run(make(OnPolicyConfig()), costs, (5.0, 20.0))
    for j, budget in enumerate((5.0, 20.0)):
        np.testing.assert_allclose(found[:, j], by_hand(costs[:, j], budget), rtol=1e-3, atol=1e-5)


def test_barrier_weighs_by_the_room_left():
    costs = np.array([[0.0], [4.5], [4.995], [5.0], [5.001], [50.0]])
    found = run(barrier(OnPolicyConfig()), costs, (5.0,))[:, 0]
    np.testing.assert_allclose(found, [0.002, 0.02, 1, 1, 1, 1], rtol=1e-4)  # 4.995: 0.01 / 0.005 is over the largest


def test_switch_turns_to_the_worst_cost_beyond_the_distance():
    controller = switch(OnPolicyConfig())
    costs = np.array([[0.0, 0.0], [7.0, 0.0], [7.01, 0.0], [7.5, 9.0], [9.0, 7.5]])
    found = run(controller, costs, (5.0, 5.0))
    np.testing.assert_array_equal(found, [[0, 0], [0, 0], [1, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(controller.share(jnp.array([0.0, 1.0])), [0, 1])


def test_fisher_product_equals_the_hessian():
    actor = Mlp((2, 3, 4), key=jax.random.key(0), activation=jnp.tanh)
    obs = jax.random.normal(jax.random.key(1), (10, 2))
    theta, rebuild = ravel_pytree(actor)
    old = log_probs(actor, obs)

    def kl(theta):
        return divergence(old, log_probs(rebuild(theta), obs)).mean()

    vector = jax.random.normal(jax.random.key(2), theta.shape)
    found = fisher_product(lambda theta: log_probs(rebuild(theta), obs), theta, damping=0.1)(vector)
    np.testing.assert_allclose(found, jax.jit(jax.hessian(kl))(theta) @ vector + 0.1 * vector, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_conjugate_gradient_equals_solve(seed):
    rng = np.random.default_rng(seed)
    root, b = rng.normal(size=(8, 8)), rng.normal(size=8)
    matrix = root @ root.T / 8 + np.eye(8)
    found = conjugate_gradient(lambda v: jnp.asarray(matrix) @ v, jnp.asarray(b), 12, epsilon=0.0)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, b), rtol=1e-3, atol=1e-4)


def test_conjugate_gradient_of_nothing_is_nothing():
    np.testing.assert_array_equal(conjugate_gradient(lambda v: v, jnp.zeros(3), 5, epsilon=0.0), np.zeros(3))


@pytest.mark.parametrize(("tries", "scale"), [(4, 0.0), (5, 0.8**4), (15, 0.8**4)])
def test_line_search_takes_the_first_accepted_or_none(tries, scale):
    direction = jnp.array([3.0, -4.0])
    step, found = line_search(lambda step: jnp.linalg.norm(step) < 2.1, direction, tries, 0.8)  # 0.8⁴ · 5 = 2.048
    np.testing.assert_allclose(step, scale * direction, rtol=1e-5)
    assert found == (scale > 0)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (7, 3), (6, 3), (50, 50), (50, 32)])
def test_minibatches_hold_every_row_once(count, size):
    rows, weight = (np.asarray(x) for x in minibatches(jax.random.key(count), count, size))
    assert rows.shape == weight.shape == (-(-count // size), size)
    np.testing.assert_array_equal(np.sort(rows[weight == 1]), np.arange(count))
    assert weight.sum() == count
    assert np.isin(weight, (0, 1)).all()
    assert (rows < count).all()


@pytest.mark.parametrize("episodes", [0, 2, 3, 8])
def test_mean_cost_is_that_of_the_last_finished_episodes(episodes):
    costs = np.random.default_rng(0).random((episodes, 2)).astype(np.float32)
    window, budget = init_window(2, OnPolicyConfig(window=3)), jnp.array([5.0, 6.0])
    for cost in costs:
        window = remember_cost(window, jnp.array([99.0, 99.0]), jnp.array(False))  # not over yet
        window = remember_cost(window, jnp.asarray(cost), jnp.array(True))
    want = costs[-3:].mean(0) if episodes else budget
    np.testing.assert_allclose(mean_cost(window, budget), want, rtol=1e-5)


def test_the_last_observation_is_counted_before_the_next_start():
    """Statistics as OmniSafe has them: s′ of every step, then, where an episode ended, the start of the next one."""
    spec, config = Spec(1, 2, 1), OnPolicyConfig()
    walk = rollout.begin(init_walk(spec, config), jnp.array([5.0]), config)
    pushed = [5.0]
    for obs, next_obs, start in ((5.0, 7.0, 7.0), (7.0, 9.0, -4.0), (-4.0, 0.0, 0.0)):
        looked = rollout.look(walk.scales.obs, jnp.array([obs]), config)
        done = next_obs != start
        flags = {name: jnp.asarray(done) for name in ("terminated", "success", "done")}
        seen = Seen(
            obs=jnp.array([obs]),
            action=jnp.int32(1),
            reward=jnp.float32(0),
            cost=jnp.zeros(1),
            next_obs=jnp.array([next_obs]),
            start=jnp.array([start]),
            total=jnp.zeros(1),
            ret=jnp.zeros(()),
            time=jnp.int32(1),
            last=jnp.array(False),
            **flags,
        )
        walk, sample = rollout.observe(walk, seen.action, jnp.float32(0), looked, seen, config)
        pushed.append(next_obs)
        scaled = (next_obs - np.mean(pushed)) / np.std(pushed, ddof=1)
        np.testing.assert_allclose(sample.next_obs[0], scaled, rtol=1e-5)
        pushed += [start] if done else []
        assert int(walk.scales.obs.count) == len(pushed)
        np.testing.assert_allclose(walk.scales.obs.mean[0], np.mean(pushed), rtol=1e-5)
        np.testing.assert_array_equal(sample.obs, looked)


@pytest.mark.parametrize("length", [3.0, 39.0, 41.0, 500.0])
def test_gradients_are_shortened_as_pytorch_does(length):
    slope = {"one": jnp.array([0.6, 0.0]) * length, "other": jnp.array([[0.8]]) * length}
    clip = clip_length(40.0)
    found, _ = clip.update(slope, clip.init(slope))
    factor = min(1.0, 40.0 / (length + 1e-6))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, factor * b, rtol=1e-6), found, slope)


def test_a_direction_that_is_not_finite_gives_no_step():
    step, found = line_search(lambda step: jnp.isfinite(step).all(), jnp.array([jnp.nan, 1.0]), 5, 0.5)
    assert not found and not np.asarray(step).any()


def test_a_run_may_not_outlast_its_learning_rate():
    OnPolicyConfig(decay_steps=1000).check_steps(1000, "ppo")
    OnPolicyConfig(decay_steps=0).check_steps(2000, "ppo")
    OnPolicyConfig(decay_steps=1000).check_steps(2000, "trpo")  # it has no such rate
    with pytest.raises(
        UserError, match=r"^decay_steps is 1000; after them the learning rate is 0, and the run has 2000"
    ):
        OnPolicyConfig(decay_steps=1000).check_steps(2000, "ppo")


def test_the_rows_that_use_a_learning_rate_are_known():
    assert set(BY_GRADIENT) == {name for name, row in BASELINES.items() if row.surrogate}
