"""The four rooms with shapes and traps of SFT-CoP (Feng et al., 2023) in JAX; the shapes are those of MO-Gymnasium.

An agent collects shapes of three kinds, each once in an episode, and ends the episode at the goal, which gives 1. A
task is the reward of each kind; its cost is 1 for each step into a trap. Nothing is random.
"""

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Environment, Groups, Spec, Step
from safedsr.envs.twins import numbers_to_json, with_numbers
from safedsr.types import PyTree, Transition

# '#' is a wall, 'T' a trap, 'S' the start, 'G' the goal; a digit is a shape of that kind.
MAZE = """
1....2#2T...G
......#T.....
......1......
.............
......#T....T
2....3#1T..T3
##3.#####.1##
1T..T3#2....3
T....T#......
.............
......2......
.....T#......
S...T2#3....1
"""
KINDS = 3
MOVES = np.array([[0, -1], [-1, 0], [0, 1], [1, 0]])  # left, up, right, down, as (row, column)
STAYED, MOVED, TOOK = 0.0, 1.0, 2.0  # the last entry of an observation: what the step before did
EVENTS = ("nothing", "shape 1", "shape 2", "shape 3", "goal", "trap")


class Rewards(NamedTuple):
    """The task: the reward of each kind of shape."""

    shapes: Any  # [3]


class Place(NamedTuple):
    """Where the agent is, and which shapes it has."""

    cell: Array  # [2] int32, row and column
    taken: Array  # [shapes] 0 or 1


class Map(NamedTuple):
    """A map as arrays."""

    walls: np.ndarray  # [rows, columns] bool
    traps: np.ndarray  # [rows, columns] bool
    kind: np.ndarray  # [rows, columns] kind of the shape there, 0 if there is none
    number: np.ndarray  # [rows, columns] number of the shape there
    start: np.ndarray  # [2]
    goal: np.ndarray  # [2]

    @property
    def shapes(self) -> int:
        """The number of shapes."""
        return int((self.kind > 0).sum())


@functools.cache
def read_map(text: str = MAZE) -> Map:
    """The map of a text; shapes are numbered column by column, as in the original."""
    cells = np.array([list(line) for line in text.split()])
    kind = np.where(np.char.isdigit(cells), cells, "0").astype(int)
    number = np.zeros(kind.shape, int)
    number.T[kind.T > 0] = np.arange((kind > 0).sum())
    start, goal = (np.argwhere(cells == letter)[0] for letter in "SG")
    return Map(cells == "#", cells == "T", kind, number, start, goal)


def event(obs: Array, plan: Map) -> Array:
    """What the step that led to an observation did: the index of an entry of `EVENTS`."""
    row, column = obs[:2].astype(jnp.int32)
    kind, trap = jnp.asarray(plan.kind)[row, column], jnp.asarray(plan.traps)[row, column]
    goal = (obs[:2] == plan.goal).all()
    entered = jnp.where(goal, KINDS + 1, jnp.where(trap, KINDS + 2, 0))
    return jnp.where(obs[-1] == TOOK, kind, jnp.where(obs[-1] == MOVED, entered, 0))


def worth(rewards: Rewards) -> Array:
    """The reward of each entry of `EVENTS`."""
    return jnp.concatenate([jnp.zeros(1), jnp.asarray(rewards.shapes), jnp.array([1.0, 0.0])])


def outcome(obs: Array, rewards: Rewards, plan: Map) -> tuple[Array, Array]:
    """Reward and cost [1] of the step that led to an observation."""
    found = event(obs, plan)
    return worth(rewards)[found], (found == KINDS + 2).astype(jnp.float32)[None]


def events(plan: Map) -> Groups:
    """The features that SFT-CoP gives its agents: which kind of shape, goal or trap a step led to."""
    return _groups(plan, len(EVENTS), lambda obs: event(obs, plan))


