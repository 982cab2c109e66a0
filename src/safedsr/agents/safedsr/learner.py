"""SafeDSR (Alg. 2): the state of the learner, and its updates."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from safedsr.agents.safedsr import fused
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.equations import (
    DsrPolicy,
    Encoder,
    Phi,
    Weights,
    actions_of,
    feature_loss,
    features,
    fold,
    goes_on,
    next_features,
    scores,
    split_features,
    successor_loss,
    successor_target,
    weights_loss,
    without_bias,
)
from safedsr.agents.value_based.trainer import Memory
from safedsr.core import replay
from safedsr.core.nets import Mlp, descend, mean_square, slopes, weight_matrix
from safedsr.core.replay import Biased
from safedsr.envs.environment import Spec
from safedsr.types import PyTree, Transition


class DsrState(NamedTuple):
    """The networks, the target networks, the weights and the optimisers' states."""

    encoder: Encoder
    weights: Weights
    successor: Mlp
    target_phi: Phi
    target_successor: Mlp
    encoder_optimizer: PyTree
    weights_optimizer: PyTree
    successor_optimizer: PyTree
    biases: Weights | None = None  # of the predictions of reward and costs, if they have any
    biases_optimizer: PyTree = None


class Batch(NamedTuple):
    """The data of one update of M: transitions, their features, and the target network's features."""

    t: Transition
    phi: Array  # [n, d] φ(s, a)
    next_phi: Array  # [n, A, k] φ(s′, ·), see `next_features`
    target_phi: Array  # [n, d]
    target_next_phi: Array  # [n, A, k]


def _adam(config: SafeDsrConfig) -> Any:  # optax's types do not accept modules as parameters
    return optax.adam(config.learning_rate)


def init(key: Array, spec: Spec, num_costs: int, config: SafeDsrConfig) -> DsrState:
    """The initial state: random networks and weights; the target networks are copies."""
    adam = _adam(config)
    phi_key, decoder_key, successor_key, r_key, c_key = jax.random.split(key, 5)
    d, inputs = config.features, spec.observations + spec.actions
    encoder = Encoder(
        Phi((inputs, *config.phi_hidden, d), key=phi_key, unit_length=config.unit_length),
        Mlp((d, *config.decoder_hidden, inputs), key=decoder_key),
    )
    weights = Weights(weight_matrix((d,), key=r_key), weight_matrix((num_costs, d), key=c_key))
    successor = Mlp((d, *config.successor_hidden, d), key=successor_key)
    biases = _init_biases(jax.random.fold_in(key, 5), num_costs, d) if config.weight_bias else None
    return DsrState(
        encoder=encoder,
        weights=weights,
        successor=successor,
        target_phi=encoder.phi,
        target_successor=successor,
        encoder_optimizer=adam.init(encoder),
        weights_optimizer=adam.init(weights),
        successor_optimizer=adam.init(successor),
        biases=biases,
        biases_optimizer=None if biases is None else adam.init(biases),
    )


def _init_biases(key: Array, num_costs: int, d: int) -> Weights:
    """Biases as the other layers have them: uniform up to 1/√d."""
    drawn = weight_matrix((1 + num_costs, d), key=key)[:, 0]
    return Weights(drawn[0], drawn[1:])


def learn_features(s: DsrState, batch: Transition, config: SafeDsrConfig) -> tuple[DsrState, Array]:
    """One gradient step on Eq. (14) for φ, g, w_r and w_c."""

    def loss(learnt: tuple[Encoder, Weights, Weights | None]) -> Array:
        encoder, weights, biases = learnt
        every = jax.vmap(lambda t: feature_loss(encoder, weights, without_bias(t, biases), config))
        return every(batch).mean()

    value, (encoder_slope, *weight_slopes) = jax.value_and_grad(loss)((s.encoder, s.weights, s.biases))
    encoder, optimizer = descend(_adam(config), encoder_slope, s.encoder, s.encoder_optimizer)
    return _step_weights(s._replace(encoder=encoder, encoder_optimizer=optimizer), weight_slopes, config), value


def learn_weights(s: DsrState, batch: Transition, phi: Array, config: SafeDsrConfig) -> tuple[DsrState, Array]:
    """One gradient step on Eq. (14) for w_r and w_c only, given φ(s, a)."""

    def loss(learnt: tuple[Weights, Weights | None]) -> Array:
        weights, biases = learnt
        return jax.vmap(lambda phi, t: weights_loss(weights, phi, without_bias(t, biases), config))(phi, batch).mean()

    value, slope = jax.value_and_grad(loss)((s.weights, s.biases))
    return _step_weights(s, slope, config), value


def _step_weights(s: DsrState, gradients: Sequence[Weights | None], config: SafeDsrConfig) -> DsrState:
    """A step of the weights and, if there are any, of the biases; `gradients` has one for each."""
    weights, optimizer = descend(_adam(config), gradients[0], s.weights, s.weights_optimizer)
    s = s._replace(weights=weights, weights_optimizer=optimizer)
    if s.biases is None:
        return s
    biases, optimizer = descend(_adam(config), gradients[1], s.biases, s.biases_optimizer)
    return s._replace(biases=biases, biases_optimizer=optimizer)


