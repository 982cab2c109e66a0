"""Natural gradients: Fisher-vector products, conjugate gradients and a backtracking line search, over flat vectors."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

CG_EPSILON, CG_TOLERANCE = 1e-6, 1e-10


def fisher_product(log_probs: Callable[[Array], Array], theta: Array, damping: float) -> Callable[[Array], Array]:
    """v ↦ (F + damping·I)·v, F the mean over samples of Jᵀ·diag(p)·J, with J the Jacobian of `log_probs` [T, A].

    F is the Hessian of the mean KL divergence from the policy at `theta`, computed without second derivatives.
    """
    now, push = jax.linearize(log_probs, theta)
    pull = jax.linear_transpose(push, theta)
    weight = jnp.exp(now) / len(now)
    return lambda vector: pull(weight * push(vector))[0] + damping * vector


def conjugate_gradient(
    product: Callable[[Array], Array], b: Array, iterations: int, epsilon: float = CG_EPSILON
) -> Array:
    """x with product(x) ≈ b; `epsilon` is added to both denominators, as OmniSafe does."""

    def iterate(carry: tuple[Array, Array, Array, Array], _: None):
        x, r, p, rr = carry
        z = product(p)
        alpha = rr / (p @ z + epsilon)
        new_r = r - alpha * z
        new_rr = new_r @ new_r
        stepped = (x + alpha * p, new_r, new_r + new_rr / (rr + epsilon) * p, new_rr)
        done = jnp.sqrt(rr) < CG_TOLERANCE
        return jax.tree.map(lambda new, old: jnp.where(done, old, new), stepped, carry), None

    (x, _, _, _), _ = jax.lax.scan(iterate, (jnp.zeros_like(b), b, b, b @ b), length=iterations)
    return x


def line_search(accepts: Callable[[Array], Array], direction: Array, tries: int, factor: float) -> tuple[Array, Array]:
    """The first of direction, factor·direction, factor²·direction … that is accepted, and whether one was."""

    def unsettled(carry: tuple[Array, Array, Array]) -> Array:
        count, _, found = carry
        return (count < tries) & ~found

    def attempt(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, scale, _ = carry
        found = accepts(scale * direction)
        return count + 1, jnp.where(found, scale, scale * factor), found

    start = (jnp.zeros((), jnp.int32), jnp.ones(()), jnp.zeros((), bool))
    _, scale, found = jax.lax.while_loop(unsettled, attempt, start)
    return jnp.where(found, scale * direction, 0.0), found  # a direction that is not finite gives no step
