"""Walks through the replay memory: episodes that take no step in the environment and need no simulator."""

import jax
import numpy as np

from safedsr.adapt.costs import stored_steps
from safedsr.envs.environment import Task
from safedsr.envs.memory import remembered
from safedsr.runs.policy import TrainedPolicy
from safedsr.types import Transition


def walking(agent: TrainedPolicy, task: Task) -> Task:
    """The task made of what the agent remembers: its transitions with the costs of this task."""
    return through(agent, task, stored_steps(agent, task))


def through(agent: TrainedPolicy, task: Task, steps: Transition) -> Task:
    """The task made of these transitions.

    If the return decides among policies that keep the budget of an episode, the best one is often at the edge of what
    is allowed. Such walks are disturbed, so that a policy has to keep a distance from the edge.
    """
    terms = agent.job.terms
    known = jax.tree.map(np.asarray, steps)
    actions, edge = agent.job.environment.spec.actions, not terms.goals and not terms.on_mean
    return task._replace(params=remembered(known, actions, disturbed=edge))
