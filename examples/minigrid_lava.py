"""MiniGrid with lava that costs instead of ending the episode, and that can move.

    pip install "safedsr[envs]"
    L="--env examples/minigrid_lava.py:room --cost-fn examples/minigrid_lava.py:lava"
    safedsr train safedsr-plus $L --budget 1 --steps 40000 --epsilon-end 0.1 --plan-epsilon 0.1 --chance 0.02 \\
        --out runs/lava
    safedsr adapt runs/lava $L --cost-arg top=2 --cost-arg bottom=5 --out runs/lava-moved

The agent sees its column, its row and its direction. In DistShift1, lava in the rows 1 and 2 lies between the start and
the goal, which are both in row 1. If it moves to the rows 2 to 5, the straight way is free and the old one is not.
"""

import gymnasium as gym
import minigrid  # noqa: F401, registers the environments
import numpy as np
from minigrid.core.world_object import Lava


class WithoutLava(gym.Wrapper):
    """Removes the lava from the map and shows the agent where it is; reaching the goal is success."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        grid = env.unwrapped
        self.observation_space = gym.spaces.Box(0.0, np.array([grid.width, grid.height, 3.0], np.float32))
        self.action_space = gym.spaces.Discrete(3)  # left, right, forward: there is nothing to carry or to open

    def reset(self, *, seed=None, options=None):
        _, info = self.env.reset(seed=seed, options=options)
        cells = self.unwrapped.grid.grid
        cells[:] = [None if isinstance(cell, Lava) else cell for cell in cells]
        return self._where(), info

    def step(self, action):
        _, reward, terminated, truncated, info = self.env.step(action)
        return self._where(), reward - 0.01, terminated, truncated, {**info, "success": reward > 0}

    def _where(self):
        return np.array([*self.unwrapped.agent_pos, self.unwrapped.agent_dir], np.float32)


def room(limit: int = 100) -> gym.Env:
    """The map of DistShift1 without its lava."""
    return WithoutLava(gym.make("MiniGrid-DistShift1-v0", max_steps=limit, disable_env_checker=True))


def lava(obs, action, next_obs, reward, info, top=1.0, bottom=2.0, left=3.0, right=5.0):
    """1 in each step that ends in the lava, which fills the rows `top` to `bottom` between two columns."""
    x, y = next_obs[0], next_obs[1]
    return (left <= x) & (x <= right) & (top <= y) & (y <= bottom)
