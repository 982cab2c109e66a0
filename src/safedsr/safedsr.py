"""SafeDSR (Alg. 2): successor features M, and rewards and costs that are linear in the features φ.

Losses are written for one transition; the caller vmaps and averages. Nothing here differentiates M's loss in φ.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from safedsr import replay
from safedsr.config import GridConfig, SafeDsrConfig
from safedsr.grid import NUM_ACTIONS
from safedsr.layout import Layout
from safedsr.nets import Mlp, descend, mean_square, pair, unit, weight_matrix
from safedsr.pretrain import pretrain
from safedsr.replay import Biased
from safedsr.types import PyTree, Trainer, Transition, Values
from safedsr.value_based import Learner, Memory, make_trainer, remembered


class Phi(Mlp):
    """φ."""

    def __init__(self, sizes: Sequence[int], *, key: Array) -> None:
        super().__init__(sizes, key=key)

    def features(self, obs: Array, action: Array) -> Array:
        """φ(s, a)."""
        return features(self, obs, action)


class Encoder(NamedTuple):
    """What t_freeze freezes."""

    phi: Phi
    decoder: Mlp  # g


class Weights(NamedTuple):
    """What turns features into reward and costs."""

    w_r: Array  # [d]
    w_c: Array  # [J, d]


class DsrPolicy(NamedTuple):
    """What acting needs."""

    phi: Phi
    successor: Mlp  # M
    weights: Weights


class DsrState(NamedTuple):
    """The networks, their targets and the optimisers."""

    encoder: Encoder
    weights: Weights
    successor: Mlp
    target_phi: Phi
    target_successor: Mlp
    encoder_optimizer: PyTree
    weights_optimizer: PyTree
    successor_optimizer: PyTree


def features(phi: Mlp, obs: Array, action: Array) -> Array:
    """φ(s, a), of length 1."""
    return unit(phi(pair(obs, action)))


def all_features(phi: Mlp, obs: Array) -> Array:
    """φ(s, ·) [A, d]. The first layer is split: what the state adds is made once, what an action adds is a column."""
    first = phi.layers[0]
    weight, bias = first.weight, first.bias
    assert bias is not None
    inputs = (weight[:, : len(obs)] @ obs + bias)[None] + weight[:, len(obs) :].T  # [A, n]
    return jax.vmap(lambda x: unit(phi.after_first(x)))(inputs)


def feature_loss(encoder: Encoder, weights: Weights, t: Transition, config: SafeDsrConfig) -> Array:
    """Eq. (14): what φ, g, w_r and w_c learn."""
    phi = features(encoder.phi, t.obs, t.action)
    rebuilt = mean_square(pair(t.obs, t.action) - encoder.decoder(phi))
    return weights_loss(weights, phi, t, config) + config.beta_g * rebuilt


def weights_loss(weights: Weights, phi: Array, t: Transition, config: SafeDsrConfig) -> Array:
    """Eq. (14) without the reconstruction: all that is left to learn once φ is frozen."""
    reward = (t.reward - phi @ weights.w_r) ** 2
    cost = mean_square(t.cost - weights.w_c @ phi)  # Eq. (12)
    return config.beta_r * reward + config.beta_c * cost


def scores(successor: Mlp, weights: Weights, phi: Array, lam: Array) -> Array:
    """Q - λ·K from features [A, d]: Eq. (15) without b, which moves all actions alike.

    M's last layer is linear, so it is folded with the weights into one vector instead of being multiplied out.
    """
    direction = weights.w_r - lam @ weights.w_c  # [d]
    last = successor.layers[-1]
    return jax.vmap(successor.hidden)(phi) @ (direction @ last.weight) + direction @ last.bias  # type: ignore[operator]


def successor_target(
    target_successor: Mlp, phi: Array, next_phi: Array, best: Array, terminated: Array, config: SafeDsrConfig
) -> Array:
    """Alg. 2's M_target, from target features φ_prev(s, a) [d] and φ_prev(s′, ·) [A, d] and the best next action."""
    goes_on = 1 - terminated if config.terminal == "cut" else 1.0
    return phi + config.gamma * goes_on * target_successor(next_phi[best])


def successor_loss(successor: Mlp, phi: Array, goal: Array) -> Array:
    """Eq. (11), given φ(s, a) and the target: only M is differentiated."""
    return mean_square(goal - successor(phi))


class Batch(NamedTuple):
    """What one successor update needs: transitions, their features, and the target network's features."""

    t: Transition
    phi: Array  # [n, d] φ(s, a)
    next_phi: Array  # [n, A, d] φ(s′, ·)
    target_phi: Array  # [n, d]
    target_next_phi: Array  # [n, A, d]


