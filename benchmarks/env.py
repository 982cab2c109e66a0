"""Random-action steps per second of the grid: compiled, in vectorised NumPy, and through Gymnasium in a Python loop.

All of them walk one room with diamond costs, reset themselves, and report the mean reward and cost of a step, so
that one can see that they do the same thing. NumPy and Gymnasium use one core, the compiled grid one or all. Many
walkers measure throughput; few are what a training has (ten seeds in three environments).
"""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec
from rich.console import Console
from rich.table import Table

from safedsr.envs import episode as episodes
from safedsr.envs.episode import Episode
from safedsr.envs.grid import physics
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.envs.grid.layout import Layout

LAYOUT, COSTS = "one-room", "diamond"
MANY, FEW = 4096, 32
STEPS = 1000  # of each walker in one repeat
GYM_STEPS = 3000
REPEATS = 7
CORES = min(os.cpu_count() or 1, 8)
CONFIG = GridConfig()


class Measured(NamedTuple):
    """The best repeat of one way to walk."""

    steps_per_second: float
    reward: float  # mean of a step
    cost: float


def measure(walk: Callable[[int], tuple[float, float]], steps: int) -> Measured:
    """Times `walk`, which takes the number of the repeat and gives mean reward and cost; its first run warms up."""
    walk(0)
    best, results = float("inf"), []
    for repeat in range(1, REPEATS + 1):
        began = time.perf_counter()
        results.append(walk(repeat))
        best = min(best, time.perf_counter() - began)
    reward, cost = np.mean(results, axis=0)
    return Measured(steps / best, float(reward), float(cost))


def compiled_walk(layout: Layout, walkers: int, devices: int) -> Callable[[int], tuple[float, float]]:
    """The JAX grid, one program a device."""
    walkers //= devices
    grid = make_grid(CONFIG, len(layout.costs))
    start = jax.vmap(partial(episodes.start, grid), (0, None))
    step = jax.vmap(partial(episodes.step_or_restart, grid), (0, 0, 0, None))

    def advance(carry: tuple[Episode, Array, Array], key: Array):
        running, reward, cost = carry
        action_key, step_key = jax.random.split(key)
        actions = jax.random.bits(action_key, (walkers,), "uint8") % physics.NUM_ACTIONS
        keys = jax.random.split(step_key, walkers)
        running, moment = step(keys, running, actions, layout)
        return (running, reward + moment.step.reward, cost + moment.step.cost.sum(-1)), None

    def walk(keys: Array) -> tuple[Array, Array]:
        first = (start(jax.random.split(keys[0], walkers), layout), jnp.zeros(walkers), jnp.zeros(walkers))
        (_, reward, cost), _ = jax.lax.scan(advance, first, jax.random.split(keys[0], STEPS))
        return reward, cost

    mesh, by_device = Mesh(np.array(jax.devices("cpu")[:devices]), ("device",)), PartitionSpec("device")
    program = jax.jit(jax.shard_map(walk, mesh=mesh, in_specs=by_device, out_specs=by_device, check_vma=False))

    def run(repeat: int) -> tuple[float, float]:
        reward, cost = jax.block_until_ready(program(jax.random.split(jax.random.key(repeat), devices)))
        return float(reward.mean()) / STEPS, float(cost.mean()) / STEPS

    return run


def numpy_walk(layout: Layout, walkers: int) -> Callable[[int], tuple[float, float]]:
    """The same grid with all walkers in NumPy arrays, as one writes it without a compiler."""
    height, width = layout.walls.shape
    directions = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)], np.float32)
    start = (layout.starts[0] + 0.5).astype(np.float32)
    costs = layout.costs.sum(0)

    def run(repeat: int) -> tuple[float, float]:
        rng = np.random.default_rng(repeat)
        pos, clock = np.tile(start, (walkers, 1)), np.zeros(walkers, np.int32)
        total_reward = total_cost = 0.0
        for _ in range(STEPS):
            actions = rng.integers(physics.NUM_ACTIONS, size=walkers)
            noise = rng.standard_normal(walkers, np.float32).clip(-CONFIG.step_clip, CONFIG.step_clip)
            there = pos + (CONFIG.step_mean + CONFIG.step_std * noise)[:, None] * directions[actions]
            column, row = np.floor(there).astype(np.int32).T
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            free = inside & ~layout.walls[row.clip(0, height - 1), column.clip(0, width - 1)]
            pos = np.where(free[:, None], there, pos)
            clock += 1
            column, row = np.floor(pos).astype(np.int32).T
            reached = (column == layout.goal[0]) & (row == layout.goal[1])
            total_reward += CONFIG.step_reward * walkers + CONFIG.goal_reward * np.count_nonzero(reached)
            total_cost += costs[row, column].sum()
            done = reached | (clock >= CONFIG.time_limit)
            pos[done] = start
            clock[done] = 0
        return total_reward / (walkers * STEPS), float(total_cost) / (walkers * STEPS)

    return run


def gym_walk() -> Callable[[int], tuple[float, float]]:
    """One walker through the Gymnasium adapter, step by step."""
    env = gymnasium.make("safedsr/Grid-v0", layout=LAYOUT, costs=COSTS).unwrapped

    def run(repeat: int) -> tuple[float, float]:
        actions = np.random.default_rng(repeat).integers(physics.NUM_ACTIONS, size=GYM_STEPS)
        env.reset(seed=repeat)
        total_reward = total_cost = 0.0
        for action in actions:
            _, reward, terminated, truncated, info = env.step(action)
            total_reward += float(reward)
            total_cost += info["cost"]
            if terminated or truncated:
                env.reset()
        return total_reward / GYM_STEPS, total_cost / GYM_STEPS

    return run


def main() -> None:
    """Measure and print."""
    jax.config.update("jax_num_cpu_devices", CORES)
    layout = load_scene(LAYOUT, COSTS).layout
    all_cores, one_core, in_numpy = f"compiled, {CORES} cores", "compiled, 1 core", "NumPy, vectorised"
    gym = measure(gym_walk(), GYM_STEPS)
    for walkers in (MANY, FEW):
        rows = {
            all_cores: measure(compiled_walk(layout, walkers, CORES), walkers * STEPS),
            one_core: measure(compiled_walk(layout, walkers, 1), walkers * STEPS),
            in_numpy: measure(numpy_walk(layout, walkers), walkers * STEPS),
            "Gymnasium, 1 walker": gym,
        }
        fastest = max(rows[all_cores].steps_per_second, rows[one_core].steps_per_second)
        table = Table(title=f"{LAYOUT}, {COSTS}: {walkers} walkers with random actions, best of {REPEATS}")
        for name in ("", "steps/s", "slower by", "reward a step", "cost a step"):
            table.add_column(name, justify="right" if name else "left")
        for name, found in rows.items():
            ratio = f"{fastest / found.steps_per_second:,.1f} ×"
            table.add_row(name, f"{found.steps_per_second:,.0f}", ratio, f"{found.reward:.4f}", f"{found.cost:.3f}")
        Console().print(table)


if __name__ == "__main__":
    main()
