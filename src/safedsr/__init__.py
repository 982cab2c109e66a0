"""Constrained reinforcement learning where the constraints change.

Names are imported where they are first used, so that `import safedsr` costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from safedsr.registration import register_envs, register_when_needed

if TYPE_CHECKING:
    from safedsr.adapt.costs import Samples
    from safedsr.agent import Agent, load
    from safedsr.config import (
        EpsilonSchedule,
        GridConfig,
        MultiplierConfig,
        OracleConfig,
        SafeDqnConfig,
        SafeDsrConfig,
        TrainConfig,
    )
    from safedsr.errors import UserError
    from safedsr.job import Job, make_environments
    from safedsr.layout import Layout, Scene, make_layout, stack_layouts
    from safedsr.maptext import format_scene, parse_scene
    from safedsr.oracle import find_oracle
    from safedsr.plus_config import SafeDsrPlusConfig
    from safedsr.runs import load_run
    from safedsr.scene import load_scene, with_costs

_HOME = {
    "Agent": "agent",
    "EpsilonSchedule": "config",
    "GridConfig": "config",
    "Job": "job",
    "Layout": "layout",
    "MultiplierConfig": "config",
    "OracleConfig": "config",
    "SafeDqnConfig": "config",
    "SafeDsrConfig": "config",
    "SafeDsrPlusConfig": "plus_config",
    "Samples": "adapt.costs",
    "Scene": "layout",
    "TrainConfig": "config",
    "UserError": "errors",
    "find_oracle": "oracle",
    "format_scene": "maptext",
    "load": "agent",
    "load_run": "runs",
    "load_scene": "scene",
    "make_environments": "job",
    "make_layout": "layout",
    "parse_scene": "maptext",
    "stack_layouts": "layout",
    "with_costs": "scene",
}

__all__ = [
    "Agent",
    "EpsilonSchedule",
    "GridConfig",
    "Job",
    "Layout",
    "MultiplierConfig",
    "OracleConfig",
    "SafeDqnConfig",
    "SafeDsrConfig",
    "SafeDsrPlusConfig",
    "Samples",
    "Scene",
    "TrainConfig",
    "UserError",
    "find_oracle",
    "format_scene",
    "load",
    "load_run",
    "load_scene",
    "make_environments",
    "make_layout",
    "parse_scene",
    "register_envs",
    "stack_layouts",
    "with_costs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'safedsr' has no attribute '{name}'")
    return getattr(importlib.import_module(f"safedsr.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__


register_when_needed()
