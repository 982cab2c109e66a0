"""What the page draws: values, greedy actions, episodes, occupancy, leverage, the oracle's way."""

from typing import Any

import numpy as np

from safedsr.adapt.costs import Arguments, experience_of, task_of
from safedsr.adapt.diagnostics import leverage_map
from safedsr.adapt.maps import value_maps
from safedsr.adapt.penalty import lam_unit, with_lam
from safedsr.adapt.refit import refit
from safedsr.agent import Agent
from safedsr.core.config import EpsilonSchedule
from safedsr.engine.trails import Trails, trails
from safedsr.envs.environment import Task
from safedsr.envs.grid.config import GridConfig, OracleConfig
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.layout import Layout, Scene
from safedsr.envs.grid.oracle import find_oracle, oracle_paths
from safedsr.errors import UserError
from safedsr.runs.metrics import within
from safedsr.studio.messages import View, packed

WALKS = 64  # episodes of a picture; their share of safe goals is shown
DRAWN = 12  # of them
POINTS = 4000  # of a heat map, at most, unless cells alone are more
LONGEST = 300  # steps of such an episode, so that a policy that finds no way does not make the page wait
ORACLE = OracleConfig(subcells=4, steps=2000, walks=8)  # coarser than the command, to be quick


def painted_task(agent: Agent, view: View) -> Task:
    """The agent's task with the painted costs; the same object of parameters if they are those of the agent."""
    if not on_map(agent):
        return task_of(agent, Arguments(view.args) if view.args else None, view.budgets)
    scene = scene_of(agent.task)
    layout = scene.layout
    names = tuple(cost.name for cost in view.costs)
    layers = view.layers(layout.walls.shape, layout.raster)
    if names == agent.task.cost_names and np.array_equal(layers, layout.costs):
        return agent.task._replace(budgets=view.budgets)
    return task_of(agent, Scene(scene.name, layout._replace(costs=layers), names), view.budgets)


def fitted(agent: Agent, task: Task, view: View, lam: Any = None) -> Agent:
    """The agent for the painted costs: new cost weights, and the λ that the view asks for, or a λ found before."""
    if agent.trainer.adaptable is None or agent.experience is None:
        return agent.changed(task=task)
    if task.params is not agent.task.params:
        agent = refit(agent, task)
    elif task.budgets == agent.task.budgets:
        lam = None  # it was trained or adapted for these costs and budgets
    agent = agent.changed(task=task)
    if view.lam == "own":
        return with_lam(agent, np.asarray(view.lams, np.float32) * lam_unit(agent, task))
    return with_lam(agent, lam) if lam is not None and view.lam == "auto" else agent


def walk(agent: Agent, view: View) -> Trails:
    """The episodes of a picture, with the agent's own costs."""
    return trails(agent, agent.task, WALKS, LONGEST, view.epsilon)


def charged(walked: Trails, layout: Layout, discount: float = 1.0) -> Trails:
    """The same episodes on a map with other costs: a policy that is not adapted does not see them."""
    column, row = np.moveaxis(np.floor(walked.positions[:, 1:] * layout.raster).astype(int), -1, 0)
    time = np.arange(row.shape[1])
    weight = discount**time * (time < walked.length[:, None])
    cost = (np.asarray(layout.costs)[:, row, column] * weight).sum(-1).T
    return walked._replace(cost=cost.astype(np.float32))


def picture(now: Agent, before: Trails, view: View) -> dict[str, Any]:
    """The values and episodes of an agent on the painted map, and the episodes of the agent to compare with."""
    task = now.task
    height, width = scene_of(task).layout.walls.shape
    subcells = max(1, min(3, int((POINTS / (height * width)) ** 0.5)))
    values = value_maps(now, subcells)
    walked = walk(now, view)
    layers = {"score": packed(values.score)}
    if values.k is not None:
        layers |= {"q": packed(values.q), "k": [packed(layer) for layer in values.k]}
    layers["occupancy"] = packed(occupancy(walked, (height, width)))
    if view.leverage and now.experience is not None:
        layers["leverage"] = packed(leverage_map(now))
    has_lam = hasattr(now.policy, "lam")
    return {
        "layers": layers,
        "subcells": subcells,
        "actions": values.actions.ravel().tolist(),
        "adaptable": why_not(now),
        "lam": [float(value) for value in now.policy.lam] if has_lam else [],
        "unit": lam_unit(now, task).tolist() if has_lam else [],
        "now": episodes(walked, task),
        "before": episodes(charged(before, task.params, now.job.discount), task),
    }


def episodes(walked: Trails, task: Task) -> dict[str, Any]:
    """Some paths for drawing, and the shares and means of all episodes."""
    safe = walked.success & within(walked.cost, task.budgets)
    paths = [
        {
            "points": packed(walked.positions[n, : int(walked.length[n]) + 1]),
            "success": bool(walked.success[n]),
            "safe": bool(safe[n]),
            "cost": walked.cost[n].tolist(),
            "steps": int(walked.length[n]),
        }
        for n in range(DRAWN)
    ]
    return {
        "paths": paths,
        "episodes": len(safe),
        "most_steps": LONGEST,
        "safe": float(safe.mean()),
        "goal": float(walked.success.mean()),
        "cost": walked.cost.mean(0).tolist(),
        "steps": float(walked.length.mean()),
    }


def occupancy(walked: Trails, shape: tuple[int, int]) -> np.ndarray:
    """The mean number of steps of an episode that end in each cell [H, W]."""
    counts = np.zeros(shape)
    inside = np.arange(walked.positions.shape[1])[None] <= walked.length[:, None]
    columns, rows = np.floor(walked.positions[inside]).astype(int).T
    np.add.at(counts, (rows.clip(0, shape[0] - 1), columns.clip(0, shape[1] - 1)), 1)
    return counts / len(walked.length)


def oracle(task: Task, agent: Agent, epsilon: float) -> dict[str, Any]:
    """Some episodes of the oracle, which knows the map and its costs, and the share of its episodes that are safe."""
    layout, grid = scene_of(task).layout, GridConfig(**agent.job.environment.settings)
    found = find_oracle(layout, task.budgets, EpsilonSchedule(epsilon, epsilon), ORACLE, grid)
    paths = oracle_paths(found, layout, [epsilon] * 4, ORACLE, grid)
    return {"paths": [packed(path[: LONGEST + 1]) for path in paths], "safe": float(found.greedy.safe_goal_rate)}


def on_map(agent: Agent) -> bool:
    """Whether an agent acts on a map."""
    return hasattr(agent.task.params, "walls")


def why_not(agent: Agent) -> str | None:
    """Why an agent cannot adapt to new costs, or None if it can."""
    try:
        experience_of(agent)
    except UserError as error:
        return str(error)
    return None
