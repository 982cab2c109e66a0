"""Constrained reinforcement learning with constraints that change.

Names are imported when they are first used, so that `import safedsr` is fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

from safedsr.envs.registration import register_envs, register_when_needed

if TYPE_CHECKING:
    from safedsr.adapt.costs import Samples
    from safedsr.agent import Agent, load, pretrained
    from safedsr.agents.plus.config import SafeDsrPlusConfig
    from safedsr.agents.safedqn.config import SafeDqnConfig
    from safedsr.agents.safedsr.config import SafeDsrConfig
    from safedsr.api import train
    from safedsr.core.config import EpsilonSchedule, MultiplierConfig
    from safedsr.engine.progress import Progress
    from safedsr.envs.environment import Environment, Spec, Step, Task
    from safedsr.envs.grid.catalog import load_scene, with_costs
    from safedsr.envs.grid.config import GridConfig, OracleConfig
    from safedsr.envs.grid.layout import Layout, Scene, make_layout, stack_layouts
    from safedsr.envs.grid.oracle import find_oracle
    from safedsr.envs.grid.text import format_scene, parse_scene
    from safedsr.errors import UserError
    from safedsr.runs.config import TrainConfig
    from safedsr.runs.folder import load_run
    from safedsr.runs.job import Job, grid_job, tasks_for

_HOME = {
    "Agent": "agent",
    "Environment": "envs.environment",
    "EpsilonSchedule": "core.config",
    "GridConfig": "envs.grid.config",
    "Job": "runs.job",
    "Layout": "envs.grid.layout",
    "MultiplierConfig": "core.config",
    "OracleConfig": "envs.grid.config",
    "SafeDqnConfig": "agents.safedqn.config",
    "SafeDsrConfig": "agents.safedsr.config",
    "SafeDsrPlusConfig": "agents.plus.config",
    "Samples": "adapt.costs",
    "Spec": "envs.environment",
    "Step": "envs.environment",
    "Task": "envs.environment",
    "Progress": "engine.progress",
    "Scene": "envs.grid.layout",
    "TrainConfig": "runs.config",
    "UserError": "errors",
    "find_oracle": "envs.grid.oracle",
    "format_scene": "envs.grid.text",
    "load": "agent",
    "load_run": "runs.folder",
    "load_scene": "envs.grid.catalog",
    "tasks_for": "runs.job",
    "train": "api",
    "grid_job": "runs.job",
    "make_layout": "envs.grid.layout",
    "parse_scene": "envs.grid.text",
    "pretrained": "agent",
    "stack_layouts": "envs.grid.layout",
    "with_costs": "envs.grid.catalog",
}

__all__ = [
    "Agent",
    "Environment",
    "EpsilonSchedule",
    "GridConfig",
    "Job",
    "Layout",
    "MultiplierConfig",
    "OracleConfig",
    "Progress",
    "SafeDqnConfig",
    "SafeDsrConfig",
    "SafeDsrPlusConfig",
    "Samples",
    "Scene",
    "Spec",
    "Step",
    "Task",
    "TrainConfig",
    "UserError",
    "find_oracle",
    "format_scene",
    "grid_job",
    "load",
    "load_run",
    "load_scene",
    "make_layout",
    "parse_scene",
    "pretrained",
    "register_envs",
    "stack_layouts",
    "tasks_for",
    "train",
    "with_costs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'safedsr' has no attribute '{name}'")
    return getattr(importlib.import_module(f"safedsr.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__


register_when_needed()
