"""New costs: given as a name, a file, an array, a map, a function of the position, or labelled steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.agents.value_based.trainer import Policy
from safedsr.core.units import Units, units
from safedsr.envs.environment import Task, make_task, with_cost_args
from safedsr.envs.functions import NeedsInfo
from safedsr.envs.grid import physics
from safedsr.envs.grid.catalog import FINE, with_costs
from safedsr.envs.grid.config import DEFAULT_BUDGET
from safedsr.envs.grid.environment import end, grid_task, scene_of
from safedsr.envs.grid.layout import Layout, Scene, coarsest, finer
from safedsr.errors import UserError
from safedsr.runs.experience import FIT_STEPS, Experience, check_cost, relabelled
from safedsr.runs.policy import TrainedPolicy
from safedsr.types import PyTree, Transition
from safedsr.validation import LARGEST, parse_budgets, require, shown


class Samples(NamedTuple):
    """Labelled steps: the cost of an action at an observation."""

    obs: Any  # [n, 2]
    action: Any  # [n]
    cost: Any  # [n] or [n, J]


class Arguments(NamedTuple):
    """Parameters of cost functions; the others stay as they are, or have their defaults if the functions are new."""

    values: Mapping[str, Any]
    anew: bool = False


# A function takes arrays x, y of positions in cells and returns costs of the same shape, or [J, …].
# A mapping gives other parameters of the environment's cost functions.
Costs = (
    str
    | Sequence[str]
    | np.ndarray
    | Layout
    | Scene
    | Task
    | Samples
    | Mapping[str, Any]
    | Arguments
    | Callable[[np.ndarray, np.ndarray], Any]
)


class FitSet(NamedTuple):
    """The data that cost weights are fitted to."""

    phi: np.ndarray  # [n, d]
    gram: np.ndarray  # [d, d] ΦᵀΦ
    cost: np.ndarray  # [n, J]


def learner_of(agent: TrainedPolicy) -> PyTree:
    """φ, M and the weights of the agent; raises if it has none."""
    if agent.trainer.adaptable is None:
        raise UserError(f"{agent.job.algorithm} has no cost weights to fit to new costs; adapt a 'safedsr-plus' agent")
    return agent.policy.learner


def units_of(agent: TrainedPolicy, task: Task) -> Units | None:
    """The units of rewards and of the costs of a task; None if the agent does not use units."""
    signals = agent.policy.signals if isinstance(agent.policy, Policy) else None
    return None if signals is None else units(signals, jnp.asarray(task.budgets, jnp.float32))


def experience_of(agent: TrainedPolicy) -> Experience:
    """The agent's replay memory; raises if it has none."""
    learner_of(agent)
    if agent.experience is None:
        raise UserError(
            "this policy has no replay memory to fit weights on: there is no memory.safetensors beside its "
            "policy.safetensors; copy it from the run folder, or write it with 'safedsr train … --resume'"
        )
    return agent.experience


def task_of(agent: TrainedPolicy, costs: Costs | None, budget: Any = None) -> Task:
    """The agent's task with other costs and budgets, for simulated episodes."""
    if costs is None:
        return agent.task._replace(budgets=budgets_for(agent.task, len(agent.task.budgets), budget))
    if isinstance(costs, Task):
        count = len(costs.cost_names)
        return costs._replace(budgets=parse_budgets(costs.budgets if budget is None else budget, count))
    if isinstance(costs, Mapping):
        costs = Arguments(costs)
    if isinstance(costs, Arguments):
        environment = agent.job.environment
        budgets = budgets_for(agent.task, environment.spec.costs, budget)
        if costs.anew:
            return make_task(environment, budgets, costs.values)
        task = agent.task._replace(budgets=budgets)
        return with_cost_args(environment, task, costs.values) if costs.values else task
    scene = changed_scene(scene_of(agent.task), costs)
    return grid_task(scene, budgets_for(agent.task, len(scene.cost_names), budget))


def budgets_for(trained: Task, count: int, budget: Any = None) -> tuple[float, ...]:
    """The given budgets; else those of training, if there are as many as costs; else the default budget."""
    if budget is None and count == len(trained.budgets):
        return trained.budgets
    return parse_budgets(DEFAULT_BUDGET if budget is None else budget, count)


def changed_scene(scene: Scene, costs: Any) -> Scene:
    """The same map with other costs; a cost function is evaluated at `FINE` × `FINE` points of each cell."""
    if isinstance(costs, Samples):
        raise UserError("labelled steps do not give the costs of the whole map; pass them to refit, or give a map")
    if isinstance(costs, Scene | Layout):
        layout, names = (costs.layout, costs.cost_names) if isinstance(costs, Scene) else (costs, None)
        require_same_map(layout, scene)
        drawn = with_costs(scene, np.asarray(layout.costs))
        return drawn if names is None else Scene(scene.name, drawn.layout, names)
    if callable(costs):
        walls = finer(np.asarray(scene.layout.walls)[None], FINE)[0]
        rows, columns = (np.indices(walls.shape) + 0.5) / FINE
        return with_costs(scene, coarsest(np.where(walls, 0, call(costs, columns, rows)), FINE))
    return with_costs(scene, costs)


