"""Run folders with known episodes, written as a training writes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.agents.registry import find_algorithm
from safedsr.core.config import Matmul
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.text import format_scene
from safedsr.runs import storage
from safedsr.runs.config import TrainConfig
from safedsr.runs.metrics import Episodes
from safedsr.runs.writer import create_run


class Place(NamedTuple):
    """An environment of a run, and its budgets."""

    layout: str = "one-room"
    costs: tuple[str, ...] = ("diamond",)
    budgets: tuple[float, ...] = (5.0,)


def some_episodes(seed: int, steps: int, costs: int = 1, length: int = 90) -> Episodes:
    """Episodes of random lengths and outcomes."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(10, length, steps // 10)
    ends = np.cumsum(lengths)
    ends = ends[ends <= steps]
    count = len(ends)
    return Episodes(
        end_step=ends,
        length=lengths[:count].astype(np.int32),
        ret=rng.normal(size=count).astype(np.float32),
        cost=rng.integers(0, 12, (count, costs)).astype(np.float32),
        success=rng.random(count) < 0.7,
    )


def write_run(
    path: Path,
    episodes: Mapping[tuple[int, int], Episodes],
    places: Sequence[Place] = (Place(),),
    *,
    seeds: Sequence[int] = (0, 1),
    algorithm: str = "safedqn",
    settings: Mapping[str, Any] | None = None,
    steps: int = 500_000,
    matmul: Matmul = "float32",
    done: int | None = None,
    finish: bool = True,
    positions: np.ndarray | None = None,
    environment: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Path:
    """A run folder; `episodes` by (environment, seed), `positions` [n, E, S, 2] with an episode end at each x = 0.

    `environment` is what config.json says about another environment than the grid, `more` what it says besides.
    """
    done = steps if done is None else done
    config = {
        "algorithm": algorithm,
        "environment": environment or {"name": "grid", **asdict(GridConfig())},
        "tasks": [
            {
                "name": place.layout,
                "costs": list(place.costs),
                "budgets": list(place.budgets),
                "params": {} if environment else {"map": format_scene(load_scene(place.layout, place.costs))},
            }
            for place in places
        ],
        "seeds": list(seeds),
        "agent": asdict(replace(find_algorithm(algorithm).default, **(settings or {}))),
        "train": asdict(TrainConfig(steps, matmul=matmul, trajectories=0 if positions is None else len(positions))),
        **(more or {}),
    }
    with create_run(path, config, list(seeds), "cpu") as writer:
        tables = [_table(environment, seed, one) for (environment, seed), one in episodes.items()]
        writer.append("episodes", storage.concatenate(tables), done)
        where = {"environment": np.zeros(1, np.int32), "seed": np.array([seeds[0]])}
        writer.append("curves", {**where, "step": np.array([done])}, done)
        if positions is not None:
            track = {"step": np.arange(len(positions)), "position": positions, "done": positions[..., 0] == 0}
            writer.append("trajectories", track, done)
        writer.checkpoint({"weight": np.zeros(1)}, done)
        if finish:
            writer.finish(0 if positions is None else len(positions))
    return path


def _table(environment: int, seed: int, one: Episodes) -> storage.Columns:
    count = len(one.end_step)
    return {
        "environment": np.full(count, environment, np.int32),
        "seed": np.full(count, seed),
        "end_step": one.end_step.astype(np.int64),
        "length": one.length.astype(np.int32),
        "return": one.ret.astype(np.float32),
        "success": one.success.astype(bool),
        **{f"cost_{j}": one.cost[:, j].astype(np.float32) for j in range(one.cost.shape[1])},
    }


def numbers_of(text: str) -> list[list[str]]:
    """The numbers in each row of the tables of a document; its words may be others."""
    return [re.findall(r"\d+(?:\.\d+)?", line) for line in text.splitlines() if line.startswith("|")]
