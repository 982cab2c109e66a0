"""Environments: the type `Environment`, the grid, and adapters for Gymnasium and gymnax."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safedsr.envs.environment import make_task
    from safedsr.envs.gymnax import from_gymnax
    from safedsr.envs.host import from_gymnasium

_HOME = {"from_gymnasium": "host", "from_gymnax": "gymnax", "make_task": "environment"}

__all__ = ["from_gymnasium", "from_gymnax", "make_task"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'safedsr.envs' has no attribute '{name}'")
    return getattr(importlib.import_module(f"safedsr.envs.{_HOME[name]}"), name)
