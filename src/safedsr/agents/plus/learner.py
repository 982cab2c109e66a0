"""SafeDSR-plus: successor features over codes of states, the reward and the costs. It is not in the paper.

The features of a step are the code of s′ as a one-hot vector (its cell on the map, or the nearest of some points), its
reward and its costs. So M(s, a) is the expected discounted number of visits to each code, and its last rows are Q and
K themselves, in units of rewards and costs. The code rows express any other cost. Losses are written for one
transition.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.safedsr.equations import Weights
from safedsr.agents.value_based.trainer import Memory
from safedsr.core import replay
from safedsr.core.nets import Mlp, dense, descend
from safedsr.core.replay import Codec, Reservoir
from safedsr.core.units import Units, known, ones
from safedsr.envs.environment import Groups, Spec
from safedsr.types import PyTree, Transition, Values

CANDIDATES = 16  # rows that are looked at for each one that changed nothing


class Kit(NamedTuple):
    """Static arguments of the compiled functions: settings, codes of states, and the environment's spec."""

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
    """φ: predicts the code of s′."""

    net: GroupNet
    frame: PyTree


def features(phi: Forecast, obs: Array, action: Array, groups: Groups) -> Array:
    """φ(s, a): the probability of each code of s′, [codes]."""
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
    novelty: Array | None = None  # [codes] 1/√(1 + visits), if the agent explores by it
    bonus: Array | None = None  # [] its weight in the score; 0 from the first success on

    @property
    def codes(self) -> int:
        """The number of codes."""
        return self.phi.last.weight.shape[0]

    def direction(self, lam: Array) -> Array:
        """The weights of the score [d]: those of Q - λ·K and, while the agent explores, of the novelty."""
        direction = self.weights.direction(lam)
        return direction if self.bonus is None else direction.at[self.codes].add(self.bonus)


def init(key: Array, params: PyTree, kit: Kit) -> PlusState:
    """The initial state: M is 0, φ is uniform over the codes."""
    codes = kit.groups.count(params)
    explores = kit.config.bonus > 0 and kit.spec.success
    count = codes + explores + (1 + kit.spec.costs if kit.config.outcomes else 0)
    phi_key, successor_key = jax.random.split(key)
    phi, successor = GroupNet(codes, kit, key=phi_key), GroupNet(count, kit, key=successor_key)
    return PlusState(
        frame=kit.groups.frame(params),
        phi=phi,
        successor=successor,
        target=successor,
        weights=Weights(jnp.zeros(count), jnp.zeros((kit.spec.costs, count))),
        phi_optimizer=adam(kit.config).init(phi),
        successor_optimizer=adam(kit.config).init(successor),
        novelty=jnp.ones(codes) if explores else None,
        bonus=jnp.float32(kit.config.bonus) if explores else None,
    )


def go_on(policy: PlusPolicy, optimizer: Any, units: Units, kit: Kit) -> PlusState:
    """A learner state that continues from a policy, with new optimiser states; see `with_rows`."""
    (net, frame), successor, weights = with_rows(policy, units, kit)
    return PlusState(frame, net, successor, successor, weights, adam(kit.config).init(net), optimizer.init(successor))


def with_rows(policy: PlusPolicy, units: Units | None, kit: Kit) -> PlusPolicy:
    """The same policy with rows of Q and K in M for its own reward and costs, so that its weights are units again."""
    if not kit.config.outcomes:
        return policy
    assert units is not None
    weights, codes = policy.weights, codes_of(policy)
    rows = jnp.concatenate([pure(weights.w_r, units.reward)[None], pure(weights.w_c, units.cost[:, None])])
    last = jax.tree.map(lambda x: jnp.concatenate([x[:codes], rows @ x]), policy.successor.last)
    successor = eqx.tree_at(lambda n: n.last, policy.successor, last)
    return policy._replace(successor=successor, weights=unit_weights(units, codes + len(rows)))


def codes_of(policy: PlusPolicy) -> int:
    """The number of codes."""
    return policy.phi.net.last.weight.shape[0]


def crop(policy: PlusPolicy, params: PyTree, kit: Kit) -> PlusPolicy:
    """The policy without the codes of the padding, which is added if tasks of different sizes are trained together."""
    (net, frame), successor, weights = policy
    keep = kit.groups.own(frame, params)
    rows = np.concatenate([keep, np.arange(codes_of(policy), len(weights.w_r))])

    def of(net: GroupNet, keep: np.ndarray) -> GroupNet:
        return eqx.tree_at(lambda n: n.last, net, jax.tree.map(lambda x: x[keep], net.last))

    frame = frame if kit.groups.grow else kit.groups.frame(params)
    weights = Weights(weights.w_r[rows], weights.w_c[:, rows])
    return PlusPolicy(Forecast(of(net, keep), frame), of(successor, rows), weights)


