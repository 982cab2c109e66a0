"""The grid as an `Environment`: its spec, its hooks, and tasks made of maps."""

import functools
from collections.abc import Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Environment, Groups, Spec, Task
from safedsr.envs.grid import physics
from safedsr.envs.grid.catalog import load_scene, with_costs
from safedsr.envs.grid.config import DEFAULT_BUDGET, GRID, GridConfig
from safedsr.envs.grid.layout import Layout, Scene, stack_layouts
from safedsr.envs.grid.text import format_scene, parse_scene
from safedsr.errors import UserError
from safedsr.types import Transition
from safedsr.validation import from_dict, parse_budgets, require, typed

ROUNDING = 1e-6  # of observations, as a share of the map


@functools.cache  # the same arguments give the same object, because compiled programs are found by its identity
def make_grid(config: GridConfig, num_costs: int) -> Environment:
    """The grid with these physics and that many costs; its parameters are a `Layout`."""
    rewards = (config.step_reward, config.step_reward + config.goal_reward)
    return Environment(
        name=GRID,
        spec=Spec(
            observations=2,
            actions=physics.NUM_ACTIONS,
            costs=num_costs,
            low=(0.0, 0.0),
            high=(1.0, 1.0),
            reward_range=(min(rewards), max(rewards)),
            action_names=physics.ACTIONS,
            time_limit=config.time_limit,
        ),
        reset=physics.reset,
        step=functools.partial(physics.step, config=config),
        settings=MappingProxyType(asdict(config)),
        stack=stack_layouts,
        to_json=lambda task: {"map": format_scene(scene_of(task))},
        from_json=lambda name, data: parse_scene(typed(str, data.get("map"), "map"), name).layout,
        ceilings=lambda layout: jnp.max(jnp.asarray(layout.costs), (1, 2)),
        relabel=relabel,
        groups=CELLS,
        position=physics.position,
        inside=on_map,
        random_steps=functools.partial(random_steps, config=config),
    )


def grid_from_settings(settings: dict[str, Any], num_costs: int) -> Environment:
    """The grid that `Environment.settings` describes."""
    return make_grid(from_dict(GridConfig, settings), num_costs)


def grid_task(scene: Scene, budgets: Sequence[float]) -> Task:
    """A map with its costs as a task."""
    return Task(scene.name, scene.layout, scene.cost_names, tuple(budgets))


def scene_of(task: Task) -> Scene:
    """The map of a task."""
    if not isinstance(task.params, Layout):
        raise UserError(f"'{task.name}' is not a map of the grid; this works on the grid only")
    return Scene(task.name, task.params, task.cost_names)


def make_tasks(
    algorithm: str,
    layouts: Sequence[str],
    costs: Sequence[str] = (),
    budget: float | str | None = None,
    *,
    costless: bool = False,
) -> tuple[Task, ...]:
    """One task for every layout and every choice of costs; without choices, the layouts keep their own costs.

    `algorithm` is the name for error messages; if it is `costless`, the tasks have no costs.
    """
    if costless:
        for name, given in (("costs", costs or None), ("budget", budget)):
            if given is not None:
                raise UserError(
                    f"{name} is {given!r}; {algorithm} takes none: leave it out, or train 'safe{algorithm}'"
                )
        return tuple(grid_task(with_costs(load_scene(layout), ()), ()) for layout in layouts)
    scenes = [load_scene(layout, choice) for layout in layouts for choice in (costs or (None,))]
    for scene in scenes:
        if not scene.cost_names:
            raise UserError(
                f"layout '{scene.name}' has no costs and {algorithm} needs some; give --costs (for example "
                "'diamond', or 'none' for an empty one), or train 'dqn' or 'dsr'"
            )
    budget = DEFAULT_BUDGET if budget is None else budget
    return tuple(grid_task(scene, parse_budgets(budget, len(scene.cost_names))) for scene in scenes)


