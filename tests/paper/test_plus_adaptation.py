"""How SafeDSR-plus adapts, with agents that have hardly learnt."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import GRID, tiny_agent

from safedsr.agent import Agent, load
from safedsr.engine.train import train
from safedsr.envs.grid import physics as grid
from safedsr.envs.grid.config import GridConfig
from safedsr.errors import UserError
from safedsr.paper import plus_adaptation
from safedsr.paper.adaptation_rungs import LEVELS
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import grid_job, tasks_for

pytestmark = pytest.mark.usefixtures("compile_quickly")
ORACLE = dict.fromkeys(plus_adaptation.NEW, 0.9)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plus") / "safedsr-plus"
    environments = tasks_for("safedsr-plus", ["two-rooms"], ["none", "diamond"], "5")
    agent = tiny_agent("safedsr-plus")
    grid = replace(GRID, time_limit=20)
    train(grid_job("safedsr-plus", environments, (100, 101), agent, grid, TrainConfig(steps=400, chunk=40)), folder)
    return folder


def test_every_agent_is_tried_once_on_all_new_costs(run, tmp_path, monkeypatch):
    monkeypatch.setattr(plus_adaptation, "EPISODES", 64)
    monkeypatch.setattr(plus_adaptation, "NEW", plus_adaptation.NEW[:2])
    seen = []
    plus_adaptation.adapt_all(run, tmp_path, updates=8, show=seen.append)
    tried = list(itertools.product(plus_adaptation.NEW, ("simulator", "memory"), (100, 101)))
    told = (f"safedsr-plus: seed {seed} adapted to {costs}, λ by {search}" for costs, search, seed in tried)
    assert sorted(seen) == sorted(told)
    before = {path: path.read_bytes() for path in tmp_path.glob("*.json")}
    assert {path.name for path in before} == {f"{costs}-{search}-{seed}.json" for costs, search, seed in tried}
    plus_adaptation.adapt_all(run, tmp_path, updates=8, show=seen.append)
    assert len(seen) == 8 and {path: path.read_bytes() for path in tmp_path.glob("*.json")} == before

    table = plus_adaptation.adaptation_table(tmp_path, ORACLE)
    ways = itertools.product(plus_adaptation.NEW, ("simulator", "memory"))
    assert [row[:3] for row in table.rows] == [(costs, search, "2") for costs, search in ways]
    assert len(table.columns) == len(table.rows[0]) == 10 + len(LEVELS)
    assert {row[1] for row in table.rows if row[-3] == "–"} == {"simulator"}


def test_a_run_without_the_known_costs_is_refused(trained, tmp_path):
    with pytest.raises(UserError, match="no agent trained in two-rooms with diamond costs"):
        plus_adaptation.adapt_all(trained("safedqn"), tmp_path / "out")


def true_forecast(layout, config: GridConfig):
    """The chances of the next cell, by counting where steps of 256 lengths end."""
    spread = jnp.linspace(-2.5, 2.5, 256)
    lengths = config.step_mean + config.step_std * spread
    chances = jnp.exp(-(spread**2) / 2)
    rows, columns = layout.walls.shape

    def one(obs, action):
        ends = jax.vmap(lambda length: grid.land(obs * layout.scale, action, length, layout))(lengths)
        column, row = grid.cell_of(ends).T
        return jnp.zeros(rows * columns).at[row * columns + column].add(chances / chances.sum())

    every = jax.jit(jax.vmap(one))
    return lambda agent, obs, action: np.asarray(every(jnp.asarray(obs, jnp.float32), jnp.asarray(action)), np.float64)


def test_true_forecasts_express_any_costs_and_those_of_a_beginner_do_not(run, monkeypatch):
    """With true chances of the next cell, the costs of cells are the weights."""
    agent = load(run, seed=100, task=1)
    layout = agent.task.params
    beginner = plus_adaptation.held_out_r2(agent, "small-diamond")
    assert beginner < 0.5
    monkeypatch.setattr(Agent, "features", true_forecast(layout, GridConfig(**agent.job.environment.settings)))
    exact = np.asarray(plus_adaptation.task_of(agent, "small-diamond").params.costs[0], np.float64).ravel()
    known = SimpleNamespace(weights=SimpleNamespace(w_c=exact[None]))
    monkeypatch.setattr(plus_adaptation, "learner_of", lambda agent: known)
    assert plus_adaptation.held_out_r2(agent, "small-diamond") > 0.9