def adam(config: SafeDsrPlusConfig) -> Any:  # optax's types do not accept modules as parameters
    """The optimiser of φ and M."""
    return optax.adam(config.learning_rate)


def group_means(reservoir: Reservoir, codec: Codec) -> Weights:
    """w_r and w_c: the mean reward and costs of the stored transitions into each group; 0 if there are none."""
    rows, filled = reservoir.rows[0], replay.filled_slots(reservoir)[0]
    t = codec.unpack(jnp.where(filled[..., None], rows, 0.0).sum(1) / jnp.maximum(filled.sum(1), 1)[:, None])
    return Weights(t.reward, t.cost.T)


def unit_weights(units: Units, count: int) -> Weights:
    """The weights if reward and costs are the last of `count` features: their units there (1 if unknown), else 0."""
    costs = len(units.cost)
    first = count - costs - 1
    reward, cost = map(known, units)
    return Weights(
        reward * jax.nn.one_hot(first, count),
        cost[:, None] * jax.nn.one_hot(first + 1 + jnp.arange(costs), count),
    )


def in_units(s: PlusState, units: Units) -> PlusState:
    """The state with its rows of reward and costs in other units; Q and K are the same as before."""
    weights = unit_weights(units, len(s.weights.w_r))
    old, new = (w.w_r + w.w_c.sum(0) for w in (s.weights, weights))
    factor = jnp.where((old > 0) & (new > 0), old / jnp.where(new > 0, new, 1.0), 1.0)  # 1 for the other rows

    def of(net: GroupNet) -> GroupNet:
        last = jax.tree.map(lambda x: x * factor.reshape(-1, *[1] * (x.ndim - 1)), net.last)
        return eqx.tree_at(lambda n: n.last, net, last)

    return s._replace(successor=of(s.successor), target=of(s.target), weights=weights)


def scores(successor: GroupNet, hidden: Array, direction: Array) -> Array:
    """Q - λ·K [A], Eq. (15), from the input of M's last layer; `direction` times that layer is one vector."""
    return hidden @ (direction @ successor.last.weight) + direction @ successor.last.bias  # type: ignore[operator]


def outcome(s: PlusState, t: Transition, units: Units, kit: Kit) -> Array:
    """The features of a transition [d]: the code of s′ as a one-hot vector, and reward and costs in their units."""
    code = kit.groups.index(s.frame, t.next_obs)
    parts = [jax.nn.one_hot(code, s.codes)]
    if s.novelty is not None:
        parts.append(s.novelty[code][None])
    if kit.config.outcomes:
        parts += [pure(t.reward, units.reward)[None], pure(t.cost, units.cost)]
    return jnp.concatenate(parts)


def pure(value: Array, unit: Array) -> Array:
    """A value in its unit."""
    return value / known(unit)


def successor_target(s: PlusState, t: Transition, lam: Array, units: Units, kit: Kit) -> Array:
    """The target of M: the features of the transition, plus γ·M(s′, a′), averaged over ε-greedy actions a′."""
    config, actions = kit.config, kit.spec.actions
    hidden = s.target.hidden(t.next_obs, s.frame, kit.groups)
    best = jax.nn.one_hot(jnp.argmax(scores(s.target, hidden, s.direction(lam))), actions)
    chances = (1 - config.plan_epsilon) * best + config.plan_epsilon / actions
    return outcome(s, t, units, kit) + config.gamma * (1 - t.terminated) * dense(s.target.last, chances @ hidden)


def cost_weights(lam: Array, units: Units, config: SafeDsrPlusConfig) -> Array:
    """The loss weights of K [J]; they grow with λ², because an error of K enters the score times λ."""
    start = config.multiplier.lam_start
    growth = jnp.maximum(lam / units.lam / start, 1.0) if start else jnp.ones_like(lam)
    return config.beta_c * growth**2


def successor_loss(
    successor: GroupNet, s: PlusState, t: Transition, goal: Array, lam: Array, units: Units, kit: Kit
) -> Array:
    """The squared errors of Q and K in their units and of M's visits, weighted by β_r, β_c and `beta_m`."""
    config = kit.config
    error = goal - successor(t.obs, t.action, s.frame, kit.groups)
    reward, cost = pure(error @ s.weights.w_r, units.reward), pure(s.weights.w_c @ error, units.cost)
    visits = error[: s.codes]
    costs = cost_weights(lam, units, config) @ cost**2
    loss = config.beta_r * reward**2 + costs + config.beta_m * visits @ visits
    return loss if s.bonus is None else loss + config.beta_r * (s.bonus * error[s.codes]) ** 2


