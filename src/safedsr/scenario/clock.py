"""Seconds of work: the time that has passed without that of compiling programs, where JAX reports it."""

import time

from jax import monitoring

COMPILING = ("/jax/core/compile/jaxpr_to_mlir_module_duration", "/jax/core/compile/backend_compile_duration")
_compiling = [0.0]


def _listen(event: str, duration_secs: float, **_: str | int) -> None:
    if event in COMPILING:
        _compiling[0] += duration_secs


monitoring.register_event_duration_secs_listener(_listen)


def worked() -> float:
    """A clock in seconds that stands still while a program is compiled; only differences mean something."""
    return time.perf_counter() - _compiling[0]
