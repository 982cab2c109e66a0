"""Rollouts of an epoch: running statistics, samples, and the batch that the learner gets."""

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
from safedsr.core.replay import counted
from safedsr.envs.environment import Spec
from safedsr.types import Seen


class Scales(NamedTuple):
    """Running statistics for the normalisation of observations, rewards and costs."""

    obs: Running
    reward: Running
    cost: Running


class Window(NamedTuple):
    """The costs of the last finished episodes."""

    costs: Array  # [window, J]
    count: Array  # [] int32, number of finished episodes so far


class Walk(NamedTuple):
    """The statistics that are updated during an epoch."""

    scales: Scales
    window: Window


class Sample(NamedTuple):
    """One step with normalised observations, reward and costs."""

    obs: Array
    action: Array
    log_prob: Array
    reward: Array
    cost: Array
    next_obs: Array  # s′ before any reset
    terminated: Array
    done: Array  # the episode ends here, or the samples of this copy of the environment do


def pack(sample: Sample) -> Array:
    """A sample as a row."""
    single = jnp.stack([sample.action.astype(jnp.float32), sample.log_prob, sample.reward])
    flags = jnp.stack([sample.terminated, sample.done]).astype(jnp.float32)
    return jnp.concatenate([single, flags, sample.obs, sample.next_obs, sample.cost])


def unpack(rows: Array, spec: Spec) -> Sample:
    """The samples of rows [T, …]."""
    n = spec.observations
    if rows.shape[-1] != 5 + 2 * n + spec.costs:
        raise ValueError(f"samples of {rows.shape[-1]} numbers where {n} observations and {spec.costs} costs need more")
    return Sample(
        obs=rows[:, 5 : 5 + n],
        action=rows[:, 0].astype(jnp.int32),
        log_prob=rows[:, 1],
        reward=rows[:, 2],
        cost=rows[:, 5 + 2 * n :],
        next_obs=rows[:, 5 + n : 5 + 2 * n],
        terminated=rows[:, 3],
        done=rows[:, 4],
    )


def init_walk(spec: Spec, config: OnPolicyConfig) -> Walk:
    """Statistics before the first step."""
    scales = Scales(normalizer.init((spec.observations,)), normalizer.init(()), normalizer.init((spec.costs,)))
    return Walk(scales, init_window(spec.costs, config))


def init_window(num_costs: int, config: OnPolicyConfig) -> Window:
    """A window without episodes."""
    return Window(jnp.zeros((config.window, num_costs)), jnp.zeros((), jnp.int32))


def mean_cost(window: Window, budget: Array) -> Array:
    """J_C [J]; the budget before the first episode has ended, so that the excess J_C - b is 0."""
    filled = jnp.minimum(window.count, len(window.costs))
    return jnp.where(filled > 0, window.costs.sum(0) / jnp.maximum(filled, 1), budget)


def remember_cost(window: Window, cost: Array, done: Array) -> Window:
    """Add the cost of an episode to the window, if the episode is done."""
    written = window.costs.at[window.count % len(window.costs)].set(cost)
    return Window(jnp.where(done, written, window.costs), counted(window.count, done, len(window.costs)))


def _maybe(use: bool, running: Running, x: Array) -> tuple[Running, Array]:
    return normalizer.push_and_apply(running, x) if use else (running, x)


def begin(walk: Walk, obs: Array, config: OnPolicyConfig) -> Walk:
    """Start an epoch with a new episode; an episode that the end of the last epoch cut is not continued."""
    obs_scale, _ = _maybe(config.normalize_obs, walk.scales.obs, obs)
    return walk._replace(scales=walk.scales._replace(obs=obs_scale))


def look(obs_scale: Running, obs: Array, config: OnPolicyConfig) -> Array:
    """The observation as input of the policy, normalised if the settings say so."""
    return normalizer.apply(obs_scale, obs) if config.normalize_obs else obs


def observe(
    walk: Walk, action: Array, log_prob: Array, obs: Array, seen: Seen, config: OnPolicyConfig
) -> tuple[Walk, Sample]:
    """The statistics after a step, and the sample of the step; `obs` was the input of the policy."""
    ended, next_obs = _maybe(config.normalize_obs, walk.scales.obs, seen.next_obs)
    # At the end of an episode, the start of the next episode is one more sample of the statistics, after s′.
    restarted, _ = _maybe(config.normalize_obs, ended, seen.start)
    obs_scale = jax.tree.map(lambda new, old: jnp.where(seen.done, new, old), restarted, ended)
    reward_scale, reward = _maybe(config.normalize_reward, walk.scales.reward, seen.reward)
    cost_scale, cost = _maybe(config.normalize_cost, walk.scales.cost, config.cost_scale * seen.cost)
    sample = Sample(obs, action, log_prob, reward, cost, next_obs, seen.terminated, seen.done | seen.last)
    window = remember_cost(walk.window, config.cost_scale * seen.total, seen.done)
    return Walk(Scales(obs_scale, reward_scale, cost_scale), window), sample


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