def _adam(config: SafeDsrConfig) -> Any:  # optax does not know modules as parameters
    return optax.adam(config.learning_rate)


def init(key: Array, num_costs: int, config: SafeDsrConfig) -> DsrState:
    """Everything with random weights, targets equal to what they follow."""
    adam = _adam(config)
    phi_key, decoder_key, successor_key, r_key, c_key = jax.random.split(key, 5)
    d, inputs = config.features, 2 + NUM_ACTIONS
    encoder = Encoder(
        Phi((inputs, *config.phi_hidden, d), key=phi_key),
        Mlp((d, *config.decoder_hidden, inputs), key=decoder_key),
    )
    weights = Weights(weight_matrix((d,), key=r_key), weight_matrix((num_costs, d), key=c_key))
    successor = Mlp((d, *config.successor_hidden, d), key=successor_key)
    return DsrState(
        encoder=encoder,
        weights=weights,
        successor=successor,
        target_phi=encoder.phi,
        target_successor=successor,
        encoder_optimizer=adam.init(encoder),
        weights_optimizer=adam.init(weights),
        successor_optimizer=adam.init(successor),
    )


def learn_features(s: DsrState, batch: Transition, config: SafeDsrConfig) -> tuple[DsrState, Array]:
    """One step on Eq. (14) for φ, g, w_r and w_c."""

    def loss(both: tuple[Encoder, Weights]) -> Array:
        return jax.vmap(feature_loss, (None, None, 0, None))(*both, batch, config).mean()

    value, (encoder_slope, weights_slope) = jax.value_and_grad(loss)((s.encoder, s.weights))
    encoder, optimizer = descend(_adam(config), encoder_slope, s.encoder, s.encoder_optimizer)
    return _step_weights(s._replace(encoder=encoder, encoder_optimizer=optimizer), weights_slope, config), value


def learn_weights(s: DsrState, batch: Transition, phi: Array, config: SafeDsrConfig) -> tuple[DsrState, Array]:
    """One step on Eq. (14) for w_r and w_c alone, given φ(s, a)."""

    def loss(weights: Weights) -> Array:
        return jax.vmap(weights_loss, (None, 0, 0, None))(weights, phi, batch, config).mean()

    value, slope = jax.value_and_grad(loss)(s.weights)
    return _step_weights(s, slope, config), value


def _step_weights(s: DsrState, slope: Weights, config: SafeDsrConfig) -> DsrState:
    weights, optimizer = descend(_adam(config), slope, s.weights, s.weights_optimizer)
    return s._replace(weights=weights, weights_optimizer=optimizer)


def learn_successor(s: DsrState, batch: Batch, lam: Array, config: SafeDsrConfig) -> tuple[DsrState, Array]:
    """One step on Eq. (11) for M; the best next action is the current networks'."""
    best = jax.vmap(lambda phi: jnp.argmax(scores(s.successor, s.weights, phi, lam)))(batch.next_phi)
    target = jax.vmap(successor_target, (None, 0, 0, 0, 0, None))
    goal = target(s.target_successor, batch.target_phi, batch.target_next_phi, best, batch.t.terminated, config)

    def loss(successor: Mlp) -> Array:
        return jax.vmap(successor_loss, (None, 0, 0))(successor, batch.phi, goal).mean()

    value, slope = jax.value_and_grad(loss)(s.successor)
    successor, optimizer = descend(_adam(config), slope, s.successor, s.successor_optimizer)
    return s._replace(successor=successor, successor_optimizer=optimizer), value


def learn(
    s: DsrState, memory: Memory, lam: Array, key: Array, phase: str, config: SafeDsrConfig
) -> tuple[DsrState, dict[str, Array]]:
    """All updates of one training, on batches that are drawn at once."""
    biased_key, plain_key = jax.random.split(key)
    shape = config.update_steps, config.batch_size
    assert memory.reservoir is not None
    biased = replay.choose_biased(biased_key, memory.reservoir, memory.filled, *shape, share=config.biased_share)
    plain = replay.choose(plain_key, memory.filled, shape)
    every = _frozen_updates if phase == "frozen" else _updates
    s, (feature_values, values) = every(s, memory, biased, plain, lam, config)
    return s, {"feature_loss": feature_values.mean(), "successor_loss": values.mean()}


