"""Agents that know a map from a random walk and have learnt nothing else: networks as they start."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from oracles import slow_step
from probes import STILL
from tiny import tiny_task

from safedsr.agent import Agent
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.equations import DsrPolicy, Phi
from safedsr.agents.safedsr.learner import init
from safedsr.agents.value_based.trainer import Policy
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.core.nets import pair
from safedsr.core.replay import Codec
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.layout import Layout
from safedsr.runs.config import TrainConfig
from safedsr.runs.experience import from_rows, make_experience
from safedsr.runs.job import grid_job

STEPS = 1000
CONFIG: dict[str, Any] = {
    "epsilon": EpsilonSchedule(1.0, 1.0, 0, 0),
    "multiplier": MultiplierConfig(penalty_start=0),
    "gamma": 0.9,
    "batch_size": 32,
    "buffer_size": STEPS,
    "train_start": STEPS,
    "freeze": STEPS,
    "sync_every": 50,
    "features": 8,
    "phi_hidden": (48,),
    "decoder_hidden": (4,),
    "successor_hidden": (16,),
    "reservoir_size": 50,
}
EXACT: dict[str, Any] = {
    "features": 32,
    "phi_hidden": (200,),
    "successor_hidden": (),
    "learning_rate": 0.05,
}


def walked_agent(text: str, budget: float = 1.0, grid: GridConfig = STILL, exact: bool = False) -> Agent:
    """An agent after `STEPS` random steps, with weights that fit its rewards and costs, exactly on request."""
    config = SafeDsrConfig(**{**CONFIG, **(EXACT if exact else {})})
    task = tiny_task(text, budget)
    job = grid_job("safedsr", (task,), (3,), config, grid, TrainConfig(steps=2 * STEPS))
    rows, costs = walk(task.params, grid), len(task.budgets)
    start = init(jax.random.key(3), job.environment.spec, costs, config)
    phi = tell_apart(start.encoder.phi, rows) if exact else start.encoder.phi
    agent = Agent(job, Policy(DsrPolicy(phi, start.successor, start.weights), jnp.full(costs, 0.1)), 0, 3)
    steps = from_rows(rows, np.ones(len(rows), bool), Codec(2, costs))
    agent = agent.changed(experience=make_experience(steps, agent.features, job.environment, task.params))
    return agent.refit(scene_of(task), rewards=True)


def walk(layout: Layout, grid: GridConfig) -> np.ndarray:
    """Random steps of the slow grid, as a trainer remembers them."""
    rng = np.random.default_rng(0)
    goal = int(layout.goal[0]), int(layout.goal[1])
    x, y = start = (np.float32(layout.starts[0][0] + 0.5), np.float32(layout.starts[0][1] + 0.5))
    rows, time = [], 0
    for action in rng.integers(4, size=STEPS):
        length = np.float32(grid.step_mean + grid.step_std * rng.normal())
        out = slow_step(layout.walls, layout.costs, goal, (x, y), int(action), length, time, grid.time_limit)
        obs = np.array([x, y]) / layout.scale
        rows.append([*obs, action, out.reward, out.terminated, *out.obs, *out.cost])
        done = out.terminated or out.truncated
        (x, y), time = (start, 0) if done else ((out.x, out.y), time + 1)
    return np.array(rows, np.float32)


def tell_apart(phi: Phi, rows: np.ndarray) -> Phi:
    """A network whose features are a unit vector for each of the few steps that a walk without noise can take."""
    steps = np.unique(rows[:, :3], axis=0)
    inputs = jax.vmap(pair, (0, 0, None))(jnp.asarray(steps[:, :2]), jnp.asarray(steps[:, 2], jnp.int32), 4)
    hidden = np.asarray(jax.vmap(phi.hidden)(inputs), np.float64)
    size = phi.layers[-1].weight.shape[0]
    weight = np.linalg.lstsq(hidden, np.eye(len(steps), size))[0].T
    numbers = jnp.asarray(weight, jnp.float32), jnp.zeros(size)
    return eqx.tree_at(lambda net: (net.layers[-1].weight, net.layers[-1].bias), phi, numbers)
