"""SafeDSR's equations (Eqs. (8) and (11) to (15)) for one state or transition; the caller vmaps and averages.

Rewards and costs are linear in the features φ, so Q and K are linear in the successor features M. The loss of M has no
gradient in φ.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.core.nets import Mlp, dense, inverse_length, mean_square, pair
from safedsr.types import Transition, Values


class Phi(Mlp):
    """The network of φ."""

    unit_length: bool = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], *, key: Array, unit_length: bool = True) -> None:
        super().__init__(sizes, key=key)
        self.unit_length = unit_length

    def factor(self, output: Array) -> Array:
        """The factor by which the network's output is scaled: to length 1 (Sec. 4.2), or 1."""
        return inverse_length(output) if self.unit_length else jnp.ones(())

    def features(self, obs: Array, action: Array) -> Array:
        """φ(s, a)."""
        return features(self, obs, action)


class Encoder(NamedTuple):
    """φ and g, which are frozen at t_freeze."""

    phi: Phi
    decoder: Mlp  # g


class Weights(NamedTuple):
    """Weights of the reward and of the costs, both linear in features."""

    w_r: Array  # [d]
    w_c: Array  # [J, d]

    def direction(self, lam: Array) -> Array:
        """w_r - λ·w_c [d]; M times this vector is Q - λ·K."""
        return self.w_r - lam @ self.w_c


class DsrPolicy(NamedTuple):
    """The networks and weights for acting and adaptation."""

    phi: Phi
    successor: Mlp  # M
    weights: Weights


def features(phi: Phi, obs: Array, action: Array) -> Array:
    """φ(s, a)."""
    output = phi(pair(obs, action, actions_of(phi, obs)))
    return phi.factor(output) * output


def actions_of(phi: Mlp, obs: Array) -> int:
    """The number of actions: the number of φ's inputs minus the length of the observation."""
    return phi.layers[0].weight.shape[1] - len(obs)


def all_features(phi: Phi, obs: Array) -> Array:
    """φ(s, ·) [A, d]."""
    output = jax.vmap(phi.after_first)(_first_outputs(phi, obs))
    return jax.vmap(phi.factor)(output)[:, None] * output


def _first_outputs(phi: Mlp, obs: Array) -> Array:
    """The output of φ's first layer for (s, ·) [A, n]: the part of s is computed once, each action adds a column."""
    first = phi.layers[0]
    weight, bias = first.weight, first.bias
    assert bias is not None
    return (weight[:, : len(obs)] @ obs + bias)[None] + weight[:, len(obs) :].T


def short(phi: Mlp) -> bool:
    """Whether `next_features` is the short form: if it is shorter than φ, and on CPUs only, where it was measured."""
    *before, last = phi.layers
    return jax.default_backend() == "cpu" and bool(before) and last.weight.shape[1] + 1 < last.weight.shape[0]


def next_features(phi: Phi, obs: Array) -> Array:
    """φ(s, ·) [A, k] as input of a network from `fold`: φ itself with k = d, or its short form with k = n + 1.

    With φ's last layer, W [d, n] and b, φ = (W·h + b)/|W·h + b| is [W b] times the short form (h, 1)/|W·h + b|. `fold`
    multiplies [W b] into the first layer of M. Without unit length, the divisor is 1.
    """
    if not short(phi):
        return all_features(phi, obs)

    def one(x: Array) -> Array:
        hidden = phi.hidden_after_first(x)
        return jnp.append(hidden, 1.0) * phi.factor(dense(phi.layers[-1], hidden))

    return jax.vmap(one)(_first_outputs(phi, obs))


def fold(net: Mlp, phi: Mlp) -> Mlp:
    """The network whose output for `next_features` is that of `net` for φ(s, ·)."""
    if not short(phi):
        return net
    last = phi.layers[-1]
    assert last.bias is not None
    weight = net.layers[0].weight @ jnp.column_stack([last.weight, last.bias])
    return eqx.tree_at(lambda net: net.layers[0].weight, net, weight)


def both_features(phi: Phi, t: Transition) -> Array:
    """φ(s, a) and the next features of a transition, in one vector [d + A·k]."""
    return jnp.append(features(phi, t.obs, t.action), next_features(phi, t.next_obs))


def split_features(both: Array, d: int, actions: int) -> tuple[Array, Array]:
    """φ(s, a) [n, d] and the next features [n, A, k], from the `both_features` [n, d + A·k] of n transitions."""
    return both[:, :d], both[:, d:].reshape(len(both), actions, -1)


def feature_loss(encoder: Encoder, weights: Weights, t: Transition, config: SafeDsrConfig) -> Array:
    """Eq. (14): the loss of φ, g, w_r and w_c."""
    phi = features(encoder.phi, t.obs, t.action)
    inputs = pair(t.obs, t.action, actions_of(encoder.phi, t.obs))
    rebuilt = mean_square(inputs - encoder.decoder(phi))
    return weights_loss(weights, phi, t, config) + config.beta_g * rebuilt


def weights_loss(weights: Weights, phi: Array, t: Transition, config: SafeDsrConfig) -> Array:
    """Eq. (14) without the reconstruction loss: the loss of w_r and w_c once φ is frozen."""
    reward = (t.reward - phi @ weights.w_r) ** 2
    cost = mean_square(t.cost - phi @ weights.w_c.T)  # Eq. (12)
    return config.beta_r * reward + config.beta_c * cost


def without_bias(t: Transition, biases: Weights | None) -> Transition:
    """A transition whose reward and costs are reduced by the biases of their predictions, if there are any."""
    return t if biases is None else t._replace(reward=t.reward - biases.w_r, cost=t.cost - biases.w_c)


def scores(successor: Mlp, weights: Weights, phi: Array, lam: Array) -> Array:
    """Q - λ·K from features [A, k]: Eq. (15) without b, which is the same for all actions.

    M's last layer is linear, so the weights are first multiplied with that layer into one vector, which is faster.
    """
    direction, last = weights.direction(lam), successor.layers[-1]
    return jax.vmap(successor.hidden)(phi) @ (direction @ last.weight) + direction @ last.bias  # type: ignore[operator]


def successor_target(
    target_successor: Mlp, phi: Array, next_phi: Array, best: Array, terminated: Array, config: SafeDsrConfig
) -> Array:
    """Alg. 2's M_target, from target features φ_prev(s, a) [d] and φ_prev(s′, ·) [A, k] and the best next action."""
    return phi + config.gamma * goes_on(terminated, config) * target_successor(next_phi[best])


def goes_on(terminated: Array, config: SafeDsrConfig) -> Array:
    """1 if the target of M includes the next state, else 0."""
    return 1 - terminated if config.terminal in ("cut", "cut-all") else jnp.ones_like(terminated)


def successor_loss(successor: Mlp, phi: Array, goal: Array) -> Array:
    """Eq. (11), given φ(s, a) and the target; the gradient is that of M only."""
    return mean_square(goal - successor(phi))


def values(policy: DsrPolicy, obs: Array, lam: Array) -> Values:
    """Q, K, M and score of every action; a compiled program computes only those that it uses."""
    phi = all_features(policy.phi, obs)
    m = jax.vmap(policy.successor)(phi)  # [A, d]
    q, k = m @ policy.weights.w_r, m @ policy.weights.w_c.T  # Eqs. (8) and (13)
    return Values(q=q, k=k, m=m, score=scores(policy.successor, policy.weights, phi, lam))
