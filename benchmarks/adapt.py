"""How long it takes to adapt: the closed form beside gradient descent, the whole loop, and a certificate.

A small agent is trained first (one room, diamond costs; networks of full size); then the obstacle moves. Gradient
descent takes 10 000 steps over the same remembered steps; the errors show that both end in the same place, but for the
ridge. Times are the best and the median of several repeats after a first call that compiles.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from safedsr.adapt.refit import refit
from safedsr.agent import Agent, load
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.demo import TRAINING, move_obstacle
from safedsr.engine.evaluate import run_episodes
from safedsr.engine.train import train
from safedsr.envs.grid.layout import Scene
from safedsr.runs.experience import FIT_STEPS, relabelled
from safedsr.runs.job import grid_job, tasks_for
from safedsr.types import Transition

# Gradient descent is what the tests check the closed form against, and no part of the library.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "adapt"))
from by_gradient import refit_by_gradient

UPDATES, EPISODES, CERTIFIED = 10_000, 64, 10_000
CONFIG = SafeDsrConfig(
    terminal="absorb",
    epsilon=EpsilonSchedule(epsilon_from=3_000, epsilon_to=12_000),
    multiplier=MultiplierConfig(aim=(1.0,), penalty_start=15_000, lam_lr=0.005),
    train_start=3_000,
    freeze=15_000,
    update_steps=4,
    batch_size=128,
)
SLOW = 0.8  # share of random actions at which an episode takes about a hundred steps
REFIT_LIMIT, LOOP_LIMIT, CERTIFICATE_LIMIT = 0.020, 0.500, 10.0  # seconds


class Timed(NamedTuple):
    """Seconds of the best and of the middle repeat, and what the last one gave."""

    best: float
    median: float
    result: Any


def measure(work: Callable[[], Any], repeats: int) -> Timed:
    """Time `work`, after a first call that compiles; it must wait for its result itself."""
    work()
    seconds, result = [], None
    for _ in range(repeats):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    return Timed(min(seconds), float(np.median(seconds)), result)


def train_agent(folder: Path) -> Agent:
    """A small SafeDSR agent."""
    environments = tasks_for("safedsr", ["one-room"], ["diamond"], "5")
    train(grid_job("safedsr", environments, (0,), CONFIG, train=replace(TRAINING, steps=15_000)), folder)
    return load(folder)


def refit_agent(agent: Agent, scene: Scene) -> Agent:
    """New cost weights, on the device."""
    adapted = refit(agent, scene)
    jax.block_until_ready(adapted.policy)
    return adapted


def refit_set(agent: Agent, scene: Scene) -> Transition:
    """The remembered steps that weights are fitted on, with the new costs."""
    assert agent.experience
    return relabelled(agent.experience, agent.job.environment, scene.layout, FIT_STEPS)


def descend(agent: Agent, scene: Scene) -> jax.Array:
    """The same by gradient descent."""
    steps = refit_set(agent, scene)
    by_gradient = jax.jit(refit_by_gradient, static_argnames=("updates",))
    key, phi = jax.random.key(0), agent.policy.learner.phi
    return jax.block_until_ready(by_gradient(key, phi, steps, scene.layout, updates=UPDATES))


def cost_error(agent: Agent, scene: Scene, w_c: Any) -> float:
    """Mean squared error of the predicted cost on the refit set."""
    steps = refit_set(agent, scene)
    known = agent.features(steps.obs, steps.action)
    return float(np.mean((np.asarray(steps.cost) - known @ np.asarray(w_c, np.float64).T) ** 2))


def adapt_and_walk(agent: Agent, scene: Scene) -> float:
    """Relabel, refit and evaluate: the whole loop."""
    adapted = refit_agent(agent, scene)
    return float(run_episodes(adapted, adapted.task, EPISODES).length.mean())


def row(name: str, timed: Timed, limit: float | None, remark: str) -> tuple[str, ...]:
    """A line of the table."""
    verdict = "" if limit is None else f"≤ {limit * 1e3:,.0f} ms: {'yes' if timed.median <= limit else 'NO'}"
    return name, f"{timed.best * 1e3:,.1f} ms", f"{timed.median * 1e3:,.1f} ms", verdict, remark


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        agent = train_agent(Path(folder) / "run")
    scene = move_obstacle(agent)
    closed = measure(lambda: refit_agent(agent, scene), 20)
    loop = measure(lambda: adapt_and_walk(agent, scene), 5)
    gradient = measure(lambda: descend(agent, scene), 1)
    certificate = measure(lambda: agent.certify(episodes=CERTIFIED, require=0.0, epsilon=SLOW), 1)
    no_ridge = refit(agent, scene, strength=1e-9)
    fitted = (closed.result.policy.learner.weights.w_c, no_ridge.policy.learner.weights.w_c, gradient.result)
    errors = [cost_error(agent, scene, w_c) for w_c in fitted]
    found = certificate.result
    table = Table(title="adapting to a moved obstacle, one room")
    for name in ("", "best", "median", "wanted", ""):
        table.add_column(name, justify="right" if name in ("best", "median") else "left")
    for line in (
        row("refit of one cost map", closed, REFIT_LIMIT, f"squared error {errors[0]:.4f}, no ridge {errors[1]:.4f}"),
        row(f"{UPDATES:,} gradient steps", gradient, None, f"squared error {errors[2]:.4f}"),
        row(f"relabel, refit, {EPISODES} episodes", loop, LOOP_LIMIT, f"{loop.result:.1f} steps an episode"),
        row(
            f"certificate, {found.episodes:,} episodes",
            certificate,
            CERTIFICATE_LIMIT,
            f"{found.length:.1f} steps each",
        ),
    ):
        table.add_row(*line)
    Console().print(table)
    print(f"the closed form is {gradient.median / closed.median:,.0f} times as fast as gradient descent")


if __name__ == "__main__":
    main()
