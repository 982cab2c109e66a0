"""The stairs of `stairs.py` as a Gymnasium environment, with the same numbers."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from stairs import LIMIT, TOP, Walker, observe

VIEWS = np.asarray(jax.vmap(lambda stair: observe(Walker(stair)))(jnp.arange(TOP + 1)))


class Climber(gymnasium.Env):
    """Four stairs; `fails` is the number of the step, counted over all episodes, at which something goes wrong."""

    def __init__(self, fails: int = -1, how: str = "raise", limit: int = LIMIT) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (5,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.fails, self.how, self.limit, self.taken = fails, how, limit, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.stair = self.time = 0
        return VIEWS[0].copy(), {}

    def step(self, action: Any):
        self.stair = int(np.clip(self.stair + action - 1, 0, TOP))
        self.time += 1
        self.taken += 1
        top = self.stair == TOP
        obs, reward, info = VIEWS[self.stair].copy(), 1.0 if top else -0.01, {"is_success": top, "cost": float(top)}
        if self.taken == self.fails:
            if self.how == "raise":
                raise RuntimeError("the stairs are closed")
            obs = np.full(5, np.nan, np.float32) if self.how == "obs" else obs
            reward = np.inf if self.how == "reward" else reward
            info = {**info, "cost": {"cost": -1.0, "shape": [1.0, 2.0]}.get(self.how, 0.0)}
        return obs, reward, top, not top and self.time >= self.limit, info


class Purse(gymnasium.Env):
    """Four steps with a vector reward: gain, fuel used (negative) and the time."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {"place": spaces.Discrete(5), "speed": spaces.Box(-np.inf, np.inf, (2,), np.float64)}
        )
        self.action_space = spaces.Discrete(2, start=3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.place = 0
        return self._obs(), {}

    def step(self, action: Any):
        assert action in (3, 4)
        self.place += 1
        reward = np.array([float(action == 4), -0.5 * (action == 4), 1.0])
        return self._obs(), reward, self.place == 4, False, {}

    def _obs(self) -> dict[str, Any]:
        return {"place": self.place, "speed": self.np_random.normal(10.0, 3.0, 2)}


def slippery(obs: Any, action: Any, next_obs: Any, reward: Any, info: Any, stair: float = 1.0) -> Any:
    """A cost of 1 on one stair."""
    return abs(next_obs[0] * TOP - stair) < 0.5
