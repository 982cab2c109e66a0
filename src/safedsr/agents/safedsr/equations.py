"""SafeDSR's equations for one state or transition; the caller vmaps and averages.

Rewards and costs are linear in the features φ, so what is to come is linear in the successor features M. Nothing here
differentiates M's loss in φ.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.core.nets import Mlp, dense, inverse_length, mean_square, pair, unit
from safedsr.types import Transition, Values


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

    def direction(self, lam: Array) -> Array:
        """w_r - λ·w_c [d]: what successor features are worth."""
        return self.w_r - lam @ self.w_c


class DsrPolicy(NamedTuple):
    """What acting needs."""

    phi: Phi
    successor: Mlp  # M
    weights: Weights


def features(phi: Mlp, obs: Array, action: Array) -> Array:
    """φ(s, a), of length 1."""
    return unit(phi(pair(obs, action, actions_of(phi, obs))))


def actions_of(phi: Mlp, obs: Array) -> int:
    """How many actions φ tells apart: its inputs beside the observation."""
    return phi.layers[0].weight.shape[1] - len(obs)


def all_features(phi: Mlp, obs: Array) -> Array:
    """φ(s, ·) [A, d]."""
    return jax.vmap(lambda x: unit(phi.after_first(x)))(_first_outputs(phi, obs))


def _first_outputs(phi: Mlp, obs: Array) -> Array:
    """The first layer of φ(s, ·) [A, n]: what the state adds is made once, what an action adds is a column."""
    first = phi.layers[0]
    weight, bias = first.weight, first.bias
    assert bias is not None
    return (weight[:, : len(obs)] @ obs + bias)[None] + weight[:, len(obs) :].T


def short(phi: Mlp) -> bool:
    """Whether the input of φ's last layer says in fewer numbers what φ says; measured on processors alone."""
    *before, last = phi.layers
    return jax.default_backend() == "cpu" and bool(before) and last.weight.shape[1] + 1 < last.weight.shape[0]


def next_features(phi: Mlp, obs: Array) -> Array:
    """φ(s, ·) [A, k] for networks that were made to take it by `fold`: as it is, k = d, or in short, k = n + 1.

    φ = (W·h + b)/|W·h + b|, with W [d, n], is [W b] times (h, 1)/|W·h + b|. M's first layer is another matrix, so W and
    b can be multiplied with that instead.
    """
    if not short(phi):
        return all_features(phi, obs)

    def one(x: Array) -> Array:
        hidden = phi.hidden_after_first(x)
        return jnp.append(hidden, 1.0) * inverse_length(dense(phi.layers[-1], hidden))

    return jax.vmap(one)(_first_outputs(phi, obs))


def fold(net: Mlp, phi: Mlp) -> Mlp:
    """The network that makes of `next_features` what `net` makes of φ(s, ·)."""
    if not short(phi):
        return net
    last = phi.layers[-1]
    assert last.bias is not None
    weight = net.layers[0].weight @ jnp.column_stack([last.weight, last.bias])
    return eqx.tree_at(lambda net: net.layers[0].weight, net, weight)


def both_features(phi: Mlp, t: Transition) -> Array:
    """φ(s, a) and the next features of a transition, end to end [d + A·k]."""
    return jnp.append(features(phi, t.obs, t.action), next_features(phi, t.next_obs))


def split_features(both: Array, d: int, actions: int) -> tuple[Array, Array]:
    """φ(s, a) [n, d] and the next features [n, A, k] of what `both_features` made of n transitions."""
    return both[:, :d], both[:, d:].reshape(len(both), actions, -1)


def feature_loss(encoder: Encoder, weights: Weights, t: Transition, config: SafeDsrConfig) -> Array:
    """Eq. (14): what φ, g, w_r and w_c learn."""
    phi = features(encoder.phi, t.obs, t.action)
    inputs = pair(t.obs, t.action, actions_of(encoder.phi, t.obs))
    rebuilt = mean_square(inputs - encoder.decoder(phi))
    return weights_loss(weights, phi, t, config) + config.beta_g * rebuilt


def weights_loss(weights: Weights, phi: Array, t: Transition, config: SafeDsrConfig) -> Array:
    """Eq. (14) without the reconstruction: all that is left to learn once φ is frozen."""
    reward = (t.reward - phi @ weights.w_r) ** 2
    cost = mean_square(t.cost - phi @ weights.w_c.T)  # Eq. (12)
    return config.beta_r * reward + config.beta_c * cost


def scores(successor: Mlp, weights: Weights, phi: Array, lam: Array) -> Array:
    """Q - λ·K from features [A, k]: Eq. (15) without b, which moves all actions alike.

    M's last layer is linear, so it is folded with the weights into one vector instead of being multiplied out.
    """
    direction, last = weights.direction(lam), successor.layers[-1]
    return jax.vmap(successor.hidden)(phi) @ (direction @ last.weight) + direction @ last.bias  # type: ignore[operator]


def successor_target(
    target_successor: Mlp, phi: Array, next_phi: Array, best: Array, terminated: Array, config: SafeDsrConfig
) -> Array:
    """Alg. 2's M_target, from target features φ_prev(s, a) [d] and φ_prev(s′, ·) [A, k] and the best next action."""
    return phi + config.gamma * goes_on(terminated, config) * target_successor(next_phi[best])


def goes_on(terminated: Array, config: SafeDsrConfig) -> Array:
    """1 where something follows a transition, else 0."""
    return 1 - terminated if config.terminal == "cut" else jnp.ones_like(terminated)


def successor_loss(successor: Mlp, phi: Array, goal: Array) -> Array:
    """Eq. (11), given φ(s, a) and the target: only M is differentiated."""
    return mean_square(goal - successor(phi))


def values(policy: DsrPolicy, obs: Array, lam: Array) -> Values:
    """Q, K and M of every action; who wants the score alone pays for nothing else."""
    phi = all_features(policy.phi, obs)
    m = jax.vmap(policy.successor)(phi)  # [A, d]
    q, k = m @ policy.weights.w_r, m @ policy.weights.w_c.T  # Eqs. (8) and (13)
    return Values(q=q, k=k, m=m, score=scores(policy.successor, policy.weights, phi, lam))
