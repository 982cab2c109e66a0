"""Conversion of a pytree to named arrays, and back."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.errors import UserError
from safedsr.types import PyTree


def leaf_names(tree: PyTree) -> list[str]:
    """A name for each leaf: its path in the tree."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths]


def to_arrays(tree: PyTree) -> dict[str, np.ndarray]:
    """A state as named arrays; random keys become arrays of integers."""

    def plain(leaf: Any) -> np.ndarray:
        return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)

    return dict(zip(leaf_names(tree), map(plain, jax.tree.leaves(tree)), strict=True))


def from_arrays(shape: PyTree, arrays: dict[str, np.ndarray], source: str) -> PyTree:
    """The state with the structure of `shape`, from arrays that `to_arrays` returned."""
    names = leaf_names(shape)
    if missing := sorted(set(names) ^ set(arrays)):
        raise UserError(
            f"{source} does not fit these settings: '{missing[0]}' is in only one of them; it was written with "
            "other settings or by another version of safedsr: train again, or continue with that version"
        )

    def fill(name: str, leaf: Any) -> Any:
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        array = jnp.asarray(arrays[name])
        array = jax.random.wrap_key_data(array) if is_key else array
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise UserError(
                f"{source} does not fit these settings: '{name}' is {array.dtype}{list(array.shape)} instead of "
                f"{leaf.dtype}{list(leaf.shape)}; use the settings that it was written with, or train again"
            )
        return array

    leaves, tree = jax.tree.flatten(shape)
    return jax.tree.unflatten(tree, [fill(name, leaf) for name, leaf in zip(names, leaves, strict=True)])
