"""New cost weights by gradient descent, as in training: the independent check of the closed form."""

import jax
import jax.numpy as jnp
import optax
from jax import Array

from safedsr.core.nets import descend, mean_square
from safedsr.envs.grid.environment import relabel
from safedsr.envs.grid.layout import Layout
from safedsr.types import PyTree, Transition


def refit_by_gradient(
    key: Array,
    phi: PyTree,
    steps: Transition,
    layout: Layout,
    updates: int = 5000,
    batch_size: int = 256,
    rate: float = 3e-3,
) -> Array:
    """w_c [J, d] for the costs of `layout`: Adam on the cost term of Eq. (14) over remembered steps, φ fixed."""
    batch = jax.vmap(relabel, (0, None))(steps, layout)
    known = jax.vmap(phi.features)(batch.obs, batch.action)  # [n, d]
    adam = optax.adam(optax.cosine_decay_schedule(rate, updates))

    def loss(w_c: Array, chosen: Array) -> Array:
        return jax.vmap(lambda cost, phi: mean_square(cost - w_c @ phi))(batch.cost[chosen], known[chosen]).mean()

    def update(carry: tuple[Array, PyTree], key: Array) -> tuple[tuple[Array, PyTree], None]:
        w_c, state = carry
        chosen = jax.random.randint(key, (batch_size,), 0, len(known))
        return descend(adam, jax.grad(loss)(w_c, chosen), w_c, state), None

    w_c = jnp.zeros((len(layout.costs), known.shape[1]))
    (w_c, _), _ = jax.lax.scan(update, (w_c, adam.init(w_c)), jax.random.split(key, updates))
    return w_c
