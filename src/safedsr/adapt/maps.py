"""The values of an agent at the points of its map: Q, K, Q − λ·K, and its greedy actions."""

from typing import NamedTuple

import numpy as np

from safedsr.envs.grid.environment import scene_of
from safedsr.runs.policy import TrainedPolicy

SUBCELLS = 4  # points along each side of a cell


class ValueMaps(NamedTuple):
    """Values of the greedy action at points of the map [H·n, W·n], NaN inside walls."""

    q: np.ndarray
    k: np.ndarray | None  # [J, H·n, W·n]; None for agents that do not learn it
    score: np.ndarray  # Q − λ·K: the greedy action has the highest
    actions: np.ndarray  # [H, W] at the centres of the cells, -1 inside walls


def value_maps(agent: TrainedPolicy, subcells: int = SUBCELLS) -> ValueMaps:
    """The agent's values at evenly spaced points of its own map."""
    layout = scene_of(agent.task).layout
    height, width = layout.walls.shape
    q, k, score, _ = _ask(agent, subcells)
    wall = np.kron(layout.walls, np.ones((subcells, subcells), bool))
    shape = (height * subcells, width * subcells)

    def as_map(values: np.ndarray) -> np.ndarray:
        return np.where(wall, np.nan, values.reshape(shape))

    best = _ask(agent, 1)[3].reshape(height, width)
    return ValueMaps(
        q=as_map(q),
        k=None if k is None else np.stack([as_map(column) for column in k.T]),
        score=as_map(score),
        actions=np.where(layout.walls, -1, best),
    )


def _ask(agent: TrainedPolicy, subcells: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray]:
    """q [n], k [n, J] and score [n] of the greedy action, and that action [n], row by row."""
    layout = scene_of(agent.task).layout
    height, width = layout.walls.shape
    rows, columns = np.indices((height * subcells, width * subcells))
    points = (np.stack([columns, rows], -1).reshape(-1, 2) + 0.5) / subcells
    values = agent.values(points / layout.scale)
    score = np.asarray(values.score)
    best = score.argmax(1)
    every = np.arange(len(best))
    k = None if values.k is None else np.asarray(values.k)[every, best]
    return np.asarray(values.q)[every, best], k, score[every, best], best
