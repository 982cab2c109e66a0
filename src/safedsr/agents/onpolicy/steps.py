"""Policy steps on all samples at once: natural gradient, trust region, and the constrained steps of CPO and PCPO.

A step takes flat parameters and a `Problem` and returns new flat parameters. Small constants are OmniSafe's.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.agents.onpolicy.problem import Problem
from safedsr.agents.onpolicy.trust_region import conjugate_gradient, fisher_product, line_search

TINY = 1e-8
SMALL_GRADIENT = 1e-6  # squared norm up to which CPO treats the gradient of the cost as 0

PolicyStep = Callable[[Array, Problem, OnPolicyConfig], Array]


def _curvature(theta: Array, problem: Problem, config: OnPolicyConfig) -> Callable[[Array], Array]:
    return fisher_product(problem.log_probs, theta, config.damping)


def _natural_direction(theta: Array, problem: Problem, config: OnPolicyConfig) -> Array:
    """The natural gradient, scaled to the allowed KL divergence."""
    product = _curvature(theta, problem, config)
    x = conjugate_gradient(product, jax.grad(problem.gain)(theta), config.cg_iters)
    return jnp.sqrt(2 * config.target_kl / (x @ product(x) + TINY)) * x


def natural(theta: Array, problem: Problem, config: OnPolicyConfig) -> Array:
    """The full natural gradient step, without a line search."""
    return theta + _natural_direction(theta, problem, config)


def trust_region(theta: Array, problem: Problem, config: OnPolicyConfig) -> Array:
    """The natural gradient step, shortened until the objective does not fall and the KL divergence keeps its limit."""
    before = problem.gain(theta)

    def accepts(step: Array) -> Array:
        gain = problem.gain(theta + step)
        return jnp.isfinite(gain) & (gain - before >= 0) & (problem.kl(theta + step) <= config.target_kl)

    direction = _natural_direction(theta, problem, config)
    return theta + line_search(accepts, direction, config.search_tries, config.search_factor)[0]


class Geometry(NamedTuple):
    """CPO's quantities: gradients g and b, their natural versions x and p, and the products of these."""

    x: Array
    p: Array
    hx: Array  # F·x
    q: Array  # xᵀFx
    r: Array  # gᵀp
    s: Array  # bᵀp
    flat_cost: Array  # [] bool, b is almost 0
    c: Array  # [] J_C - budget


def geometry(theta: Array, problem: Problem, config: OnPolicyConfig) -> Geometry:
    """The quantities of CPO and PCPO, for one cost."""
    product = _curvature(theta, problem, config)
    g = jax.grad(problem.gain)(theta)
    b = jax.grad(lambda theta: problem.cost(theta)[0])(theta)
    x, p = (conjugate_gradient(product, gradient, config.cg_iters) for gradient in (g, b))
    hx = product(x)
    return Geometry(x, p, hx, x @ hx, g @ p, b @ p, b @ b <= SMALL_GRADIENT, problem.excess[0])


def cpo_direction(at: Geometry, config: OnPolicyConfig) -> tuple[Array, Array]:
    """CPO's step before the line search, and its case (0 infeasible … 4 gradient of the cost is 0)."""
    delta = config.target_kl
    # The formulas assume that g is the gradient of a loss; here g is that of a gain, so r = gᵀp changes its sign.
    at = at._replace(r=-at.r) if config.cpo_sign == "climb" else at
    a = at.q - at.r**2 / (at.s + TINY)
    b = 2 * delta - at.c**2 / (at.s + TINY)
    inside = at.c < 0
    case = jnp.where(inside, jnp.where(b < 0, 3, 2), jnp.where(b >= 0, 1, 0))
    case = jnp.where(at.flat_cost & inside, 4, case)

    free = jnp.sqrt(2 * delta / (at.q + TINY)) * at.x
    recover = -jnp.sqrt(2 * delta / (at.s + TINY)) * at.p
    lam = _cpo_multiplier(at, a, b, delta, config.cpo_guard)
    nu = jnp.maximum(0.0, lam * at.c - at.r) / (at.s + TINY)
    between = (at.x - nu * at.p) / (lam + TINY)
    return jnp.where(case >= 3, free, jnp.where(case == 0, recover, between)), case


def _cpo_multiplier(at: Geometry, a: Array, b: Array, delta: float, guard: bool) -> Array:
    """The λ that maximises CPO's dual, over the two intervals in which the constraint does and does not bind."""
    best_a = jnp.sqrt(jnp.maximum(a, 0.0) / jnp.maximum(b, TINY))
    best_b = jnp.sqrt(at.q / (2 * delta))
    rho = at.r / (at.c + TINY)
    inside = at.c < 0
    a_is_low = jnp.stack([inside, ~inside])  # one candidate lies in [0, ρ], the other in [ρ, ∞)
    low = jnp.minimum(jnp.stack([best_a, best_b]), rho)  # as torch.clamp: if ρ < 0, the result is ρ
    high = jnp.maximum(jnp.stack([best_a, best_b]), rho)
    lam = jnp.where(a_is_low, low, high)
    value_a = -0.5 * (a / (lam[0] + TINY) + b * lam[0]) - at.r * at.c / (at.s + TINY)
    value_b = -0.5 * (at.q / (lam[1] + TINY) + 2 * delta * lam[1])
    values = jnp.stack([value_a, value_b])
    if guard:  # an empty interval has no candidate
        values = jnp.where(a_is_low & (rho < 0), -jnp.inf, values)
    return jnp.where(values[0] >= values[1], lam[0], lam[1])


def _cautious(theta: Array, direction: Array, needs_gain: Array, problem: Problem, config: OnPolicyConfig) -> Array:
    """Shorten a step until cost and KL divergence keep their limits and, if `needs_gain`, the gain does not fall."""
    gain, cost = problem.gain(theta), problem.cost(theta)[0]
    room = jnp.maximum(-problem.excess[0], 0.0)

    def accepts(step: Array) -> Array:
        kl = problem.kl(theta + step)
        gains = (problem.gain(theta + step) - gain >= 0) | ~needs_gain
        fits = problem.cost(theta + step)[0] - cost <= room
        return gains & fits & jnp.isfinite(kl) & (kl <= config.target_kl)

    return theta + line_search(accepts, direction, config.search_tries, config.search_factor)[0]


def constrained(theta: Array, problem: Problem, config: OnPolicyConfig) -> Array:
    """CPO (Achiam et al., 2017)."""
    direction, case = cpo_direction(geometry(theta, problem, config), config)
    return _cautious(theta, direction, case > 1, problem, config)


def pcpo_direction(at: Geometry, config: OnPolicyConfig) -> Array:
    """PCPO's step: a step for the reward, then a projection onto the limit of the cost."""
    scale = jnp.sqrt(2 * config.target_kl / (at.q + TINY))
    first = at.hx if config.pcpo_first_term == "Hx" else at.x
    # OmniSafe adds its small constant to the first term only; if q or s is 0, the line search rejects the step.
    excess = (jnp.sqrt(2 * config.target_kl / at.q) * at.r + at.c) / at.s
    return scale * first - jnp.maximum(0.0, excess) * at.p


def projected(theta: Array, problem: Problem, config: OnPolicyConfig) -> Array:
    """PCPO (Yang et al., 2020)."""
    direction = pcpo_direction(geometry(theta, problem, config), config)
    return _cautious(theta, direction, jnp.zeros((), bool), problem, config)
