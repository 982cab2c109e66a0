"""Slow twins of the compiled code, in plain NumPy and one walker at a time."""

from typing import NamedTuple

import numpy as np

MOVES = {0: (0, -1), 1: (0, 1), 2: (-1, 0), 3: (1, 0)}  # up, down, left, right


class Outcome(NamedTuple):
    """What one step of the slow grid gives."""

    x: np.float32
    y: np.float32
    obs: np.ndarray
    reward: float
    cost: list[float]
    terminated: bool
    truncated: bool


def slow_step(
    walls: np.ndarray,
    costs: np.ndarray,
    goal: tuple[int, int],
    pos: tuple[np.float32, np.float32],
    action: int,
    length: np.float32,
    steps_before: int,
    time_limit: int,
) -> Outcome:
    """One step of a given length, by cases."""
    height, width = walls.shape
    x, y = pos
    to_x, to_y = x + length * np.float32(MOVES[action][0]), y + length * np.float32(MOVES[action][1])
    on_map = 0 <= to_x < width and 0 <= to_y < height
    if on_map and not walls[int(to_y), int(to_x)]:
        x, y = to_x, to_y
    terminated = (int(x), int(y)) == goal
    return Outcome(
        x=x,
        y=y,
        obs=np.array([x, y]) / np.float32(max(width, height)),
        reward=-0.01 + (1.0 if terminated else 0.0),
        cost=[float(layer[int(y), int(x)]) for layer in costs],
        terminated=terminated,
        truncated=not terminated and steps_before + 1 >= time_limit,
    )


def slow_window_mean(series: np.ndarray, points: int) -> np.ndarray:
    """The mean of the last `points` points that are known, at each point."""
    means = []
    for end in range(1, len(series) + 1):
        known = [value for value in series[max(0, end - points) : end] if not np.isnan(value)]
        means.append(sum(known) / len(known) if known else np.nan)
    return np.array(means)
