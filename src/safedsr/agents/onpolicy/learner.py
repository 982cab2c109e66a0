"""Updates after an epoch: critics on minibatches, the actor on the same minibatches or by one step on all samples."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from safedsr.agents.onpolicy import torch_start
from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.agents.onpolicy.problem import Batch, Pressure, Problem, divergence, log_probs, mixed, ratios
from safedsr.agents.onpolicy.steps import PolicyStep
from safedsr.agents.onpolicy.surrogates import Surrogate, average
from safedsr.core.nets import Mlp
from safedsr.envs.environment import Spec
from safedsr.errors import UserError
from safedsr.types import PyTree

TORCH_EPSILON = 1e-6  # as in PyTorch's clip_grad_norm_


class Nets(NamedTuple):
    """Actor and critics, or their optimisers' states; `cost_critics` holds J critics along its leading axis."""

    actor: Any
    reward_critic: Any
    cost_critics: Any


class ActorCritic(NamedTuple):
    """The networks and their optimisers' states."""

    nets: Nets
    optimizers: Nets


def _adam(config: OnPolicyConfig) -> Any:
    return optax.chain(clip_length(config.max_grad_norm), optax.scale_by_adam())


def clip_length(longest: float) -> optax.GradientTransformation:
    """Clips gradients as PyTorch does: by the factor longest / (norm + 1e-6), if it is below 1."""

    def shorten(slope: PyTree, params: PyTree) -> PyTree:
        del params
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(slope)))
        factor = jnp.minimum(longest / (length + TORCH_EPSILON), 1.0)
        return jax.tree.map(lambda x: factor * x, slope)

    return optax.stateless(shorten)


def init(key: Array, seed: Array, spec: Spec, config: OnPolicyConfig) -> ActorCritic:
    """Networks with tanh, initialised as PyTorch's layers; `seed` is the seed of PyTorch's random generator."""
    outputs = (spec.actions, 1, *[1] * spec.costs)
    keys = jax.random.split(key, len(outputs))
    inputs = spec.observations
    made = [Mlp((inputs, *config.hidden, n), key=k, activation=jnp.tanh) for n, k in zip(outputs, keys, strict=True)]
    actor, reward_critic, *cost_critics = torch_start.start(seed, made) if config.start == "torch" else made
    order = jnp.array(action_order(spec, config))
    actor = eqx.tree_at(
        lambda net: net.layers[-1], actor, replace_fn=lambda last: jax.tree.map(lambda x: x[order], last)
    )
    nets = Nets(actor, reward_critic, jax.tree.map(lambda *leaves: jnp.stack(leaves), *cost_critics))
    adam = _adam(config)
    states = Nets(adam.init(nets.actor), adam.init(nets.reward_critic), jax.vmap(adam.init)(nets.cost_critics))
    return ActorCritic(nets, states)


def action_order(spec: Spec, config: OnPolicyConfig) -> list[int]:
    """The output of PyTorch's initial actor that each action uses."""
    letters = [name[:1] for name in spec.action_names]
    if sorted(letters) == sorted(config.action_order):
        return [config.action_order.index(letter) for letter in letters]
    if config.action_order != OnPolicyConfig.action_order:
        raise UserError(
            f"action_order is '{config.action_order}', which is for environments whose actions are up, down, left and "
            "right; leave it out (the preset 'paper' sets it)"
        )
    return list(range(spec.actions))


def critic_loss(critic: Mlp, obs: Array, target: Array, weight: Array, config: OnPolicyConfig) -> Array:
    """Mean squared error, and an L2 penalty on all parameters."""
    squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(critic))
    return average((jax.vmap(critic)(obs)[:, 0] - target) ** 2, weight) + config.critic_l2 * squares


def _descend(slope: PyTree, net: PyTree, state: PyTree, rate: Any, config: OnPolicyConfig) -> tuple[PyTree, PyTree]:
    change, state = _adam(config).update(slope, state)
    return jax.tree.map(lambda p, d: p - rate * d, net, change), state


