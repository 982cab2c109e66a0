"""The grid for one walker in plain Python, as a loop without a compiler has it; see `torch_onpolicy.py`."""

import numpy as np

from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout

DIRECTIONS = ((0, -1), (0, 1), (-1, 0), (1, 0))  # up, down, left, right


class Walker:
    """The grid for one walker, in plain numbers."""

    def __init__(self, layout: Layout, seed: int, config: GridConfig = GridConfig()):
        self.walls, self.costs = layout.walls.tolist(), layout.costs.sum(0).tolist()
        self.start, self.goal = layout.starts[0].tolist(), tuple(layout.goal.tolist())
        self.scale, self.config = float(layout.scale), config
        self.rng = np.random.default_rng(seed)

    def reset(self) -> np.ndarray:
        """Back to the start."""
        self.x, self.y, self.clock = self.start[0] + 0.5, self.start[1] + 0.5, 0
        return self.observe()

    def observe(self) -> np.ndarray:
        """The position over the size of the map."""
        return np.array([self.x / self.scale, self.y / self.scale])

    def step(self, action: int) -> tuple[np.ndarray, float, float, bool, bool]:
        """Observation, reward, cost, terminated, truncated."""
        config, (right, down) = self.config, DIRECTIONS[action]
        noise = min(max(self.rng.standard_normal(), -config.step_clip), config.step_clip)
        length = config.step_mean + config.step_std * noise
        x, y = self.x + length * right, self.y + length * down
        if 0 <= x < len(self.walls[0]) and 0 <= y < len(self.walls) and not self.walls[int(y)][int(x)]:
            self.x, self.y = x, y
        self.clock += 1
        cell = int(self.x), int(self.y)
        reached = cell == self.goal
        reward = config.step_reward + config.goal_reward * reached
        return self.observe(), reward, self.costs[cell[1]][cell[0]], reached, self.clock >= config.time_limit