def require_near(task: Task, config: GridConfig) -> None:
    """Raise if the map of a task is so large that no episode can reach the goal within the time limit."""
    layout = task.params
    cells = int(np.abs(layout.starts[: layout.num_starts] - layout.goal).sum(1).min()) - 1  # between both, at least
    reach = config.time_limit * (config.step_mean + config.step_clip * config.step_std)
    need = (
        f"the map '{task.name}' is too large: {cells} cells lie between start and goal, and an episode goes at most "
        f"{reach:.0f}; give a larger --time-limit or a smaller map"
    )
    require(cells <= reach, "time_limit", config.time_limit, need)


class Place(NamedTuple):
    """The scale and width of a map; arrays, so that maps of several sizes share a compiled program."""

    scale: Array  # [] α⁻¹: position = scale · observation
    columns: Array  # [] int32


def place_of(layout: Layout) -> Place:
    """The `Place` of a map."""
    return Place(jnp.asarray(layout.scale), jnp.int32(layout.walls.shape[1]))


def cell_number(place: Place, obs: Array) -> Array:
    """The number of the cell of an observation, counted row by row."""
    column, row = physics.cell_of(obs * place.scale)
    return row * place.columns + column


def own_cells(place: Place, layout: Layout) -> np.ndarray:
    """The numbers of the map's own cells on the padded map."""
    rows, columns = layout.walls.shape
    across = int(place.columns)
    return (np.arange(rows)[:, None] * across + np.arange(columns)).ravel()


CELLS = Groups(
    count=lambda layout: layout.walls.size,
    frame=place_of,
    index=cell_number,
    scaled=lambda place, obs: obs,
    units=lambda place, obs: obs * place.scale,
    own=own_cells,
)


def on_map(obs: np.ndarray, layout: Layout) -> np.ndarray:
    """Which of these finite observations [n, 2] are places on the map and not in a wall, up to rounding."""
    walls, (height, width) = np.asarray(layout.walls), np.shape(layout.walls)
    places = np.asarray(obs, np.float64) * float(layout.scale)
    found = np.zeros(len(places), bool)
    for corner in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
        column, row = np.floor(places + ROUNDING * float(layout.scale) * np.array(corner)).T
        there = (column >= 0) & (row >= 0) & (column < width) & (row < height)
        found |= there & ~walls[np.where(there, row, 0).astype(int), np.where(there, column, 0).astype(int)]
    return found


def relabel(t: Transition, layout: Layout) -> Transition:
    """A stored transition with its costs on this map, those of the place where it ended."""
    return t._replace(cost=physics.cost_at(end(t, layout), layout))


def end(t: Transition, layout: Layout) -> Array:
    """The position in which a transition ended: the goal if it terminated, since s′ may then be the next start."""
    return jnp.where(t.terminated == 1, layout.goal + 0.5, physics.position(t.next_obs, layout))


def random_steps(key: Array, layout: Layout, count: int, config: GridConfig) -> Transition:
    """Transitions of random actions from positions that are uniform over all free cells except the goal."""
    cell_key, place_key, action_key, step_key = jax.random.split(key, 4)
    height, width = layout.walls.shape
    column, row = layout.goal
    free = jnp.logical_not(layout.walls).at[row, column].set(False)
    cells = jax.random.choice(cell_key, height * width, (count,), p=free.reshape(-1) / free.sum())
    corners = jnp.stack([cells % width, cells // width], 1)
    places = corners + jax.random.uniform(place_key, (count, 2))
    actions = jax.random.randint(action_key, (count,), 0, physics.NUM_ACTIONS)

    def one(key: Array, place: Array, action: Array) -> Transition:
        state = physics.GridState(place)
        _, out = physics.step(key, state, action, layout, config)
        ended = out.terminated.astype(jnp.float32)
        return Transition(physics.observe(state, layout), action, out.reward, out.cost, out.obs, ended)

    return jax.vmap(one)(jax.random.split(step_key, count), places, actions)