def learn_critics(learner: ActorCritic, part: Batch, weight: Array, config: OnPolicyConfig) -> ActorCritic:
    """One update of every critic on a minibatch."""

    def update(critic: Mlp, state: PyTree, target: Array) -> tuple[PyTree, PyTree]:
        slope = jax.grad(critic_loss)(critic, part.obs, target, weight, config)
        return _descend(slope, critic, state, config.critic_lr, config)

    nets, states = learner
    reward = update(nets.reward_critic, states.reward_critic, part.reward_target)
    cost = jax.vmap(update)(nets.cost_critics, states.cost_critics, part.cost_target.T)
    return ActorCritic(
        nets._replace(reward_critic=reward[0], cost_critics=cost[0]),
        states._replace(reward_critic=reward[1], cost_critics=cost[1]),
    )


def minibatches(key: Array, count: int, size: int) -> tuple[Array, Array]:
    """Shuffled row indices [batches, size] and their weights; the last batch is padded with rows of weight 0."""
    batches = -(-count // size)
    spare = batches * size - count
    rows = jnp.concatenate([jax.random.permutation(key, count), jnp.zeros(spare, jnp.int32)])
    weight = jnp.concatenate([jnp.ones(count), jnp.zeros(spare)])
    return rows.reshape(batches, size), weight.reshape(batches, size)


def take(batch: Batch, rows: Array) -> Batch:
    """Some rows of a batch."""
    return jax.tree.map(lambda x: x[rows], batch)


def learn_together(
    key: Array,
    learner: ActorCritic,
    batch: Batch,
    pressure: Pressure,
    surrogate: Surrogate,
    rate: Array,
    config: OnPolicyConfig,
) -> ActorCritic:
    """Passes over the samples, actor and critics on the same minibatches, until the KL divergence exceeds its limit."""
    old = log_probs(learner.nets.actor, batch.obs)

    def loss(actor: Mlp, part: Batch, weight: Array) -> Array:
        return surrogate(ratios(actor, part), part, pressure, weight, config)

    def update(learner: ActorCritic, xs: tuple[Array, Array]) -> tuple[ActorCritic, None]:
        rows, weight = xs
        part = take(batch, rows)
        learner = learn_critics(learner, part, weight, config)
        slope = jax.grad(loss)(learner.nets.actor, part, weight)
        actor, state = _descend(slope, learner.nets.actor, learner.optimizers.actor, rate, config)
        return ActorCritic(learner.nets._replace(actor=actor), learner.optimizers._replace(actor=state)), None

    def one_pass(carry: tuple[Array, Array, ActorCritic]) -> tuple[Array, Array, ActorCritic]:
        number, _, learner = carry
        xs = minibatches(jax.random.fold_in(key, number), len(batch.action), config.batch_size)
        learner, _ = jax.lax.scan(update, learner, xs)
        moved = divergence(old, log_probs(learner.nets.actor, batch.obs))
        far = (moved.sum() if config.kl_reduce == "sum" else moved.mean()) > config.target_kl
        return number + 1, far, learner

    start = (jnp.zeros((), jnp.int32), jnp.zeros((), bool), learner)
    return jax.lax.while_loop(lambda c: (c[0] < config.update_iters) & ~c[1], one_pass, start)[2]


def learn_apart(
    key: Array, learner: ActorCritic, batch: Batch, pressure: Pressure, step: PolicyStep, config: OnPolicyConfig
) -> ActorCritic:
    """One step of the actor on all samples, then passes over the samples for the critics only."""
    theta, rebuild = ravel_pytree(learner.nets.actor)
    old = jax.lax.stop_gradient(log_probs(learner.nets.actor, batch.obs))
    advantage = mixed(batch, pressure.share)
    problem = Problem(
        gain=lambda theta: jnp.mean(ratios(rebuild(theta), batch) * advantage),
        cost=lambda theta: jnp.mean(ratios(rebuild(theta), batch)[:, None] * batch.cost_advantage, 0),
        log_probs=lambda theta: log_probs(rebuild(theta), batch.obs),
        kl=lambda theta: divergence(old, log_probs(rebuild(theta), batch.obs)).mean(),
        excess=pressure.excess,
    )
    learner = learner._replace(nets=learner.nets._replace(actor=rebuild(step(theta, problem, config))))

    def update(learner: ActorCritic, xs: tuple[Array, Array]) -> tuple[ActorCritic, None]:
        rows, weight = xs
        return learn_critics(learner, take(batch, rows), weight, config), None

    def one_pass(learner: ActorCritic, key: Array) -> tuple[ActorCritic, None]:
        return jax.lax.scan(update, learner, minibatches(key, len(batch.action), config.batch_size))

    return jax.lax.scan(one_pass, learner, jax.random.split(key, config.update_iters))[0]