def learn_successor(
    s: PlusState, batch: Transition, lam: Array, units: Units, optimizer: Any, kit: Kit
) -> tuple[PlusState, Array]:
    """One gradient step for M."""
    goals = jax.vmap(lambda t: successor_target(s, t, lam, units, kit))(batch)

    def loss(successor: GroupNet) -> Array:
        return jax.vmap(lambda t, goal: successor_loss(successor, s, t, goal, lam, units, kit))(batch, goals).mean()

    value, slope = jax.value_and_grad(loss)(s.successor)
    successor, moments = descend(optimizer, slope, s.successor, s.successor_optimizer)
    return s._replace(successor=successor, successor_optimizer=moments), value


def learn_phi(s: PlusState, batch: Transition, kit: Kit) -> tuple[PlusState, Array]:
    """One gradient step for φ on the cross-entropy of the code of s′."""

    def loss(phi: GroupNet) -> Array:
        logits = jax.vmap(lambda obs, action: phi(obs, action, s.frame, kit.groups))(batch.obs, batch.action)
        entered = jax.vmap(kit.groups.index, (None, 0))(s.frame, batch.next_obs)
        return optax.softmax_cross_entropy_with_integer_labels(logits, entered).mean()

    value, slope = jax.value_and_grad(loss)(s.phi)
    phi, optimizer = descend(adam(kit.config), slope, s.phi, s.phi_optimizer)
    return s._replace(phi=phi, phi_optimizer=optimizer), value


def choose_rows(key: Array, memory: Memory, kit: Kit) -> Array:
    """Batches [updates, batch, width]: rows that changed nothing, other rows of the ring, and rows even over codes.

    Rows that changed nothing are few, and yet decide whether a greedy agent goes on where it pushes against a wall.
    """
    assert memory.reservoir is not None
    config, codec = kit.config, kit.spec.codec
    batches, size = config.update_steps, config.batch_size
    rows = replay.choose_biased(key, memory.reservoir, memory.filled, batches, size, share=config.even_share).rows(
        memory.ring
    )
    idle = round(size * config.idle_share)
    if not idle:
        return rows
    places = replay.choose(jax.random.fold_in(key, 0), memory.filled, (batches, CANDIDATES * idle))

    def first_idle(candidates: Array) -> Array:
        t = codec.unpack(candidates)
        moved = (t.obs != t.next_obs).any(-1)
        return candidates[jnp.argsort(moved)[:idle]]

    return jnp.concatenate([jax.vmap(first_idle)(memory.ring[places]), rows[:, idle:]], 1)


def learn(
    s: PlusState, memory: Memory, lam: Array, key: Array, phase: str, kit: Kit
) -> tuple[PlusState, dict[str, Array]]:
    """One round of updates; w_r and w_c are set first: the units, or the means of each code from the reservoir."""
    del phase  # there is only one learning phase
    assert memory.reservoir is not None
    config, units = kit.config, memory.units or ones(kit.spec.costs)

    def update(s: PlusState, batch: Transition) -> tuple[PlusState, tuple[Array, Array]]:
        # φ learns from the end of the batch, where transitions are sampled uniformly over codes.
        s, phi_value = learn_phi(s, jax.tree.map(lambda x: x[-config.phi_batch :], batch), kit)
        s, value = learn_successor(s, batch, lam, units, adam(config), kit)
        return s, (phi_value, value)

    if s.bonus is not None:
        novelty = 1 / jnp.sqrt(1.0 + memory.reservoir.seen[0])
        s = s._replace(novelty=novelty, bonus=jnp.where(memory.found, 0.0, config.bonus))
    if config.outcomes:
        s = in_units(s, units)
    else:
        s = s._replace(weights=group_means(memory.reservoir, kit.spec.codec))
    s, (phi_values, values) = jax.lax.scan(update, s, memory.unpack(choose_rows(key, memory, kit)))
    return s, {"phi_loss": phi_values.mean(), "successor_loss": values.mean()}


def values(policy: PlusPolicy, obs: Array, lam: Array, groups: Groups) -> Values:
    """Q, K, M and score of every action; a compiled program computes only those that it uses."""
    hidden = policy.successor.hidden(obs, policy.phi.frame, groups)
    m = jax.vmap(partial(dense, policy.successor.last))(hidden)  # [A, groups]
    score = scores(policy.successor, hidden, policy.weights.direction(lam))
    return Values(q=m @ policy.weights.w_r, k=m @ policy.weights.w_c.T, m=m, score=score)
