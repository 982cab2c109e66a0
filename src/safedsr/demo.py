"""The demonstration: train a small SafeDSR agent, move the obstacle into its way, fit the cost weights anew."""

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr import figures, train
from safedsr.agent import Agent, load
from safedsr.config import EpsilonSchedule, MultiplierConfig, SafeDsrConfig, TrainConfig
from safedsr.evaluate import Evaluation, agent_paths, evaluate
from safedsr.job import Environment, Job, make_environments
from safedsr.layout import Scene
from safedsr.scene import with_costs

CONFIG = SafeDsrConfig(
    terminal="absorb",
    epsilon=EpsilonSchedule(epsilon_from=3_000, epsilon_to=12_000),
    multiplier=MultiplierConfig(aim=(1.0,), penalty_start=15_000, lam_lr=0.005),
    train_start=3_000,
    freeze=15_000,
    update_steps=4,
    batch_size=128,
)
TRAINING = TrainConfig(steps=30_000, chunk=1_000)
EPSILON, EPISODES, SHIFT = 0.1, 1_000, 2
REDUCTION = """\
A SafeDSR agent, reduced to take a minute or two on two cores: one room, one seed, 30 000 steps instead of 500 000,
4 updates of 128 transitions a training instead of 10 of 256, schedules shortened to match. It differs from the paper's
in kind by two settings: the goal absorbs, and λ aims at a cost of 1 where the budget is 5."""


class Row(NamedTuple):
    """One line of the comparison, with a few of its walks."""

    title: str
    scene: Scene
    found: Evaluation
    paths: list[np.ndarray]


def run_demo(out: Path, seed: int = 0, show: train.Show | None = None) -> tuple[list[Row], float, Path]:
    """The rows of the comparison, the seconds the new fit took, and a picture; a finished training is used again."""
    folder = out / f"run-{seed}"
    environments = make_environments("safedsr", ["one-room"], ["diamond"], "5")
    job = Job("safedsr", environments, (seed,), CONFIG, train=TRAINING)
    if (folder / "manifest.json").exists():
        train.resume(folder, expect=job, show=show)
    else:
        train.train(job, folder, show=show)
    agent = load(folder)
    home = agent.environment
    moved = Environment(move_obstacle(agent), home.budgets)

    began = time.perf_counter()
    adapted = agent.refit(moved.scene)
    seconds = time.perf_counter() - began
    rows = [
        _row("as trained", agent, home),
        _row("obstacle moved, before", agent, moved),
        _row("obstacle moved, new cost weights", adapted, moved),
    ]
    return rows, seconds, figures.save(_picture(rows), out / f"adapt-{seed}.png")


def move_obstacle(agent: Agent) -> Scene:
    """The same costs, moved two rows to the side on which the agent walks round them."""
    scene = agent.environment.scene
    height = scene.layout.walls.shape[0]
    path = agent_paths(agent, scene.layout, [0.0])[0]
    above = np.mean(path[:, 1]) < height / 2
    return with_costs(scene, np.roll(scene.layout.costs, -SHIFT if above else SHIFT, axis=1))


def _row(title: str, agent: Agent, environment: Environment) -> Row:
    paths = agent_paths(agent, environment.scene.layout, [0.0, *[EPSILON] * 8])
    return Row(title, environment.scene, evaluate(agent, environment, EPISODES, EPSILON), paths)


def _picture(rows: list[Row]) -> figures.Figure:
    captions = [f"{row.title}\nsafe goal rate {row.found.safe_goal_rate.value:.2f}" for row in rows]
    return figures.map_row([row.scene for row in rows], [row.paths for row in rows], captions)
