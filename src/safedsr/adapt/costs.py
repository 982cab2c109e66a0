"""What counts as new costs: a name, a file, an array, a map, a function of the position, or labelled steps."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from safedsr.envs.environment import Task
from safedsr.envs.grid import physics
from safedsr.envs.grid.catalog import with_costs
from safedsr.envs.grid.config import DEFAULT_BUDGET
from safedsr.envs.grid.environment import end, grid_task, scene_of
from safedsr.envs.grid.layout import Layout, Scene
from safedsr.errors import UserError
from safedsr.runs.experience import FIT_STEPS, Experience, relabelled
from safedsr.runs.policy import TrainedPolicy
from safedsr.types import PyTree
from safedsr.validation import parse_budgets


class Samples(NamedTuple):
    """Labelled steps: what it cost to take an action at an observation."""

    obs: Any  # [n, 2]
    action: Any  # [n]
    cost: Any  # [n] or [n, J]


# A function takes arrays x, y of positions in cells and gives costs of their shape, or [J, …].
Costs = str | Sequence[str] | np.ndarray | Layout | Scene | Samples | Callable[[np.ndarray, np.ndarray], Any]


class FitSet(NamedTuple):
    """What cost weights are fitted to."""

    phi: np.ndarray  # [n, d]
    gram: np.ndarray  # [d, d] ΦᵀΦ
    cost: np.ndarray  # [n, J]


def learner_of(agent: TrainedPolicy) -> PyTree:
    """φ, M and the weights of an agent that has them."""
    if agent.trainer.adaptable is None:
        raise UserError(
            f"{agent.job.algorithm} has no cost weights that could be fitted anew; adapt a 'safedsr-plus' agent"
        )
    return agent.policy.learner


def experience_of(agent: TrainedPolicy) -> Experience:
    """What the agent remembers."""
    learner_of(agent)
    if agent.experience is None:
        raise UserError(
            "this policy has no refit set: there is no memory.safetensors beside its policy.safetensors; copy it from "
            "its run folder, or let the training of this version write one (safedsr train … --resume)"
        )
    return agent.experience


def task_of(agent: TrainedPolicy, costs: Costs | None, budget: Any = None) -> Task:
    """The agent's task with other costs and budgets, to simulate episodes in."""
    if costs is None:
        return agent.task._replace(budgets=budgets_for(agent.task, len(agent.task.budgets), budget))
    scene = changed_scene(scene_of(agent.task), costs)
    return grid_task(scene, budgets_for(agent.task, len(scene.cost_names), budget))


def budgets_for(trained: Task, count: int, budget: Any = None) -> tuple[float, ...]:
    """The budgets given, or those it was trained with if they fit the number of costs, or the usual one."""
    if budget is None and count == len(trained.budgets):
        return trained.budgets
    return parse_budgets(DEFAULT_BUDGET if budget is None else budget, count)


def changed_scene(scene: Scene, costs: Costs) -> Scene:
    """The same map with other costs; a function is read at the centres of the cells."""
    if isinstance(costs, Samples):
        raise UserError("labelled steps say nothing about the rest of the map; refit takes them, else give a cost map")
    if isinstance(costs, Scene | Layout):
        layout, names = (costs.layout, costs.cost_names) if isinstance(costs, Scene) else (costs, None)
        require_same_map(layout, scene)
        drawn = with_costs(scene, np.asarray(layout.costs))
        return drawn if names is None else Scene(scene.name, drawn.layout, names)
    if callable(costs):
        rows, columns = np.indices(scene.layout.walls.shape)
        return with_costs(scene, np.where(scene.layout.walls, 0, call(costs, columns + 0.5, rows + 0.5)))
    return with_costs(scene, costs)


def require_same_map(layout: Layout, scene: Scene) -> None:
    """Raise unless a map differs from a scene's in nothing but its costs."""
    mine = scene.layout
    if np.shape(layout.walls) != np.shape(mine.walls):
        sizes = [" × ".join(map(str, np.shape(x.walls))) for x in (layout, mine)]
        raise UserError(f"this is another map, {sizes[0]} cells; the agent knows '{scene.name}', {sizes[1]} cells")
    if not np.array_equal(layout.walls, mine.walls) or not np.array_equal(layout.goal, mine.goal):
        raise UserError(
            f"this map has other walls or another goal than '{scene.name}', which the agent knows; its costs may "
            "change: train anew for another map"
        )


def call(function: Callable[[np.ndarray, np.ndarray], Any], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What a cost function says at positions of any shape: an array [J, *shape]."""
    found = np.asarray(function(x, y), np.float64)
    layers = found[None] if found.shape == x.shape else found
    if layers.ndim != x.ndim + 1 or layers.shape[1:] != x.shape:
        raise UserError(
            f"the cost function gave an array of shape {found.shape} for positions of shape {x.shape}; it takes arrays "
            "x and y and gives a cost for each, or [J, …] for several"
        )
    return layers


def fit_set(agent: TrainedPolicy, costs: Costs) -> FitSet:
    """What the agent remembers, labelled with the costs; or the labelled steps that were given."""
    experience, scene = experience_of(agent), scene_of(agent.task)
    if isinstance(costs, Samples):
        samples = check_samples(costs, scene)
        known = agent.features(samples.obs, samples.action)
        return FitSet(known, known.T @ known, samples.cost)
    known = agent.features(experience.steps.obs[:FIT_STEPS], experience.steps.action[:FIT_STEPS])
    if callable(costs):
        fit = jax.tree.map(lambda x: x[:FIT_STEPS], experience.steps)
        x, y = np.asarray(jax.vmap(end, (0, None))(fit, scene.layout), np.float64).T
        cost = _check_cost(call(costs, x, y).T)
    else:
        layout = changed_scene(scene, costs).layout
        cost = np.asarray(relabelled(experience, agent.job.environment, layout, FIT_STEPS).cost, np.float64)
    return FitSet(known, experience.gram, cost)


def check_samples(samples: Samples, scene: Scene) -> Samples:
    """The samples as arrays [n, 2], [n] and [n, J], if all of them lie on the map."""
    obs, action = np.asarray(samples.obs, np.float32), np.asarray(samples.action)
    cost = np.asarray(samples.cost, np.float64)
    cost = cost[:, None] if cost.ndim == 1 else cost
    if obs.ndim != 2 or obs.shape[1] != 2 or action.shape != obs.shape[:1] or cost.shape[:1] != obs.shape[:1]:
        raise UserError(
            f"labelled steps have shapes {obs.shape}, {action.shape} and {cost.shape}; give obs [n, 2], action [n] and "
            "cost [n] or [n, J]"
        )
    if not np.isin(action, range(physics.NUM_ACTIONS)).all():
        raise UserError(
            f"actions are 0 … {physics.NUM_ACTIONS - 1} ({', '.join(physics.ACTIONS)}); the labels have others"
        )
    finite = np.isfinite(obs)
    blocked = np.asarray(_blocked(np.where(finite, obs, -1) * scene.layout.scale, scene.layout))
    for n in np.nonzero(blocked)[0]:
        x, y = obs[n]
        raise UserError(
            f"label {n + 1} at observation ({x:g}, {y:g}) is off the map or in a wall; an observation is a position in "
            f"cells divided by {float(scene.layout.scale):g}"
        )
    return Samples(obs, action, _check_cost(cost))


_blocked = jax.jit(jax.vmap(physics.blocked, (0, None)))


def _check_cost(cost: np.ndarray) -> np.ndarray:
    if not (np.isfinite(cost) & (cost >= 0)).all():
        raise UserError("some of the costs are negative or not finite; costs are finite and at least 0")
    return cost
