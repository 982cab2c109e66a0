"""The grid as a `gymnasium.Env`, and with the 6-tuple of Safety-Gymnasium.

The environment holds one key; every reset and every step splits it once and uses the second half. The same key and
actions therefore give the same trajectory here and through `safedsr.envs.grid.physics`.
"""

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from safedsr.envs import episode as episodes
from safedsr.envs.environment import Environment
from safedsr.envs.episode import Episode
from safedsr.envs.grid import physics
from safedsr.envs.grid.catalog import Costs, load_scene, with_costs
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.envs.grid.layout import Layout, Scene
from safedsr.errors import UserError

PIXELS = 24  # side of a cell in a rendered frame
_FREE, _WALL, _COST, _START, _GOAL, _AGENT = np.array(
    [(255, 255, 255), (60, 60, 60), (214, 96, 77), (178, 200, 223), (90, 174, 97), (33, 102, 172)], np.float32
)


@partial(jax.jit, static_argnames="environment")
def _reset(key, layout: Layout, environment: Environment):
    key, reset_key = jax.random.split(key)
    return key, episodes.start(environment, reset_key, layout)


@partial(jax.jit, static_argnames="environment")
def _step(key, episode: Episode, action, layout: Layout, environment: Environment):
    key, step_key = jax.random.split(key)
    return key, *episodes.step(environment, step_key, episode, action, layout)


class GridEnv(gymnasium.Env[np.ndarray, np.int64]):
    """The continuous grid; `info` holds `cost` (the sum), `costs` (the vector) and `goal` (whether it was reached)."""

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # noqa: RUF012, as in Gymnasium

    def __init__(
        self,
        layout: str | Path | Scene = "one-room",
        costs: Costs | None = None,
        render_mode: str | None = None,
        config: GridConfig | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(f"render_mode is '{render_mode}'; possible: None, 'rgb_array', 'human'")
        scene = layout if isinstance(layout, Scene) else load_scene(layout)
        self.scene = scene if costs is None else with_costs(scene, costs)
        self.config = config or GridConfig()
        self.render_mode = render_mode
        self.action_space = gymnasium.spaces.Discrete(physics.NUM_ACTIONS)
        height, width = self.scene.layout.walls.shape
        corner = np.array([width, height], np.float32) / self.scene.layout.scale
        self.observation_space = gymnasium.spaces.Box(np.zeros(2, np.float32), corner, dtype=np.float32)
        self._key: jax.Array | None = None
        self._episode: Episode | None = None
        self._window: Window | None = None
        self._environment = make_grid(self.config, len(self.scene.cost_names))

    def set_costs(self, costs: Costs) -> None:
        """Change the costs, also during an episode, without recompiling."""
        changed = with_costs(self.scene, costs)
        before, after = len(self.scene.cost_names), len(changed.cost_names)
        if before != after:
            raise UserError(f"{after} costs given where this environment has {before}; their number is fixed")
        self.scene = changed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._key = jax.random.key(seed % 2**32)
        elif self._key is None:
            self._key = jax.random.key(int(self.np_random.integers(2**31)))
        self._key, episode = _reset(self._key, self.scene.layout, self._environment)
        self._episode = episode
        self._show()
        return np.asarray(episode.obs), self._info(np.zeros(len(self.scene.layout.costs)), False)

    def step(self, action: np.int64 | int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._episode is None:
            raise UserError("step before reset; call reset first")
        if not self.action_space.contains(action):
            raise UserError(f"action is {action!r}; possible: 0 up, 1 down, 2 left, 3 right")
        layout, environment = self.scene.layout, self._environment
        self._key, self._episode, moment = _step(self._key, self._episode, action, layout, environment)
        obs, reward, cost, terminated, truncated, success = jax.device_get(moment.step)
        self._show()
        return obs, float(reward), bool(terminated), bool(truncated), self._info(cost, bool(success))

    def _info(self, cost: np.ndarray, goal: bool) -> dict[str, Any]:
        return {"cost": float(cost.sum()), "costs": np.asarray(cost, np.float32), "goal": goal}

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.render_mode == "rgb_array":
            return self._picture()
        self._show()
        return None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None

    def _picture(self) -> np.ndarray:
        return draw_frame(self.scene.layout, None if self._episode is None else np.asarray(self._episode.state.pos))

    def _show(self) -> None:
        """Show the current state in the window, if there is one."""
        if self.render_mode == "human":
            picture = self._picture()
            self._window = self._window or Window(picture.shape[:2], "safedsr/Grid-v0", self.metadata["render_fps"])
            self._window.show(picture)


class Window:
    """A window of pygame that shows pictures [H, W, 3] at a fixed rate."""

    def __init__(self, shape: tuple[int, ...], title: str, rate: int) -> None:
        try:
            import pygame
        except ImportError:
            raise UserError("render_mode='human' needs pygame: pip install 'safedsr[human]'") from None
        self._pygame, self._rate, self._clock = pygame, rate, pygame.time.Clock()
        pygame.display.init()
        pygame.display.set_caption(title)
        self.screen = pygame.display.set_mode((shape[1], shape[0]))

    def show(self, picture: np.ndarray) -> None:
        """Show a picture, and wait until it is time for the next."""
        self.screen.blit(self._pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
        self._pygame.event.pump()
        self._pygame.display.flip()
        self._clock.tick(self._rate)

    def close(self) -> None:
        """Close the window."""
        self._pygame.display.quit()


def draw_frame(layout: Layout, pos: np.ndarray | None, pixels: int = PIXELS) -> np.ndarray:
    """An image [H·pixels, W·pixels, 3] of the map and the agent."""
    shade = layout.costs.sum(0) / max(float(layout.costs.sum(0).max(initial=0.0)), 1e-9)
    raster = layout.raster
    mean = shade.reshape(len(shade) // raster, raster, -1, raster).mean((1, 3))  # of each cell
    cells = _FREE + mean[..., None] * (_COST - _FREE)
    for column, row in layout.starts[: layout.num_starts]:
        cells[row, column] = _START
    cells[layout.goal[1], layout.goal[0]] = _GOAL
    cells[layout.walls] = _WALL
    frame = cells.repeat(pixels, 0).repeat(pixels, 1)
    if pos is not None:
        rows, columns = np.mgrid[: frame.shape[0], : frame.shape[1]]
        x, y = np.asarray(pos) * pixels
        frame[(columns - x) ** 2 + (rows - y) ** 2 <= (pixels / 3) ** 2] = _AGENT
    return frame.astype(np.uint8)


class SafetyGymnasium(gymnasium.Wrapper):
    """`step` with Safety-Gymnasium's six values: observation, reward, cost, terminated, truncated, info."""

    def step(self, action: Any) -> tuple[Any, float, float, bool, bool, dict[str, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, float(reward), info["cost"], terminated, truncated, info
