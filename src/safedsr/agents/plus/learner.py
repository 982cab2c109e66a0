"""SafeDSR-plus: successor features that say where one goes, learnt to be right where it matters.

A feature is a group of states (a cell of the map): M(s, a) holds how often, discounted, each group will be entered.
Rewards and costs are those of groups, so their weights are plain means, exact and ready for any cost map. What M is
trained for is first of all the value of its errors, M·w_r and M·w_c, and only then M itself. Losses are written for
one transition.
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
from safedsr.envs.environment import Features, Spec
from safedsr.types import PyTree, Transition, Values


class Kit(NamedTuple):
    """What is fixed when the agent is compiled."""

    config: SafeDsrPlusConfig
    groups: Features
    spec: Spec


class GroupNet(eqx.Module):
    """A number for every action and group: waves of the observation, a layer for all actions, one for each, groups."""

    trunk: Mlp
    last: eqx.nn.Linear

    def __init__(self, count: int, kit: Kit, *, key: Array) -> None:
        trunk_key, last_key = jax.random.split(key)
        config, spec = kit.config, kit.spec
        inputs = spec.observations * (1 + 2 * config.octaves)
        self.trunk = Mlp((inputs, config.trunk, spec.actions * config.head), key=trunk_key)
        # A last layer of zeros: nothing is expected at first, instead of something random of every group.
        self.last = jax.tree.map(jnp.zeros_like, eqx.nn.Linear(config.head, count, key=last_key))

    def hidden(self, obs: Array, frame: PyTree, groups: Features) -> Array:
        """What the last layer sees, [A, head]."""
        octaves = (self.trunk.layers[0].weight.shape[1] // len(obs) - 1) // 2
        turns = groups.units(frame, obs)[:, None] / 2.0 ** jnp.arange(1, octaves + 1)[None]  # wavelengths 2, 4, 8 …
        waves = 2 * jnp.pi * turns.ravel()
        inputs = jnp.concatenate([groups.scaled(frame, obs), jnp.sin(waves), jnp.cos(waves)])
        return jax.nn.relu(self.trunk(inputs)).reshape(-1, self.last.weight.shape[1])

    def __call__(self, obs: Array, action: Array, frame: PyTree, groups: Features) -> Array:
        """What it says of one action, [groups]."""
        return dense(self.last, self.hidden(obs, frame, groups)[action])


class Forecast(NamedTuple):
    """φ: in which group a step will end."""

    net: GroupNet
    frame: PyTree


def features(phi: Forecast, obs: Array, action: Array, groups: Features) -> Array:
    """φ(s, a): the chance of each group, [groups]."""
    return jax.nn.softmax(phi.net(obs, action, phi.frame, groups))


class PlusPolicy(NamedTuple):
    """What acting and adapting need."""

    phi: Forecast
    successor: GroupNet  # M
    weights: Weights


class PlusState(NamedTuple):
    """The networks, the target and the optimiser."""

    frame: PyTree
    phi: GroupNet
    successor: GroupNet
    target: GroupNet
    weights: Weights
    phi_optimizer: PyTree
    successor_optimizer: PyTree


def init(key: Array, params: PyTree, kit: Kit) -> PlusState:
    """M expects nothing, φ knows nothing."""
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
    """A learner that goes on from a policy, its optimisers anew."""
    (net, frame), successor, weights = policy
    return PlusState(frame, net, successor, successor, weights, adam(config).init(net), optimizer.init(successor))


def crop(policy: PlusPolicy, params: PyTree, groups: Features) -> PlusPolicy:
    """The policy for its own parameters alone, without the groups by which those were padded beside larger ones."""
    (net, frame), successor, weights = policy
    keep = groups.own(frame, params)

    def of(net: GroupNet) -> GroupNet:
        return eqx.tree_at(lambda n: n.last, net, jax.tree.map(lambda x: x[keep], net.last))

    weights = Weights(weights.w_r[keep], weights.w_c[:, keep])
    return PlusPolicy(Forecast(of(net), groups.frame(params)), of(successor), weights)


def adam(config: SafeDsrPlusConfig) -> Any:  # optax does not know modules as parameters
    """The optimiser of φ and M."""
    return optax.adam(config.learning_rate)


def group_means(reservoir: Reservoir, codec: Codec) -> Weights:
    """The mean reward and costs of what is remembered of each group; 0 where nothing is."""
    rows, seen = reservoir.rows[0], reservoir.seen[0]
    t = codec.unpack(rows.sum(1) / jnp.maximum(jnp.minimum(seen, rows.shape[1]), 1)[:, None])
    return Weights(t.reward, t.cost.T)


def scores(successor: GroupNet, weights: Weights, hidden: Array, lam: Array) -> Array:
    """Q - λ·K [A], Eq. (15), from what M's last layer sees; that layer is folded with the weights into one vector."""
    direction = weights.direction(lam)
    return hidden @ (direction @ successor.last.weight) + direction @ successor.last.bias  # type: ignore[operator]


