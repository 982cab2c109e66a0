"""The optimisation problem of an epoch: its samples, the weights of the costs, and objectives of the policy."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.core.nets import Mlp


class Batch(NamedTuple):
    """The samples [T] of an epoch."""

    obs: Array  # [T, observations] normalised
    action: Array  # [T]
    log_prob: Array  # [T] of the action, under the policy that chose it
    reward_advantage: Array  # [T] standardised
    cost_advantage: Array  # [T, J] centred
    reward_target: Array  # [T]
    cost_target: Array  # [T, J]


class Pressure(NamedTuple):
    """Weights of the costs in this epoch; arrays, so that algorithms that differ only here share a program."""

    share: Array  # [J] weight of each cost in the objective; the weight of the reward is 1 - Σ share
    hinge: Array  # [] weight of the penalty on the excess (P3O)
    excess: Array  # [J] J_C - budget


class Problem(NamedTuple):
    """The functions of flat policy parameters that a policy step needs."""

    gain: Callable[[Array], Array]  # surrogate objective
    cost: Callable[[Array], Array]  # [J] surrogate of each cost
    log_probs: Callable[[Array], Array]  # [T, A] of all actions
    kl: Callable[[Array], Array]  # mean KL divergence from the policy that collected the samples
    excess: Array  # [J] J_C - budget


def log_probs(actor: Mlp, obs: Array) -> Array:
    """Log-probabilities [T, A] of all actions."""
    return jax.nn.log_softmax(jax.vmap(actor)(obs))


def ratios(actor: Mlp, batch: Batch) -> Array:
    """Probability ratios [T], new over old policy, of the actions taken."""
    new = jnp.take_along_axis(log_probs(actor, batch.obs), batch.action[:, None], 1)[:, 0]
    return jnp.exp(new - batch.log_prob)


def mixed(batch: Batch, share: Array) -> Array:
    """(A_r - λ·A_c) / (1 + Σλ), with the shares λ / (1 + Σλ)."""
    return (1.0 - share.sum()) * batch.reward_advantage - batch.cost_advantage @ share


def divergence(old: Array, new: Array) -> Array:
    """KL(old ‖ new) [T] from log-probabilities [T, A]."""
    return jnp.sum(jnp.exp(old) * (old - new), -1)
