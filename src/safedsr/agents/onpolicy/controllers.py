"""Controllers of the cost weights: λ by Adam or PID, a barrier, a switch, a hinge penalty, or none.

A controller is updated once in each epoch, with J_C, the mean cost of the last finished episodes.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import optax
from jax import Array
from jax.nn import relu

from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.core.multiplier import Pid, pid_step
from safedsr.core.normalizer import HIGH
from safedsr.types import PyTree


def lagrangian_share(lam: Array) -> Array:
    """λ / (1 + Σλ)."""
    return lam / (1.0 + lam.sum())


class Controller(NamedTuple):
    """A controller as pure functions of its state."""

    init: Callable[[int], PyTree]  # number of costs -> state
    update: Callable[[PyTree, Array, Array], PyTree]  # (state, J_C [J], budget [J]) -> state
    lam: Callable[[PyTree], Array]  # state -> λ [J]
    share: Callable[[Array], Array] = lagrangian_share  # λ -> weight of each cost in the objective [J]
    hinge: float = 0.0  # weight of the penalty on J_C - b (P3O)


def ignore(config: OnPolicyConfig) -> Controller:
    """Weight 0: for unconstrained algorithms, and for those whose policy step handles the cost itself."""
    return Controller(init=jnp.zeros, update=lambda lam, j_c, budget: lam, lam=lambda lam: lam)


def lagrangian(config: OnPolicyConfig) -> Controller:
    """Gradient ascent of λ on λ·(J_C - b) by Adam, with λ ≥ 0."""
    adam = optax.adam(config.lam_lr)

    def init(num_costs: int) -> PyTree:
        lam = jnp.full(num_costs, config.lam_start, jnp.float32)
        return lam, adam.init(lam)

    def update(state: PyTree, j_c: Array, budget: Array) -> PyTree:
        lam, moments = state
        change, moments = adam.update(budget - j_c, moments)
        return relu(lam + change), moments

    return Controller(init, update, lam=lambda state: state[0])


class PidState(NamedTuple):
    """The state of a PID controller."""

    now: Pid
    past: Array  # [delay, J] smoothed costs, oldest first
    count: Array  # [] int32


def pid(config: OnPolicyConfig) -> Controller:
    """OmniSafe's PID: each update computes λ from the smoothed error, the integral and the derivative."""

    def init(num_costs: int) -> PidState:
        zero = jnp.zeros(num_costs)
        start = jnp.full(num_costs, config.lam_start, jnp.float32)
        past = jnp.zeros((config.pid_delay, num_costs))
        return PidState(Pid(zero, start, zero, zero), past, jnp.zeros((), jnp.int32))

    def update(s: PidState, j_c: Array, budget: Array) -> PidState:
        now = pid_step(s.now, j_c, budget, s.past[0], config)
        # The queue starts with one zero and grows to `pid_delay`: until then the oldest level is that zero.
        full = s.count >= config.pid_delay - 1
        slot = jnp.minimum(s.count + 1, config.pid_delay - 1)
        past = jnp.where(full, jnp.roll(s.past, -1, 0), s.past).at[slot].set(now.level)
        return PidState(now, past, jnp.minimum(s.count, HIGH) + 1)

    return Controller(init, update, lam=lambda s: s.now.lam)


def barrier(config: OnPolicyConfig) -> Controller:
    """IPO: the weight κ / (b - J_C), or `barrier_max` if J_C exceeds the budget or comes close to it."""

    def update(lam: Array, j_c: Array, budget: Array) -> Array:
        weight = config.barrier / (budget - j_c + 1e-8)
        return jnp.where((weight < 0) | (weight > config.barrier_max), config.barrier_max, weight)

    return Controller(init=jnp.zeros, update=update, lam=lambda lam: lam)


def switch(config: OnPolicyConfig) -> Controller:
    """OnCRPO: the objective is the reward while J_C ≤ b + `distance`, else only the cost with the largest excess."""

    def update(lam: Array, j_c: Array, budget: Array) -> Array:
        excess = j_c - budget - config.distance
        worst = jnp.arange(len(excess)) == jnp.argmax(excess)
        return jnp.where(worst & (excess > 0), 1.0, 0.0)

    return Controller(init=jnp.zeros, update=update, lam=lambda share: share, share=lambda share: share)


def hinge(config: OnPolicyConfig) -> Controller:
    """P3O: weight 0 for the cost advantages, and a fixed weight for the penalty on the excess J_C - b."""
    return ignore(config)._replace(hinge=config.hinge)
