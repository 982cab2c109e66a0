"""Walks through the replay memory: episodes that take no step in the environment and need no simulator."""

import jax
import numpy as np

from safedsr.adapt.costs import stored_steps
from safedsr.envs.environment import Task
from safedsr.envs.memory import remembered
from safedsr.runs.policy import TrainedPolicy


def walking(agent: TrainedPolicy, task: Task) -> Task:
    """The task made of what the agent remembers: its transitions with the costs of this task."""
    environment = agent.job.environment
    steps = stored_steps(agent, task)
    return task._replace(params=remembered(jax.tree.map(np.asarray, steps), environment.spec.actions))