def require_same_map(layout: Layout, scene: Scene) -> None:
    """Raise if a map and a scene differ in more than their costs."""
    mine = scene.layout
    if np.shape(layout.walls) != np.shape(mine.walls):
        sizes = [" × ".join(map(str, np.shape(x.walls))) for x in (layout, mine)]
        raise UserError(
            f"this map has {sizes[0]} cells; the agent was trained on '{scene.name}' with {sizes[1]} cells: only costs "
            "can change, train again for another map"
        )
    if not np.array_equal(layout.walls, mine.walls) or not np.array_equal(layout.goal, mine.goal):
        raise UserError(
            f"this map has other walls or another goal than '{scene.name}', on which the agent was trained: only costs "
            "can change, train again for another map"
        )


def call(function: Callable[[np.ndarray, np.ndarray], Any], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The costs [J, *shape] that a cost function returns for positions of any shape."""
    try:
        found = np.asarray(function(x, y), np.float64)
    except Exception as error:
        raise UserError(f"the cost function raised {type(error).__name__}: {error}") from error
    layers = found[None] if found.shape == x.shape else found
    if layers.ndim != x.ndim + 1 or layers.shape[1:] != x.shape:
        raise UserError(
            f"the cost function returned shape {found.shape} for positions of shape {x.shape}; it must take arrays x "
            "and y and return a cost for each position, or [J, …] for several costs"
        )
    return layers


def stored_steps(agent: TrainedPolicy, task: Task, most: int | None = None) -> Transition:
    """The first `most` steps (default: all) of the agent's replay memory, with the costs of this task.

    Costs from `info` cannot be computed again. They stay as they are if the task differs in its budget alone.
    """
    experience = experience_of(agent)
    try:
        return relabelled(experience, agent.job.environment, task.params, most)
    except NeedsInfo:
        if task.params is not agent.task.params:
            raise
        return jax.tree.map(lambda x: x[:most], experience.steps)


def fit_set(agent: TrainedPolicy, costs: Costs) -> FitSet:
    """Steps of the agent's replay memory, labelled with the new costs; or the labelled steps that were given."""
    experience = experience_of(agent)
    if isinstance(costs, Samples):
        samples = check_samples(costs, agent)
        known = agent.features(samples.obs, samples.action)
        return FitSet(known, known.T @ known, samples.cost)
    known = agent.features(experience.steps.obs[:FIT_STEPS], experience.steps.action[:FIT_STEPS])
    if callable(costs):
        fit = jax.tree.map(lambda x: x[:FIT_STEPS], experience.steps)
        x, y = np.asarray(jax.vmap(end, (0, None))(fit, scene_of(agent.task).layout), np.float64).T
        cost = check_cost(call(costs, x, y).T)
    else:
        steps = stored_steps(agent, task_of(agent, costs), FIT_STEPS)
        cost = np.asarray(steps.cost, np.float64)
    return FitSet(known, experience.gram, cost)


def as_array(values: Any, name: str) -> np.ndarray:
    """Numbers as an array of float64; raises unless they are finite."""
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name} is {shown(values)}; give an array of numbers") from None
    require(bool((np.abs(found) <= LARGEST).all()), name, values, "give finite numbers")
    return found


def check_samples(samples: Samples, agent: TrainedPolicy) -> Samples:
    """The samples as arrays [n, observations], [n] and [n, J]; on the grid, all of them must be on the map."""
    spec = agent.job.environment.spec
    obs, action = as_array(samples.obs, "obs").astype(np.float32), as_array(samples.action, "action")
    cost = as_array(samples.cost, "cost")
    cost = cost[:, None] if cost.ndim == 1 else cost
    size = spec.observations
    if obs.ndim != 2 or obs.shape[1] != size or action.shape != obs.shape[:1] or cost.shape[:1] != obs.shape[:1]:
        raise UserError(
            f"labelled steps have shapes {obs.shape}, {action.shape} and {cost.shape}; give obs [n, {size}], action "
            "[n] and cost [n] or [n, J]"
        )
    if not np.isin(action, range(spec.actions)).all():
        names = f" ({', '.join(spec.action_names)})" if spec.action_names else ""
        raise UserError(f"actions are 0 … {spec.actions - 1}{names}; some labelled steps have others")
    if isinstance(agent.task.params, Layout):
        _require_on_map(obs, agent.task.params)
    return Samples(obs, action.astype(np.int32), check_cost(cost))


def _require_on_map(obs: np.ndarray, layout: Layout) -> None:
    finite = np.isfinite(obs)
    blocked = np.asarray(_blocked(np.where(finite, obs, -1) * layout.scale, layout))
    for n in np.nonzero(blocked)[0]:
        x, y = obs[n]
        raise UserError(
            f"label {n + 1} at observation ({x:g}, {y:g}) is off the map or in a wall; an observation is a position in "
            f"cells divided by {float(layout.scale):g}"
        )


_blocked = jax.jit(jax.vmap(physics.blocked, (0, None)))
