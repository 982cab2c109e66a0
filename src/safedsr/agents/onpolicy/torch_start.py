"""Initial networks as in PyTorch after `torch.manual_seed(seed)`: a Mersenne Twister, and OmniSafe's order of layers.

Results of ten seeds depend strongly on the initial networks, so a comparison with published seeds needs the same ones.
"""

from collections.abc import Iterator
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from safedsr.core.nets import Mlp

LENGTH, SHIFT = 624, 397  # of the state of the Mersenne Twister


def numbers(seed: Array, count: int) -> Array:
    """The first `count` 32-bit numbers of the Mersenne Twister MT19937."""

    def grow(last: Array, i: Array) -> tuple[Array, Array]:
        following = jnp.uint32(1812433253) * (last ^ (last >> 30)) + i
        return following, following

    first = jnp.asarray(seed, jnp.uint32)
    _, rest = jax.lax.scan(grow, first, jnp.arange(1, LENGTH, dtype=jnp.uint32))
    state = jnp.concatenate([first[None], rest])
    _, states = jax.lax.scan(lambda s, _: (_twist(s), _twist(s)), state, length=-(-count // LENGTH))
    y = states.ravel()[:count]
    y ^= y >> 11
    y ^= (y << 7) & jnp.uint32(0x9D2C5680)
    y ^= (y << 15) & jnp.uint32(0xEFC60000)
    return y ^ (y >> 18)


def _twist(old: Array) -> Array:
    """The next state, computed in parts, because later parts depend on new numbers of earlier parts."""

    def mixed(here: Array, following: Array, far: Array) -> Array:
        y = (here & jnp.uint32(0x80000000)) | (following & jnp.uint32(0x7FFFFFFF))
        return far ^ (y >> 1) ^ jnp.where(y & 1 == 1, jnp.uint32(0x9908B0DF), jnp.uint32(0))

    stretch = LENGTH - SHIFT
    one = mixed(old[:stretch], old[1 : stretch + 1], old[SHIFT:])
    two = mixed(old[stretch : 2 * stretch], old[stretch + 1 : 2 * stretch + 1], one)
    three = mixed(old[2 * stretch : -1], old[2 * stretch + 1 :], two[: LENGTH - 1 - 2 * stretch])
    last = mixed(old[-1:], one[:1], jnp.concatenate([one, two])[SHIFT - 1 : SHIFT])
    return jnp.concatenate([one, two, three, last])


def start(seed: Array, nets: list[Mlp]) -> list[Mlp]:
    """The networks with the weights that PyTorch would draw for them, one network after the other.

    OmniSafe draws the weights of a layer twice: when the layer is created, and again by its own initialiser.
    """
    sizes = [(layer.weight.shape, layer.bias.shape) for net in nets for layer in net.layers]  # type: ignore[union-attr]
    draws = [2 * m * n + m for (m, n), _ in sizes]
    uniform = (numbers(seed, sum(draws)) & jnp.uint32(2**24 - 1)).astype(jnp.float32) / 2**24
    ends = [sum(draws[:i]) for i in range(len(draws) + 1)]
    parts = iter([uniform[a:b] for a, b in pairwise(ends)])
    return [_fill(net, parts) for net in nets]


def _fill(net: Mlp, parts: Iterator[Array]) -> Mlp:
    layers = []
    for layer in net.layers:
        (m, n), part = layer.weight.shape, next(parts)
        values = (2 * part - 1) * n**-0.5
        weight, bias = values[-m * n :].reshape(m, n), values[m * n : m * n + m]
        layers.append(eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (weight, bias)))
    return eqx.tree_at(lambda net: net.layers, net, tuple(layers))
