"""An epoch of steps with the current policy, and the samples the learner makes of it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.onpolicy.advantages import center, gae, standardize
from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.agents.onpolicy.problem import Batch
from safedsr.core import normalizer
from safedsr.core.nets import Mlp
from safedsr.core.normalizer import Running
from safedsr.envs.grid import physics as grid
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout
from safedsr.types import Record


class Scales(NamedTuple):
    """The running statistics of what the learner sees."""

    obs: Running
    reward: Running
    cost: Running


class Window(NamedTuple):
    """The costs of the last finished episodes."""

    costs: Array  # [window, J]
    count: Array  # [] int32, how many there ever were


class Walker(NamedTuple):
    """Where a rollout stands."""

    env: grid.GridState
    seen: Array  # [2] the observation as the policy sees it
    ret: Array
    cost: Array  # [J] of the episode
    scales: Scales
    window: Window


class Sample(NamedTuple):
    """A step as the learner sees it."""

    obs: Array
    action: Array
    log_prob: Array
    reward: Array
    cost: Array
    next_obs: Array  # s′ before any reset
    terminated: Array
    done: Array


def init_scales(num_costs: int) -> Scales:
    """Nothing seen yet."""
    return Scales(normalizer.init((2,)), normalizer.init(()), normalizer.init((num_costs,)))


def init_window(num_costs: int, config: OnPolicyConfig) -> Window:
    """No episode yet."""
    return Window(jnp.zeros((config.window, num_costs)), jnp.zeros((), jnp.int32))


def mean_cost(window: Window, budget: Array) -> Array:
    """J_C [J]; before any episode has ended, the budget, so that nothing is steered by nothing."""
    filled = jnp.minimum(window.count, len(window.costs))
    return jnp.where(filled > 0, window.costs.sum(0) / jnp.maximum(filled, 1), budget)


def remember_cost(window: Window, cost: Array, done: Array) -> Window:
    """The window after an episode of that cost, if one is done."""
    written = window.costs.at[window.count % len(window.costs)].set(cost)
    return Window(jnp.where(done, written, window.costs), window.count + done)


def _maybe(use: bool, running: Running, x: Array) -> tuple[Running, Array]:
    return normalizer.push_and_apply(running, x) if use else (running, x)


def rollout(
    key: Array,
    actor: Mlp,
    scales: Scales,
    window: Window,
    layout: Layout,
    config: OnPolicyConfig,
    grid_config: GridConfig,
) -> tuple[Scales, Window, Sample, Record]:
    """`steps_per_epoch` steps from a fresh start; an episode cut by the end of the epoch before is forgotten."""
    reset_key, key = jax.random.split(key)
    env, obs = grid.reset(reset_key, layout, grid_config)
    obs_scale, seen = _maybe(config.normalize_obs, scales.obs, obs)
    nothing = jnp.zeros(len(layout.costs))
    start = Walker(env, seen, jnp.zeros(()), nothing, scales._replace(obs=obs_scale), window)

    def advance(w: Walker, key: Array) -> tuple[Walker, tuple[Sample, Record]]:
        action_key, env_key = jax.random.split(key)
        log_probs = jax.nn.log_softmax(actor(w.seen))
        action = jax.random.categorical(action_key, log_probs)
        env, out = grid.step(env_key, w.env, action, layout, grid_config)
        done = out.terminated | out.truncated
        obs_scale, seen = _maybe(config.normalize_obs, w.scales.obs, out.obs)
        # Where an episode ends, its last observation is one sample more.
        with_last, last = _maybe(config.normalize_obs, obs_scale, out.next_obs)
        obs_scale = jax.tree.map(lambda new, old: jnp.where(done, new, old), with_last, obs_scale)
        reward_scale, reward = _maybe(config.normalize_reward, w.scales.reward, out.reward)
        cost_scale, cost = _maybe(config.normalize_cost, w.scales.cost, config.cost_scale * out.cost)
        ret, total = w.ret + out.reward, w.cost + out.cost
        record = Record(done, out.terminated, w.env.time + 1, ret, total, out.next_obs)
        next_obs = jnp.where(done, last, seen)
        sample = Sample(w.seen, action, log_probs[action], reward, cost, next_obs, out.terminated, done)
        window = remember_cost(w.window, config.cost_scale * total, done)
        ret, total = jnp.where(done, 0.0, ret), jnp.where(done, 0.0, total)
        return Walker(env, seen, ret, total, Scales(obs_scale, reward_scale, cost_scale), window), (sample, record)

    end, (samples, records) = jax.lax.scan(advance, start, jax.random.split(key, config.steps_per_epoch))
    return end.scales, end.window, samples, records


def make_batch(samples: Sample, reward_critic: Mlp, cost_critics: Mlp, config: OnPolicyConfig) -> Batch:
    """Advantages and targets of an epoch; `cost_critics` holds J critics along its leading axis."""
    reward_value = jax.vmap(reward_critic)
    cost_value = jax.vmap(lambda critic, obs: jax.vmap(critic)(obs)[:, 0], (0, None))
    goes_on, done = 1.0 - samples.terminated, samples.done.astype(jnp.float32)

    def estimate(signal: Array, value: Array, next_value: Array) -> Array:
        return gae(signal, value, next_value * goes_on, done, config.gamma, config.gae_lambda)

    value, next_value = reward_value(samples.obs)[:, 0], reward_value(samples.next_obs)[:, 0]
    costs, next_costs = cost_value(cost_critics, samples.obs), cost_value(cost_critics, samples.next_obs)  # [J, T]
    reward_advantage = estimate(samples.reward, value, next_value)
    cost_advantage = jax.vmap(estimate)(samples.cost.T, costs, next_costs)
    return Batch(
        obs=samples.obs,
        action=samples.action,
        log_prob=samples.log_prob,
        reward_advantage=standardize(reward_advantage),
        cost_advantage=center(cost_advantage.T),
        reward_target=reward_advantage + value,
        cost_target=(cost_advantage + costs).T,
    )