def learn_successor(s: DsrState, batch: Batch, lam: Array, config: SafeDsrConfig) -> tuple[DsrState, Array]:
    """One gradient step on Eq. (11) for M; the current networks choose the next action."""
    target_phi = s.target_phi if config.target_features else s.encoder.phi
    now, ahead = fold(s.successor, s.encoder.phi), fold(s.target_successor, target_phi)
    best = jax.vmap(lambda phi: jnp.argmax(scores(now, s.weights, phi, lam)))(batch.next_phi)
    target = jax.vmap(successor_target, (None, 0, 0, 0, 0, None))
    goal = target(ahead, batch.target_phi, batch.target_next_phi, best, batch.t.terminated, config)

    def loss(successor: Mlp) -> Array:
        return jax.vmap(successor_loss, (None, 0, 0))(successor, batch.phi, goal).mean()

    value, slope = jax.value_and_grad(loss)(s.successor)
    return _step_successor(s, slope, config), value


def learn_cached(
    s: DsrState, cached: Array, places: Array, t: Transition, lam: Array, config: SafeDsrConfig
) -> tuple[DsrState, Array]:
    """`learn_successor` on transitions whose features are the rows `places` [n] of `cached` [rows, d + A·k].

    φ is frozen, so the target network of φ equals φ.
    """
    actions = actions_of(s.encoder.phi, t.obs[0])
    if not fused.suits(config):
        phi, next_phi = split_features(cached[places], config.features, actions)
        return learn_successor(s, Batch(t, phi, next_phi, phi, next_phi), lam, config)
    direction = s.weights.direction(lam) @ s.successor.layers[-1].weight
    discount = config.gamma * goes_on(t.terminated, config)
    cached = cached.reshape(len(cached), 1 + actions, config.features)  # k = d on GPUs, where the kernel runs
    inputs, error = fused.errors(s.successor, s.target_successor, direction, cached, places, discount)
    return _step_successor(s, slopes(s.successor, inputs, 2 * error / error.size), config), mean_square(error)


def _step_successor(s: DsrState, slope: Mlp, config: SafeDsrConfig) -> DsrState:
    successor, optimizer = descend(_adam(config), slope, s.successor, s.successor_optimizer)
    return s._replace(successor=successor, successor_optimizer=optimizer)


def learn(
    s: DsrState, memory: Memory, lam: Array, key: Array, phase: str, config: SafeDsrConfig
) -> tuple[DsrState, dict[str, Array]]:
    """One round of updates; all its batches are drawn at once."""
    biased_key, plain_key = jax.random.split(key)
    shape = config.update_steps, config.batch_size
    assert memory.reservoir is not None
    biased = replay.choose_biased(biased_key, memory.reservoir, memory.filled, *shape, share=config.biased_share)
    plain = replay.choose(plain_key, memory.filled, shape)
    every = _frozen_updates if phase == "frozen" else _updates
    s, (feature_values, values) = every(s, memory, biased, plain, lam, config)
    return s, {"feature_loss": feature_values.mean(), "successor_loss": values.mean()}


def _updates(s: DsrState, memory: Memory, biased: Biased, plain: Array, lam: Array, config: SafeDsrConfig):
    """Updates while φ learns; the target network's features do not change in a round, so they are computed at once."""
    transitions = memory.unpack(memory.ring[plain])
    target = jax.vmap(batch_features, (None, 0))(s.target_phi, transitions)

    def update(s: DsrState, xs) -> tuple[DsrState, tuple[Array, Array]]:
        biased, plain, target = xs
        s, feature_value = learn_features(s, biased, config)
        now = batch_features(s.encoder.phi, plain)
        target = target if config.target_features else now
        s, value = learn_successor(s, Batch(plain, *now, *target), lam, config)
        return s, (feature_value, value)

    return jax.lax.scan(update, s, (memory.unpack(biased.rows(memory.ring)), transitions, target))


def _frozen_updates(s: DsrState, memory: Memory, biased: Biased, plain: Array, lam: Array, config: SafeDsrConfig):
    """Updates once φ is frozen; its features are cached, and the target network of φ has the same features."""
    assert memory.cache is not None
    cached = memory.cache
    rare = memory.unpack(biased.rare)
    rare_phi = jax.vmap(jax.vmap(features, (None, 0, 0)), (None, 0, 0))(s.encoder.phi, rare.obs, rare.action)

    def update(s: DsrState, xs) -> tuple[DsrState, tuple[Array, Array]]:
        labelled, phi, chosen, transitions = xs
        s, feature_value = learn_weights(s, labelled, phi, config)
        s, value = learn_cached(s, cached, chosen, transitions, lam, config)
        return s, (feature_value, value)

    labelled, transitions = memory.unpack(biased.rows(memory.ring)), memory.unpack(memory.ring[plain])
    phi = jnp.concatenate([cached[biased.places, : config.features], rare_phi], 1)
    return jax.lax.scan(update, s, (labelled, phi, plain, transitions))


def batch_features(phi: Phi, t: Transition) -> tuple[Array, Array]:
    """φ(s, a) [n, d] and φ(s′, ·) [n, A, k] of n transitions."""
    return jax.vmap(features, (None, 0, 0))(phi, t.obs, t.action), jax.vmap(next_features, (None, 0))(phi, t.next_obs)


def go_on(policy: DsrPolicy, key: Array, spec: Spec, config: SafeDsrConfig) -> DsrState:
    """A learner state that continues from a policy; g and the optimisers' states, which a policy lacks, are new."""
    fresh = init(key, spec, len(policy.weights.w_c), config)
    return fresh._replace(
        encoder=fresh.encoder._replace(phi=policy.phi),
        weights=policy.weights,
        successor=policy.successor,
        target_phi=policy.phi,
        target_successor=policy.successor,
    )
