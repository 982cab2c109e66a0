"""The precision of matrix products."""

import contextlib
import functools
from typing import Any

import jax

from safedsr.core.config import Matmul


def precision(matmul: Matmul) -> contextlib.AbstractContextManager[object]:
    """A context in which matrix products have this precision; on CPUs they are always float32."""
    if matmul != "tensorfloat32x3":
        return jax.default_matmul_precision(matmul)
    return jax.default_matmul_precision("float32" if jax.default_backend() == "cpu" else "TF32_TF32_F32_X3")


def with_precision(function: Any, matmul: Matmul) -> Any:
    """The function with its matrix products in this precision."""

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        with precision(matmul):
            return function(*args)

    return run
