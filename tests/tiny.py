"""The smallest settings under which the agents still do everything: collect, learn, freeze φ, tune λ."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.safedqn.config import SafeDqnConfig
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.equations import Phi
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.engine.program import Program
from safedsr.envs.environment import Task
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import grid_task
from safedsr.envs.grid.text import parse_scene
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job, grid_job
from safedsr.types import Record

CORRIDOR = "SCG"
GRID = GridConfig(time_limit=12)
SHARED: dict[str, Any] = {
    "epsilon": EpsilonSchedule(1.0, 0.2, 20, 100),
    "multiplier": MultiplierConfig(penalty_start=60, lam_lr=0.0625),
    "batch_size": 8,
    "buffer_size": 40,
    "train_start": 20,
    "train_every": 5,
    "sync_every": 20,
}
DSR: dict[str, Any] = {
    "update_steps": 2,
    "freeze": 60,
    "features": 6,
    "phi_hidden": (8,),
    "decoder_hidden": (8,),
    "successor_hidden": (8,),
    "reservoir_size": 8,
}

PLUS: dict[str, Any] = {
    "multiplier": MultiplierConfig(rule="chance", penalty_start=60, lam_start=0.25, lam_step=0.125, after_goal=True),
    "update_steps": 2,
    "kept": 8,
    "octaves": 2,
    "trunk": 8,
    "head": 4,
    "phi_batch": 4,
}


def tiny_agent(name: str, **changes: Any) -> Any:
    """The configuration of an agent with tiny networks and buffers."""
    if name == "safedsr-plus":
        return SafeDsrPlusConfig(**{**SHARED, **PLUS, **changes})
    if name in ("safedsr", "dsr"):
        return SafeDsrConfig(**{**SHARED, **DSR, **changes})
    return SafeDqnConfig(**{**SHARED, "hidden": (8,), **changes})


def tiny_task(text: str = CORRIDOR, budget: float = 1.0, name: str = "corridor") -> Task:
    """A map with the same budget for each of its costs."""
    scene = parse_scene(text, name)
    return grid_task(scene, (budget,) * len(scene.cost_names))


def tiny_job(
    name: str,
    *texts: str,
    seeds: tuple[int, ...] = (0, 1),
    steps: int = 160,
    chunk: int | None = 20,
    trajectories: int = 0,
    grid: GridConfig = GRID,
    **changes: Any,
) -> Job:
    """A job on the given maps (a corridor if none is given) that saves after every chunk."""
    train = TrainConfig(steps=steps, chunk=chunk, checkpoint_seconds=0, trajectories=trajectories)
    tasks = tuple(tiny_task(text) for text in texts or (CORRIDOR,))
    return grid_job(name, tasks, seeds, tiny_agent(name, **changes), grid, train)


def same_trees(one: Any, other: Any) -> bool:
    """Whether two pytrees are equal bit for bit."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return jax.tree.structure(one) == jax.tree.structure(other) and all(np.array_equal(a, b) for a, b in pairs)


def linear(weight: Any, bias: Any) -> Phi:
    """A network of one layer with these numbers."""
    weight, bias = jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32)
    net = Phi(weight.shape[::-1], key=jax.random.key(0))
    return eqx.tree_at(lambda n: (n.layers[0].weight, n.layers[0].bias), net, (weight, bias))


def advance(program: Program, state: Any, step: int, phase: str, periods: int = 1) -> tuple[Any, Record, dict]:
    """Whole periods in any phase, also one that would not be due at that step; `state` stays usable."""
    copy = jax.tree.map(jnp.copy, state)
    return program._advance(copy, program.params, program.aim, jnp.int32(step), phase=phase, periods=periods)
