"""SafeDSR-plus: successor features over groups of states. It is not in the paper.

A feature is a group of states (a cell of the map): M(s, a) is the expected discounted number of visits to each group.
The weights w_r and w_c are the mean reward and costs of each group, so they need no gradient steps and fit any cost
map. The loss of M is mainly the squared errors of Q = M·w_r and K = M·w_c, with a small term for M itself. Losses are
written for one transition.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.safedsr.equations import Weights
from safedsr.agents.value_based.trainer import Memory
from safedsr.core import replay
from safedsr.core.nets import Mlp, dense, descend
from safedsr.core.replay import Codec, Reservoir
from safedsr.envs.environment import Groups, Spec
from safedsr.types import PyTree, Transition, Values


class Kit(NamedTuple):
    """Static arguments of the compiled functions: settings, groups of states, and the environment's spec."""

    config: SafeDsrPlusConfig
    groups: Groups
    spec: Spec


class GroupNet(eqx.Module):
    """An output for every action and group: sine and cosine inputs, one layer for all actions, then one for each."""

    trunk: Mlp
    last: eqx.nn.Linear

    def __init__(self, count: int, kit: Kit, *, key: Array) -> None:
        trunk_key, last_key = jax.random.split(key)
        config, spec = kit.config, kit.spec
        inputs = spec.observations * (1 + 2 * config.octaves)
        self.trunk = Mlp((inputs, config.trunk, spec.actions * config.head), key=trunk_key)
        # The last layer starts at 0, so that the first outputs are 0 instead of random.
        self.last = jax.tree.map(jnp.zeros_like, eqx.nn.Linear(config.head, count, key=last_key))

    def hidden(self, obs: Array, frame: PyTree, groups: Groups) -> Array:
        """The input of the last layer, [A, head]."""
        octaves = (self.trunk.layers[0].weight.shape[1] // len(obs) - 1) // 2
        turns = groups.units(frame, obs)[:, None] / 2.0 ** jnp.arange(1, octaves + 1)[None]  # wavelengths 2, 4, 8 …
        waves = 2 * jnp.pi * turns.ravel()
        inputs = jnp.concatenate([groups.scaled(frame, obs), jnp.sin(waves), jnp.cos(waves)])
        return jax.nn.relu(self.trunk(inputs)).reshape(-1, self.last.weight.shape[1])

    def __call__(self, obs: Array, action: Array, frame: PyTree, groups: Groups) -> Array:
        """The outputs for one action, [groups]."""
        return dense(self.last, self.hidden(obs, frame, groups)[action])


class Forecast(NamedTuple):
    """φ: predicts the group of s′."""

    net: GroupNet
    frame: PyTree


def features(phi: Forecast, obs: Array, action: Array, groups: Groups) -> Array:
    """φ(s, a): the probability that s′ is in each group, [groups]."""
    return jax.nn.softmax(phi.net(obs, action, phi.frame, groups))


class PlusPolicy(NamedTuple):
    """The networks and weights for acting and adaptation."""

    phi: Forecast
    successor: GroupNet  # M
    weights: Weights


class PlusState(NamedTuple):
    """The networks, the target network, the weights and the optimisers' states."""

    frame: PyTree
    phi: GroupNet
    successor: GroupNet
    target: GroupNet
    weights: Weights
    phi_optimizer: PyTree
    successor_optimizer: PyTree


def init(key: Array, params: PyTree, kit: Kit) -> PlusState:
    """The initial state: M is 0, φ is uniform over the groups."""
    count = kit.groups.count(params)
    phi_key, successor_key = jax.random.split(key)
    phi, successor = (GroupNet(count, kit, key=k) for k in (phi_key, successor_key))
    return PlusState(
        frame=kit.groups.frame(params),
        phi=phi,
        successor=successor,
        target=successor,
        weights=Weights(jnp.zeros(count), jnp.zeros((kit.spec.costs, count))),
        phi_optimizer=adam(kit.config).init(phi),
        successor_optimizer=adam(kit.config).init(successor),
    )


def go_on(policy: PlusPolicy, optimizer: Any, config: SafeDsrPlusConfig) -> PlusState:
    """A learner state that continues from a policy, with new optimiser states."""
    (net, frame), successor, weights = policy
    return PlusState(frame, net, successor, successor, weights, adam(config).init(net), optimizer.init(successor))


def crop(policy: PlusPolicy, params: PyTree, groups: Groups) -> PlusPolicy:
    """The policy without the groups of the padding, which is added if tasks of different sizes are trained together."""
    (net, frame), successor, weights = policy
    keep = groups.own(frame, params)

    def of(net: GroupNet) -> GroupNet:
        return eqx.tree_at(lambda n: n.last, net, jax.tree.map(lambda x: x[keep], net.last))

    weights = Weights(weights.w_r[keep], weights.w_c[:, keep])
    return PlusPolicy(Forecast(of(net), groups.frame(params)), of(successor), weights)


def adam(config: SafeDsrPlusConfig) -> Any:  # optax's types do not accept modules as parameters
    """The optimiser of φ and M."""
    return optax.adam(config.learning_rate)


def group_means(reservoir: Reservoir, codec: Codec) -> Weights:
    """w_r and w_c: the mean reward and costs of the stored transitions into each group; 0 if there are none."""
    rows, seen = reservoir.rows[0], reservoir.seen[0]
    t = codec.unpack(rows.sum(1) / jnp.maximum(jnp.minimum(seen, rows.shape[1]), 1)[:, None])
    return Weights(t.reward, t.cost.T)


def scores(successor: GroupNet, weights: Weights, hidden: Array, lam: Array) -> Array:
    """Q - λ·K [A], Eq. (15), from the input of M's last layer; the weights times that layer give one vector."""
    direction = weights.direction(lam)
    return hidden @ (direction @ successor.last.weight) + direction @ successor.last.bias  # type: ignore[operator]


def successor_target(s: PlusState, t: Transition, lam: Array, kit: Kit) -> Array:
    """The target of M: the group of s′ as a one-hot vector, plus γ·M(s′, a′), averaged over ε-greedy actions a′."""
    config, actions = kit.config, kit.spec.actions
    hidden = s.target.hidden(t.next_obs, s.frame, kit.groups)
    best = jax.nn.one_hot(jnp.argmax(scores(s.target, s.weights, hidden, lam)), actions)
    chances = (1 - config.plan_epsilon) * best + config.plan_epsilon / actions
    entered = jax.nn.one_hot(kit.groups.index(s.frame, t.next_obs), len(s.weights.w_r))
    return entered + config.gamma * (1 - t.terminated) * dense(s.target.last, chances @ hidden)


def successor_loss(successor: GroupNet, s: PlusState, t: Transition, goal: Array, kit: Kit) -> Array:
    """The squared errors of Q = M·w_r, of K = M·w_c and of M, weighted by β_r, β_c and `beta_m`."""
    config = kit.config
    error = goal - successor(t.obs, t.action, s.frame, kit.groups)
    reward, cost = error @ s.weights.w_r, s.weights.w_c @ error
    return config.beta_r * reward**2 + config.beta_c * cost @ cost + config.beta_m * error @ error


def learn_successor(s: PlusState, batch: Transition, lam: Array, optimizer: Any, kit: Kit) -> tuple[PlusState, Array]:
    """One gradient step for M."""
    goals = jax.vmap(successor_target, (None, 0, None, None))(s, batch, lam, kit)

    def loss(successor: GroupNet) -> Array:
        return jax.vmap(successor_loss, (None, None, 0, 0, None))(successor, s, batch, goals, kit).mean()

    value, slope = jax.value_and_grad(loss)(s.successor)
    successor, moments = descend(optimizer, slope, s.successor, s.successor_optimizer)
    return s._replace(successor=successor, successor_optimizer=moments), value


def learn_phi(s: PlusState, batch: Transition, kit: Kit) -> tuple[PlusState, Array]:
    """One gradient step for φ on the cross-entropy of the group of s′."""

    def loss(phi: GroupNet) -> Array:
        logits = jax.vmap(lambda obs, action: phi(obs, action, s.frame, kit.groups))(batch.obs, batch.action)
        entered = jax.vmap(kit.groups.index, (None, 0))(s.frame, batch.next_obs)
        return optax.softmax_cross_entropy_with_integer_labels(logits, entered).mean()

    value, slope = jax.value_and_grad(loss)(s.phi)
    phi, optimizer = descend(adam(kit.config), slope, s.phi, s.phi_optimizer)
    return s._replace(phi=phi, phi_optimizer=optimizer), value


def learn(
    s: PlusState, memory: Memory, lam: Array, key: Array, phase: str, kit: Kit
) -> tuple[PlusState, dict[str, Array]]:
    """One round of updates; w_r and w_c are computed first, from the reservoir."""
    del phase  # there is only one learning phase
    assert memory.reservoir is not None
    config = kit.config
    batches = replay.choose_biased(
        key, memory.reservoir, memory.filled, config.update_steps, config.batch_size, share=config.even_share
    )

    def update(s: PlusState, batch: Transition) -> tuple[PlusState, tuple[Array, Array]]:
        # φ learns from the end of the batch, where transitions are sampled uniformly over groups.
        s, phi_value = learn_phi(s, jax.tree.map(lambda x: x[-config.phi_batch :], batch), kit)
        s, value = learn_successor(s, batch, lam, adam(config), kit)
        return s, (phi_value, value)

    s = s._replace(weights=group_means(memory.reservoir, kit.spec.codec))
    s, (phi_values, values) = jax.lax.scan(update, s, memory.unpack(batches.rows(memory.ring)))
    return s, {"phi_loss": phi_values.mean(), "successor_loss": values.mean()}


def values(policy: PlusPolicy, obs: Array, lam: Array, groups: Groups) -> Values:
    """Q, K, M and score of every action; a compiled program computes only those that it uses."""
    hidden = policy.successor.hidden(obs, policy.phi.frame, groups)
    m = jax.vmap(partial(dense, policy.successor.last))(hidden)  # [A, groups]
    score = scores(policy.successor, policy.weights, hidden, lam)
    return Values(q=m @ policy.weights.w_r, k=m @ policy.weights.w_c.T, m=m, score=score)
