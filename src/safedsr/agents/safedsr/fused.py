"""SafeDSR's most expensive computation as one GPU kernel: the best next action of every transition, and M's target.

XLA compiles it to twelve kernels and writes every hidden layer to memory. This kernel keeps M's weights on the chip
and loops over the actions; it takes half the time (docs/performance.md), and results are equal up to rounding.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.core.nets import Mlp

ROWS = 128  # transitions of a program: 60 seeds with batches of 256 are 120 programs, one wave on an H200's 132 SMs
WARPS = 8
WIDEST = 128  # wider layers do not fit on the chip
MEASURED = "9.0"  # compute capability of H100 and H200; other GPUs have less memory on the chip, or were not tested


class Layer(NamedTuple):
    """The arrays of a dense layer; inside the kernel, references to them."""

    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        by_inputs = (((1,), (1,)), ((), ()))
        return jax.lax.dot_general(x, self.weight[...], by_inputs) + self.bias[...][None]


def suits(config: SafeDsrConfig) -> bool:
    """Whether to use the kernel: only in TF32, on the GPUs it was measured on, for networks that fit on the chip."""
    precision = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    if jax.default_backend() != "gpu" or precision != "tensorfloat32":
        return False
    if jax.local_devices()[0].compute_capability != MEASURED:
        return False
    widths = (config.features, *config.successor_hidden)
    fits = all(16 <= width <= WIDEST and width.bit_count() == 1 for width in widths)
    return fits and len(config.successor_hidden) == 2 and config.batch_size % ROWS == 0


def errors(
    successor: Mlp, target: Mlp, direction: Array, known: Array, places: Array, discount: Array, interpret: bool = False
) -> tuple[list[Array], Array]:
    """M(φ) minus its target φ(s, a) + discount·M_target(φ(s′, a′)), for rows `places` [n] of `known` [rows, 1 + A, d].

    `known` holds φ(s, a) and φ(s′, ·). a′ is the action for which the last hidden layer of M has the largest product
    with `direction` [h]. Returns the inputs of M's layers for M(φ), [n, width] each, and the errors [n, d].
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    arrays = known, places, discount, direction, layers(successor), layers(target)
    widths = [layer.weight.shape[1] for layer in arrays[4]] + [known.shape[-1]]

    def whole(x: Array) -> Any:
        return pl.BlockSpec(x.shape, lambda i: (0,) * x.ndim)

    rows = pl.BlockSpec((ROWS,), lambda i: (i,))
    *inputs, error = pl.pallas_call(
        partial(_kernel, actions=known.shape[1] - 1),
        grid=(len(places) // ROWS,),
        in_specs=[whole(known), rows, rows, *(jax.tree.map(whole, x) for x in arrays[3:])],
        out_specs=[pl.BlockSpec((ROWS, width), lambda i: (i, 0)) for width in widths],
        out_shape=[jax.ShapeDtypeStruct((len(places), width), jnp.float32) for width in widths],
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=2),
        interpret=interpret,
    )(*arrays)
    return inputs, error


def layers(net: Mlp) -> tuple[Layer, ...]:
    """The layers of a network as arguments of the kernel."""
    return tuple(Layer(x.weight, x.bias) for x in net.layers)  # type: ignore[arg-type]


def _kernel(known, places, discount, direction, successor, target, *out, actions: int) -> None:
    """One program: ROWS transitions. Arrays inside this function stay on the chip."""
    at = places[...]
    first, second = (Layer(x.weight[...], x.bias[...]) for x in successor[:2])
    direction = direction[...][None]

    def look(action: Array, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        most, best = so_far
        hidden = jax.nn.relu(second(jax.nn.relu(first(known[at, 1 + action]))))
        score = jnp.sum(hidden * direction, 1)
        return jnp.maximum(score, most), jnp.where(score > most, action, best)

    nothing = jnp.full(at.shape, -jnp.inf), jnp.zeros(at.shape, jnp.int32)
    _, best = jax.lax.fori_loop(0, actions, look, nothing)
    phi = known[at, 0]
    h1 = jax.nn.relu(first(phi))
    h2 = jax.nn.relu(second(h1))
    for ref, x in zip(out[:3], (phi, h1, h2), strict=True):
        ref[...] = x
    x = known[at, 1 + best]
    for layer in target[:-1]:
        x = jax.nn.relu(layer(x))
    goal = phi + discount[...][:, None] * target[-1](x)
    out[3][...] = successor[2](h2) - goal