def _updates(s: DsrState, memory: Memory, biased: Biased, plain: Array, lam: Array, config: SafeDsrConfig):
    """While φ learns: only the target's features stay constant meanwhile, and are made at once."""
    transitions = replay.unpack(memory.ring[plain])
    target = jax.vmap(batch_features, (None, 0))(s.target_phi, transitions)

    def update(s: DsrState, xs) -> tuple[DsrState, tuple[Array, Array]]:
        biased, plain, target = xs
        s, feature_value = learn_features(s, biased, config)
        s, value = learn_successor(s, Batch(plain, *batch_features(s.encoder.phi, plain), *target), lam, config)
        return s, (feature_value, value)

    return jax.lax.scan(update, s, (replay.unpack(biased.rows(memory.ring)), transitions, target))


def _frozen_updates(s: DsrState, memory: Memory, biased: Biased, plain: Array, lam: Array, config: SafeDsrConfig):
    """Once φ is frozen its features are known, the target's too: it was copied when φ was frozen."""
    assert memory.known is not None
    known = memory.known
    rare = replay.unpack(biased.rare)
    rare_phi = jax.vmap(jax.vmap(features, (None, 0, 0)), (None, 0, 0))(s.encoder.phi, rare.obs, rare.action)

    def update(s: DsrState, xs) -> tuple[DsrState, tuple[Array, Array]]:
        labelled, places, rare_phi, transitions, chosen = xs
        phi = jnp.concatenate([known[places, 0], rare_phi])
        s, feature_value = learn_weights(s, labelled, phi, config)
        both = known[chosen]
        phi, next_phi = both[:, 0], both[:, 1:]
        s, value = learn_successor(s, Batch(transitions, phi, next_phi, phi, next_phi), lam, config)
        return s, (feature_value, value)

    labelled, transitions = replay.unpack(biased.rows(memory.ring)), replay.unpack(memory.ring[plain])
    return jax.lax.scan(update, s, (labelled, biased.places, rare_phi, transitions, plain))


def batch_features(phi: Mlp, t: Transition) -> tuple[Array, Array]:
    """φ(s, a) [n, d] and φ(s′, ·) [n, A, d] of n transitions."""
    return jax.vmap(features, (None, 0, 0))(phi, t.obs, t.action), jax.vmap(all_features, (None, 0))(phi, t.next_obs)


def recall(s: DsrState, row: Array) -> Array:
    """What stays true of a row once φ is frozen: φ(s, a) and φ(s′, ·) [1 + A, d]."""
    t = replay.unpack(row)
    return jnp.concatenate([features(s.encoder.phi, t.obs, t.action)[None], all_features(s.encoder.phi, t.next_obs)])


def bins_of(rows: Array, layout: Layout, config: SafeDsrConfig, grid_config: GridConfig) -> Array:
    """The bin [1 + J, n] that each row's reward and costs fall into, of those there can be."""
    usual = grid_config.step_reward
    rewards = (usual, usual + grid_config.goal_reward)
    low = jnp.array([min(rewards)] + [0.0] * len(layout.costs))
    dearest = jnp.max(jnp.asarray(layout.costs), (1, 2))
    return replay.value_bins(rows, low, jnp.concatenate([jnp.array([max(rewards)]), dearest]), config.value_bins)


def values(policy: DsrPolicy, obs: Array, lam: Array) -> Values:
    """Q, K and M of every action; who wants the score alone pays for nothing else."""
    phi = all_features(policy.phi, obs)
    m = jax.vmap(policy.successor)(phi)  # [A, d]
    q, k = m @ policy.weights.w_r, m @ policy.weights.w_c.T  # Eqs. (8) and (13)
    return Values(q=q, k=k, m=m, score=scores(policy.successor, policy.weights, phi, lam))


def make_safedsr(config: SafeDsrConfig, grid_config: GridConfig) -> Trainer:
    """The trainer of Alg. 2."""
    learner = Learner(
        init=lambda key, layout: init(key, len(layout.costs), config),
        scores=lambda s, obs, lam: scores(s.successor, s.weights, all_features(s.encoder.phi, obs), lam),
        learn=partial(learn, config=config),
        recall={"frozen": recall},
        sync=lambda s: s._replace(target_phi=s.encoder.phi, target_successor=s.successor),
        policy=lambda s: DsrPolicy(s.encoder.phi, s.successor, s.weights),
        values=values,
        phases=(("collect", config.train_start), ("features", config.freeze), ("frozen", None)),
        losses=("feature_loss", "successor_loss"),
        reservoir=lambda layout: replay.init_reservoir(len(layout.costs), config.value_bins, config.reservoir_size),
        bins=partial(bins_of, config=config, grid_config=grid_config),
        memory=remembered,
        restart=config.terminal == "restart",
        prepare=partial(pretrain, partial(learn_features, config=config), config, grid_config)
        if config.pretrain
        else None,
    )
    return make_trainer(learner, config, grid_config)