def successor_target(s: PlusState, t: Transition, lam: Array, kit: Kit) -> Array:
    """The group that was entered, and what follows if some of the later actions are random."""
    config, actions = kit.config, kit.spec.actions
    hidden = s.target.hidden(t.next_obs, s.frame, kit.groups)
    best = jax.nn.one_hot(jnp.argmax(scores(s.target, s.weights, hidden, lam)), actions)
    chances = (1 - config.plan_epsilon) * best + config.plan_epsilon / actions
    entered = jax.nn.one_hot(kit.groups.index(s.frame, t.next_obs), len(s.weights.w_r))
    return entered + config.gamma * (1 - t.terminated) * dense(s.target.last, chances @ hidden)


def successor_loss(successor: GroupNet, s: PlusState, t: Transition, goal: Array, kit: Kit) -> Array:
    """What M's error is worth in reward and in costs, and a little of the error itself."""
    config = kit.config
    error = goal - successor(t.obs, t.action, s.frame, kit.groups)
    reward, cost = error @ s.weights.w_r, s.weights.w_c @ error
    return config.beta_r * reward**2 + config.beta_c * cost @ cost + config.beta_m * error @ error


def learn_successor(s: PlusState, batch: Transition, lam: Array, optimizer: Any, kit: Kit) -> tuple[PlusState, Array]:
    """One step for M."""
    goals = jax.vmap(successor_target, (None, 0, None, None))(s, batch, lam, kit)

    def loss(successor: GroupNet) -> Array:
        return jax.vmap(successor_loss, (None, None, 0, 0, None))(successor, s, batch, goals, kit).mean()

    value, slope = jax.value_and_grad(loss)(s.successor)
    successor, moments = descend(optimizer, slope, s.successor, s.successor_optimizer)
    return s._replace(successor=successor, successor_optimizer=moments), value


def learn_phi(s: PlusState, batch: Transition, kit: Kit) -> tuple[PlusState, Array]:
    """One step of cross-entropy for φ."""

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
    """All updates of one training; the weights are those of what is remembered."""
    del phase  # there is only one
    assert memory.reservoir is not None
    config = kit.config
    batches = replay.choose_biased(
        key, memory.reservoir, memory.filled, config.update_steps, config.batch_size, share=config.even_share
    )

    def update(s: PlusState, batch: Transition) -> tuple[PlusState, tuple[Array, Array]]:
        # The evenly drawn ones come last.
        s, phi_value = learn_phi(s, jax.tree.map(lambda x: x[-config.phi_batch :], batch), kit)
        s, value = learn_successor(s, batch, lam, adam(config), kit)
        return s, (phi_value, value)

    s = s._replace(weights=group_means(memory.reservoir, memory.codec))
    s, (phi_values, values) = jax.lax.scan(update, s, memory.codec.unpack(batches.rows(memory.ring)))
    return s, {"phi_loss": phi_values.mean(), "successor_loss": values.mean()}


def values(policy: PlusPolicy, obs: Array, lam: Array, groups: Features) -> Values:
    """Q, K and M of every action; who wants the score alone pays for nothing else."""
    hidden = policy.successor.hidden(obs, policy.phi.frame, groups)
    m = jax.vmap(partial(dense, policy.successor.last))(hidden)  # [A, groups]
    score = scores(policy.successor, policy.weights, hidden, lam)
    return Values(q=m @ policy.weights.w_r, k=m @ policy.weights.w_c.T, m=m, score=score)
