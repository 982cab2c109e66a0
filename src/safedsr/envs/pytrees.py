"""Pytrees of an environment as plain numbers: its observations as vectors, and its parameters by name."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import ENDLESS
from safedsr.errors import UserError, unknown
from safedsr.types import PyTree


class View(NamedTuple):
    """Observations as vectors, and back."""

    like: PyTree  # shapes and types of an observation
    values: int  # number of values of a discrete observation, which becomes a one-hot vector; else 0

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.values or sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.like))

    def flatten(self, obs: PyTree) -> Array:
        """An observation as a vector of float32."""
        if self.values:
            return jax.nn.one_hot(obs, self.values, dtype=jnp.float32)
        return jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(obs)])

    def restore(self, vector: Array) -> PyTree:
        """The observation of a vector."""
        leaves, tree = jax.tree.flatten(self.like)
        if self.values:
            return jnp.argmax(vector).astype(leaves[0].dtype)
        parts = jnp.split(vector, np.cumsum([math.prod(leaf.shape) for leaf in leaves])[:-1])
        return tree.unflatten(
            [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)]
        )


def bounds(space: Any, view: View) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Lower and upper bounds of the vector; None if there are none."""
    if view.values:
        return (0.0,) * view.size, (1.0,) * view.size
    given = [np.ravel(np.asarray(getattr(space, name, None), np.float64)) for name in ("low", "high")]
    if any(one.size not in (1, view.size) for one in given):
        return None, None
    low, high = (np.broadcast_to(one, view.size) for one in given)
    some = low < high  # not so where a number is always the same
    low = np.where(some & (low >= -ENDLESS), low, -np.inf)
    high = np.where(some & (high <= ENDLESS), high, np.inf)
    if np.isinf([low, high]).all():
        return None, None
    return tuple(low.tolist()), tuple(high.tolist())


def as_jax(params: PyTree) -> PyTree:
    """Parameters as arrays of JAX, which traced numbers can index."""
    return jax.tree.map(jnp.asarray, params)


def as_numpy(params: PyTree) -> PyTree:
    """Parameters as arrays of NumPy, with the types that JAX gives them."""
    return jax.tree.map(lambda leaf: np.asarray(jnp.asarray(leaf)), params)


def leaves_by_name(tree: PyTree) -> dict[str, Any]:
    """The leaves by name."""
    named, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in named}


def changes(params: PyTree, usual: PyTree) -> dict[str, Any]:
    """The parameters that are not as usual, as JSON."""
    before = leaves_by_name(usual)
    return {
        name: leaf.tolist()
        for name, leaf in leaves_by_name(params).items()
        if name not in before or not np.array_equal(leaf, before[name])
    }


def with_numbers(params: PyTree, numbers: Mapping[str, Any]) -> PyTree:
    """The environment's parameters with some of them replaced."""
    known = leaves_by_name(params)
    for name in numbers:
        if name not in known:
            raise unknown("parameter of the environment", name, known)
    leaves = [_number(name, numbers.get(name, leaf), leaf) for name, leaf in known.items()]
    return jax.tree.structure(params).unflatten(leaves)


def _number(name: str, value: Any, default: np.ndarray) -> np.ndarray:
    """A parameter of the environment, of the same type and shape as its default."""
    kinds = "biuf" if default.dtype.kind == "f" else "biu"
    try:
        given = np.asarray(value)
    except ValueError:
        given = np.asarray(None)
    if given.dtype.kind not in kinds or given.shape != default.shape:
        raise UserError(f"the parameter '{name}' of the environment is {value!r}; give such as {default.tolist()!r}")
    return given.astype(default.dtype)
