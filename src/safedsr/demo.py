"""The demonstration: train a SafeDSR-plus agent for some seconds, move the obstacle onto its path, adapt the agent."""

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr import figures
from safedsr.adapt.penalty import search_penalty
from safedsr.adapt.successor import learn_from_memory
from safedsr.agent import Agent, load
from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.core.config import EpsilonSchedule
from safedsr.engine import train
from safedsr.engine.evaluate import Evaluation, evaluate
from safedsr.engine.progress import Show
from safedsr.envs.environment import Task
from safedsr.envs.grid.catalog import with_costs
from safedsr.envs.grid.environment import grid_task, scene_of
from safedsr.envs.grid.layout import Scene
from safedsr.figures.paths import agent_paths
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import grid_job, tasks_for

CONFIG = SafeDsrPlusConfig(epsilon=EpsilonSchedule(epsilon_from=3_000, epsilon_to=12_000))
TRAINING = TrainConfig(steps=30_000, chunk=1_000)
EPSILON, EPISODES, SHIFT = 0.1, 1_000, 2
UPDATES, ENOUGH = 2_000, 0.99
REDUCTION = """\
A SafeDSR-plus agent, trained for some seconds only: one room, one seed, 30 000 steps instead of 500 000, and less
exploration. λ is searched in simulated episodes; M learns from stored steps alone."""


class Shown(NamedTuple):
    """One row of the comparison, with the paths of some episodes."""

    title: str
    scene: Scene
    found: Evaluation
    paths: list[np.ndarray]


class Demo(NamedTuple):
    """The results of the demonstration."""

    rows: list[Shown]
    fit_seconds: float  # to fit the new cost weights
    learn_seconds: float  # to find λ and to learn M
    picture: Path


def run_demo(out: Path, seed: int = 0, show: Show | None = None) -> Demo:
    """Train, or load a finished training; move the obstacle; adapt without new training steps; draw."""
    folder = out / f"run-{seed}"
    tasks = tasks_for("safedsr-plus", ["one-room"], ["diamond"], "5")
    job = grid_job("safedsr-plus", tasks, (seed,), CONFIG, train=TRAINING)
    if (folder / "manifest.json").exists():
        train.resume(folder, expect=job, show=show)
    else:
        train.train(job, folder, show=show)
    agent = load(folder)
    home = agent.task
    moved = grid_task(move_obstacle(agent), home.budgets)

    began = time.perf_counter()
    refitted = agent.refit(scene_of(moved))
    fitted = time.perf_counter()
    careful, _ = search_penalty(refitted, moved, EPSILON)
    adapted, _ = learn_from_memory(careful, moved, UPDATES, ENOUGH, EPSILON)
    learnt = time.perf_counter()
    rows = [
        _row("as trained", agent, home),
        _row("obstacle moved", agent, moved),
        _row("new cost weights", refitted, moved),
        _row("new λ, M from memory", adapted, moved),
    ]
    return Demo(rows, fitted - began, learnt - fitted, figures.save(_picture(rows), out / f"adapt-{seed}.png"))


def move_obstacle(agent: Agent) -> Scene:
    """The same costs, moved by two rows to the side on which the agent passes them."""
    scene = scene_of(agent.task)
    height = scene.layout.walls.shape[0]
    path = agent_paths(agent, agent.task, [0.0])[0]
    above = np.mean(path[:, 1]) < height / 2
    return with_costs(scene, np.roll(scene.layout.costs, -SHIFT if above else SHIFT, axis=1))


def _row(title: str, agent: Agent, task: Task) -> Shown:
    paths = agent_paths(agent, task, [0.0, *[EPSILON] * 8])
    return Shown(title, scene_of(task), evaluate(agent, task, EPISODES, EPSILON), paths)


def _picture(rows: list[Shown]) -> figures.Figure:
    captions = [f"{row.title}\nsafe goal rate {row.found.safe_goal_rate.value:.2f}" for row in rows]
    return figures.map_row([row.scene for row in rows], [row.paths for row in rows], captions)
