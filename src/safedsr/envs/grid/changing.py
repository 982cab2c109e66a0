"""The grid with rewards and a moving hazard as parameters: all of them are traced, so that one program serves all.

The hazard is a disc whose centre follows a closed path of points; a step that ends in the disc has its cost. In each
episode the hazard begins at a random point of the path. With a pace of 0 it stays there until the episode ends.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Environment, Groups, Spec, Step, Task
from safedsr.envs.grid import physics
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import CELLS, on_map, own_cells, place_of
from safedsr.envs.grid.layout import Layout
from safedsr.types import JOINED, Transition

NAME = "changing-grid"
POINTS = 64  # of a path


class Hazard(NamedTuple):
    """A disc that moves along a path."""

    path: Any  # [POINTS, 2] centres in cells
    radius: Any  # []
    cost: Any  # [J] of each step that ends in the disc
    pace: Any  # [] points of the path in each step


class Ground(NamedTuple):
    """The parameters: a map, the rewards and the hazard."""

    layout: Layout
    rewards: Any  # [2] of every step, and added on the step that reaches the goal
    hazard: Hazard


class Walker(NamedTuple):
    """State of an episode."""

    pos: Array  # [2] of the agent
    point: Array  # [] of the hazard on its path, from 0 to POINTS


def no_hazard(num_costs: int) -> Hazard:
    """A hazard without costs."""
    zero = np.zeros((), np.float32)
    return Hazard(np.zeros((POINTS, 2), np.float32), zero, np.zeros(num_costs, np.float32), zero)


def hazard_at(hazard: Hazard, point: Array) -> Array:
    """The centre of the hazard at a point of its path."""
    return jnp.asarray(hazard.path)[jnp.floor(point).astype(jnp.int32) % POINTS]


def hazard_cost(pos: Array, centre: Array, hazard: Hazard) -> Array:
    """The costs [J] of a step that ends at a position."""
    away = pos - centre
    return hazard.cost * (away @ away < hazard.radius**2)


def mean_cost(pos: Array, ground: Ground) -> Array:
    """The costs [J] at a position: those of the map, and of the hazard on average over its path."""
    hazard = ground.hazard
    by_point = jax.vmap(hazard_cost, (None, 0, None))(pos, jnp.asarray(hazard.path), hazard)
    return physics.cost_at(pos, ground.layout) + by_point.mean(0)


def observe(state: Walker, ground: Ground, *, sees: bool) -> Array:
    """The scaled position of the agent and, if it sees the hazard, of the hazard."""
    own = state.pos / ground.layout.scale
    return jnp.concatenate([own, hazard_at(ground.hazard, state.point) / ground.layout.scale]) if sees else own


def reset(key: Array, ground: Ground, *, sees: bool) -> tuple[Walker, Array]:
    """A new episode."""
    inner, _ = physics.reset(key, ground.layout)
    state = Walker(inner.pos, POINTS * jax.random.uniform(jax.random.fold_in(key, 1)))
    return state, observe(state, ground, sees=sees)


def step(
    key: Array, state: Walker, action: Array, ground: Ground, *, config: GridConfig, sees: bool
) -> tuple[Walker, Step]:
    """One step: the agent moves, then the hazard."""
    layout, hazard = ground.layout, ground.hazard
    pos = physics.land(state.pos, action, physics.step_length(key, config), layout)
    after = Walker(pos, (state.point + hazard.pace) % POINTS)
    reached = physics.at_goal(pos, layout)
    return after, Step(
        obs=observe(after, ground, sees=sees),
        reward=ground.rewards[0] + ground.rewards[1] * reached,
        cost=physics.cost_at(pos, layout) + hazard_cost(pos, hazard_at(hazard, after.point), hazard),
        terminated=reached,
        truncated=jnp.zeros((), bool),
        success=reached,
    )


def relabel(t: Transition, ground: Ground, *, sees: bool) -> Transition:
    """A stored transition with the costs, the reward and the end that it has with other parameters.

    An agent that does not see the hazard gets the mean cost over its path.
    """
    layout = ground.layout
    pos = physics.position(t.next_obs[:2], layout)
    reached = physics.at_goal(pos, layout).astype(jnp.float32)
    cost = mean_cost(pos, ground)
    if sees:
        centre = t.next_obs[2:] * layout.scale
        cost = physics.cost_at(pos, layout) + hazard_cost(pos, centre, ground.hazard)
    return t._replace(
        cost=cost,
        reward=ground.rewards[0] + ground.rewards[1] * reached,
        terminated=jnp.where(t.terminated == JOINED, t.terminated, reached),
        success=() if isinstance(t.success, tuple) else reached,
    )


def to_json(task: Task) -> dict[str, Any]:
    """The parameters of a task as JSON."""
    ground = task.params
    parts = {"layout": ground.layout, "hazard": ground.hazard}
    found = {part: {k: np.asarray(v).tolist() for k, v in fields._asdict().items()} for part, fields in parts.items()}
    return {**found, "rewards": np.asarray(ground.rewards).tolist()}


def from_json(name: str, data: Any) -> Ground:
    """What `to_json` wrote as parameters."""
    del name
    kinds = {"walls": bool, "starts": np.int32, "num_starts": np.int32, "goal": np.int32}
    layout = Layout(**{k: np.asarray(v, kinds.get(k, np.float32)) for k, v in data["layout"].items()})
    hazard = Hazard(**{k: np.asarray(v, np.float32) for k, v in data["hazard"].items()})
    return Ground(layout, np.asarray(data["rewards"], np.float32), hazard)


_CELLS = Groups(
    count=lambda ground: CELLS.count(ground.layout),
    frame=lambda ground: place_of(ground.layout),
    index=CELLS.index,
    scaled=CELLS.scaled,
    units=CELLS.units,
    own=lambda place, ground: own_cells(place, ground.layout),
)


@functools.cache
def make_changing_grid(
    config: GridConfig, num_costs: int, rewards: tuple[float, float], *, sees: bool = False
) -> Environment:
    """The grid whose parameters are a `Ground`; `rewards` are the smallest and the largest reward of any step.

    With `sees`, observations have the place of the hazard too, and the environment has no groups of its own.
    """
    places = 2 if sees else 1
    return Environment(
        name=NAME,
        spec=Spec(
            observations=2 * places,
            actions=physics.NUM_ACTIONS,
            costs=num_costs,
            low=(0.0,) * 2 * places,
            high=(1.0,) * 2 * places,
            reward_range=rewards,
            action_names=physics.ACTIONS,
            time_limit=config.time_limit,
        ),
        reset=functools.partial(reset, sees=sees),
        step=functools.partial(step, config=config, sees=sees),
        settings={"time_limit": config.time_limit, "sees_hazard": sees},
        to_json=to_json,
        from_json=from_json,
        ceilings=lambda ground: jnp.max(jnp.asarray(ground.layout.costs), (1, 2)) + ground.hazard.cost,
        relabel=functools.partial(relabel, sees=sees),
        groups=None if sees else _CELLS,
        position=lambda obs, ground: physics.position(obs[:2], ground.layout),
        inside=lambda obs, ground: on_map(obs[:, :2], ground.layout),
    )
