"""An agent's state as a few arrays, for compiled functions that are called at every step.

JAX needs some microseconds for each array that a compiled function gets or returns, for each random key and for each
nested record. A state has about forty arrays, most of them small. Here small arrays lie one after another in two boxes,
one of floats and one of whole numbers; each large array is a box of its own.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.types import PyTree

SMALL = 4096  # numbers; copying more takes longer than one more array


class Boxes:
    """The boxes of a state of this shape; the leaves with the numbers `moved` have boxes of their own, the first."""

    def __init__(self, shape: PyTree, moved: set[int]) -> None:
        leaves, self._tree = jax.tree.flatten(shape)
        self._keys = [_is_key(leaf) for leaf in leaves]
        self._shapes = jax.eval_shape(lambda leaves: [_plain(leaf) for leaf in leaves], leaves)
        found: dict[Any, list[int]] = {}
        for n, leaf in enumerate(self._shapes):
            alone = n if leaf.size > SMALL else -1
            found.setdefault((n not in moved, alone, leaf.dtype != jnp.float32), []).append(n)
        self._contents = [found[about] for about in sorted(found)]  # numbers of the leaves in each box
        self.moved = sum(1 for about in found if not about[0])  # number of boxes with leaves that move

    def close(self, state: PyTree) -> list[Array]:
        """The boxes of a state."""
        leaves = [_plain(leaf) for leaf in jax.tree.leaves(state)]
        return [
            leaves[numbers[0]] if self._is_large(numbers) else jnp.concatenate([_flat(leaves[n]) for n in numbers])
            for numbers in self._contents
        ]

    def open(self, boxes: list[Array]) -> PyTree:
        """The state in some boxes."""
        leaves: list[Any] = [None] * len(self._shapes)
        for box, numbers in zip(boxes, self._contents, strict=True):
            ends = np.cumsum([self._shapes[n].size for n in numbers])[:-1].tolist()
            parts = [box] if self._is_large(numbers) else jnp.split(box, ends)
            for n, part in zip(numbers, parts, strict=True):
                leaf = _like(part, self._shapes[n])
                leaves[n] = jax.random.wrap_key_data(leaf) if self._keys[n] else leaf
        return self._tree.unflatten(leaves)

    def of(self, leaves: set[int]) -> list[int]:
        """Numbers of the boxes with any of these leaves."""
        return [box for box, numbers in enumerate(self._contents) if leaves.intersection(numbers)]

    def _is_large(self, numbers: list[int]) -> bool:
        return self._shapes[numbers[0]].size > SMALL


def changed_leaves(function: Callable[..., PyTree], state: PyTree, *rest: Any) -> set[int]:
    """Numbers of the leaves of a state that a function (state, …) -> state changes."""
    leaves, tree = jax.tree.flatten(state)

    def flat(leaves: list[Array], *rest: Any) -> list[Array]:
        return jax.tree.leaves(function(tree.unflatten(leaves), *rest))

    traced = jax.make_jaxpr(flat)(leaves, *rest).jaxpr
    pairs = zip(traced.invars[: len(leaves)], traced.outvars, strict=True)
    return {n for n, (before, after) in enumerate(pairs) if before is not after}


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Array) -> Array:
    """An array without random keys."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _flat(leaf: Array) -> Array:
    """An array as a vector of float32 or int32."""
    if leaf.dtype == jnp.bool_:
        leaf = leaf.astype(jnp.int32)
    return leaf.ravel() if leaf.dtype == jnp.float32 else jax.lax.bitcast_convert_type(leaf, jnp.int32).ravel()


def _like(part: Array, like: Any) -> Array:
    """What `_flat` made a vector of."""
    part = part.reshape(like.shape)
    if like.dtype == jnp.bool_:
        return part != 0
    return part if part.dtype == like.dtype else jax.lax.bitcast_convert_type(part, like.dtype)