def cells(plan: Map) -> Groups:
    """Features without knowledge of shapes, goal and traps: the cell that was entered, and the flag that changed."""
    width, count = plan.walls.shape[1], plan.walls.size

    def index(obs: Array) -> Array:
        row, column = obs[:2].astype(jnp.int32)
        number = jnp.asarray(plan.number)[row, column]
        taken = 1 + count + number
        return jnp.where(obs[-1] == TOOK, taken, jnp.where(obs[-1] == MOVED, 1 + width * row + column, 0))

    return _groups(plan, 1 + count + plan.shapes, index)


def _groups(plan: Map, count: int, index: Any) -> Groups:
    height, width = plan.walls.shape
    span = np.array([height - 1, width - 1] + [1] * (plan.shapes + 1), np.float32)
    seen = np.array([1.0] * (2 + plan.shapes) + [0.0], np.float32)  # networks do not see the last entry
    wavy = np.array([1.0, 1.0] + [0.0] * (plan.shapes + 1), np.float32)
    return Groups(
        count=lambda params: count,
        frame=lambda params: (),
        index=lambda frame, obs: index(obs),
        scaled=lambda frame, obs: jnp.asarray(seen / span) * obs,
        units=lambda frame, obs: jnp.asarray(wavy) * obs,
        own=lambda frame, params: np.arange(count),
    )


def make_four_room(time_limit: int = 200, text: str = MAZE, known: bool = True) -> Environment:
    """The four rooms; `known` says whether its groups are `events` or `cells`. Its parameters are `Rewards`."""
    return _make(time_limit, text, known)


@functools.cache
def _make(time_limit: int, text: str, known: bool) -> Environment:
    plan = read_map(text)
    height, width = plan.walls.shape
    plain = Rewards(np.array([1.0, 1.0, 1.0], np.float32))

    def observed(place: Place, did: Array) -> Array:
        return jnp.concatenate([place.cell.astype(jnp.float32), place.taken, did[None]])

    def reset(key: Array, rewards: PyTree) -> tuple[Place, Array]:
        del key, rewards
        place = Place(jnp.asarray(plan.start, jnp.int32), jnp.zeros(plan.shapes))
        return place, observed(place, jnp.float32(STAYED))

    def step(key: Array, place: Place, action: Array, rewards: PyTree) -> tuple[Place, Step]:
        del key
        wanted = place.cell + jnp.asarray(MOVES, jnp.int32)[action]
        inside = jnp.clip(wanted, 0, jnp.array([height - 1, width - 1]))
        free = (inside == wanted).all() & ~jnp.asarray(plan.walls)[inside[0], inside[1]]
        cell = jnp.where(free, inside, place.cell)
        here = (jnp.arange(plan.shapes) == jnp.asarray(plan.number)[cell[0], cell[1]]) & free
        here = here & (jnp.asarray(plan.kind)[cell[0], cell[1]] > 0)
        took = (here & (place.taken == 0)).any()
        after = Place(cell, jnp.where(here, 1.0, place.taken))
        obs = observed(after, jnp.where(took, TOOK, jnp.where(free, MOVED, STAYED)))
        reward, cost = outcome(obs, rewards, plan)
        goal = (cell == plan.goal).all()
        return after, Step(obs, reward, cost, terminated=goal, truncated=jnp.zeros((), bool), success=goal)

    def relabel(t: Transition, rewards: PyTree) -> Transition:
        reward, cost = outcome(t.next_obs, rewards, plan)
        return t._replace(reward=reward, cost=cost)

    count = 3 + plan.shapes
    return Environment(
        name="four-room",
        spec=Spec(
            observations=count,
            actions=len(MOVES),
            costs=1,
            low=(0.0,) * count,
            high=(float(height - 1), float(width - 1), *(1.0,) * plan.shapes, TOOK),
            cost_ceilings=(1.0,),
            time_limit=time_limit,
            action_names=("left", "up", "right", "down"),
        ),
        reset=reset,
        step=step,
        settings={"time_limit": time_limit},
        to_json=numbers_to_json,
        from_json=lambda name, data: with_numbers(plain, data),
        relabel=relabel,
        groups=events(plan) if known else cells(plan),
        position=lambda obs, params: jnp.stack([obs[1], -obs[0]]),
        params=plain,
        cost_names=("trap",),
        with_args=with_numbers,
    )
