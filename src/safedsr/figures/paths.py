"""Episodes of agents as lists of positions, for pictures of maps."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Task
from safedsr.envs.grid import physics
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.paths import episode_paths
from safedsr.runs.policy import TrainedPolicy


def agent_paths(agent: TrainedPolicy, task: Task, epsilons: Sequence[float]) -> list[np.ndarray]:
    """The positions of one episode of the agent for each ε; of a mixture, the λ take turns."""
    if agent.mixture:
        both = [agent_paths(part, task, epsilons) for part in agent.parts]
        return [both[n % 2][n] for n in range(len(epsilons))]
    layout = scene_of(task).layout

    def best(state: physics.GridState) -> Array:
        return jnp.argmax(agent.values_of(agent.policy, physics.observe(state, layout)).score)

    return episode_paths(best, layout, epsilons, GridConfig(**agent.job.environment.settings))
