"""What a policy is to improve: the epoch's samples and the pressure of the costs, as functions of the policy."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.core.nets import Mlp


class Batch(NamedTuple):
    """An epoch's samples [T], as the learner sees them."""

    obs: Array  # [T, 2] normalised
    action: Array  # [T]
    log_prob: Array  # [T] when it was chosen
    reward_advantage: Array  # [T] standardised
    cost_advantage: Array  # [T, J] centred
    reward_target: Array  # [T]
    cost_target: Array  # [T, J]


class Pressure(NamedTuple):
    """How much the costs count in this epoch: data, so that algorithms that differ only here share a program."""

    share: Array  # [J] of each cost in what is climbed; the reward has the rest
    hinge: Array  # [] weight of the excess itself (P3O)
    excess: Array  # [J] J_C - budget


class Problem(NamedTuple):
    """An epoch's task for a step over flat parameters."""

    gain: Callable[[Array], Array]  # surrogate of what is to be climbed
    cost: Callable[[Array], Array]  # [J] surrogate of each cost
    log_probs: Callable[[Array], Array]  # [T, A] of all actions
    kl: Callable[[Array], Array]  # mean divergence from the policy that walked
    excess: Array  # [J]


def log_probs(actor: Mlp, obs: Array) -> Array:
    """Log-probabilities [T, A] of all actions."""
    return jax.nn.log_softmax(jax.vmap(actor)(obs))


def ratios(actor: Mlp, batch: Batch) -> Array:
    """New over old probability of the actions taken."""
    new = jnp.take_along_axis(log_probs(actor, batch.obs), batch.action[:, None], 1)[:, 0]
    return jnp.exp(new - batch.log_prob)


def mixed(batch: Batch, share: Array) -> Array:
    """(A_r - λ·A_c) / (1 + Σλ), with the shares λ / (1 + Σλ)."""
    return (1.0 - share.sum()) * batch.reward_advantage - batch.cost_advantage @ share


def divergence(old: Array, new: Array) -> Array:
    """KL(old ‖ new) [T] from log-probabilities [T, A]."""
    return jnp.sum(jnp.exp(old) * (old - new), -1)
