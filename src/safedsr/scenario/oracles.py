"""The oracle of each phase: it knows the task, and the best of many plans in simulation is its policy.

On the grid, plans are value iterations for r - λ·c with several λ; the state of a plan includes the place of a hazard
that agents see, and the mean cost over its path stands for one that they do not see. In CartPole, a steady controller
holds the cart at several places; in minecart, which is deterministic, thousands of trips are tried.
"""

import functools
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs import episode as episodes
from safedsr.envs.environment import Environment, Task
from safedsr.envs.episode import Episode
from safedsr.envs.grid import physics
from safedsr.envs.grid.changing import POINTS, Ground, hazard_cost, mean_cost
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout
from safedsr.envs.grid.oracle import LAMBDAS
from safedsr.envs.twins import minecart
from safedsr.envs.twins.cartpole import steady
from safedsr.runs.metrics import Episodes, phase_of, safe
from safedsr.scenario.course import Course, Phase
from safedsr.types import PyTree, Record

GAMMA, SWEEPS, TOLERANCE = 0.99, 400, 1e-4
NOISE = 3  # points of the quadrature over the step length
FINE, COARSE = 6, 3  # sub-cells along the side of a cell, without and with a hazard
STOPS = 16  # places of the hazard on its path that plans tell apart
WALKS, WALK_STEPS = 8, 4_000  # of each plan in the search
SEARCH = (GAMMA, SWEEPS, TOLERANCE, NOISE, FINE, COARSE, STOPS, WALKS, WALK_STEPS, LAMBDAS)

Act = Callable[[PyTree, Episode], Array]


class Guide(NamedTuple):
    """Plans [L, …], how one of them acts, and how many runs of how many steps judge it."""

    plans: PyTree
    act: Act
    walks: int = WALKS
    steps: int = WALK_STEPS


class Best(NamedTuple):
    """The best plan of a phase, and what is reachable with it."""

    plan: PyTree
    act: Act
    safe_share: float  # of episodes
    safe_goals: float  # in each step
    ret: float  # mean of safe episodes


@functools.lru_cache(maxsize=32)
def find_best(course: Course, number: int, seed: int = 0) -> Best:
    """The plan of a phase with the most safe goals or, where there are none, the largest return of safe episodes."""
    phase = course.phases[number]
    guide, environment = _guide(course, phase), course.environment
    keys = jax.random.split(jax.random.key(seed), guide.walks)
    found = [
        _score(rows, phase.task, environment, guide.steps * guide.walks)
        for rows in _walk_all(guide, environment, phase.task.params, keys, guide.steps)
    ]
    place = max(range(len(found)), key=lambda n: found[n][:2])
    plan = jax.tree.map(lambda x: x[place], guide.plans)
    _, worth, share = found[place]
    goals = environment.spec.success
    return Best(plan, guide.act, share, worth if goals else 0.0, 0.0 if goals else worth)


def _score(rows: list[Episodes], task: Task, environment: Environment, steps: int) -> tuple[float, float, float]:
    """What a plan is judged by: a share that has to be safe where there are no goals, its worth, its safe share."""
    one = Episodes(*(np.concatenate(field) for field in zip(*rows, strict=True)))
    fine = safe(one, task.budgets)
    share = float(fine.mean()) if len(fine) else 0.0
    if environment.spec.success:
        return 0.0, float(fine.sum() / steps), share
    return min(share, 0.95), float(one.ret[fine].mean()) if fine.any() else -np.inf, share


def _walk_all(guide: Guide, environment: Environment, params: PyTree, keys: Array, count: int) -> list[list[Episodes]]:
    """The episodes of every plan, in parts of a few plans."""
    plans = len(jax.tree.leaves(guide.plans)[0])
    each = partial(_walk_many, environment, guide.act, count)
    found, part = [], max(4_000_000 // (count * len(keys)), 1)
    for first in range(0, plans, part):
        rows = jax.device_get(each(jax.tree.map(lambda x, f=first: x[f : f + part], guide.plans), keys, params))
        for n in range(len(rows.done)):
            found.append([_episodes(jax.tree.map(lambda x, n=n, w=w: x[n, w], rows)) for w in range(len(keys))])
    return found


def _walk(environment: Environment, act: Act, count: int, plan: PyTree, key: Array, params: PyTree) -> Record:
    """A record of `count` steps of a plan."""

    def one(before: Episode, key: Array) -> tuple[Episode, Record]:
        after, moment = episodes.step_or_restart(environment, key, before, act(plan, before), params)
        step = moment.step
        return after, Record(moment.done, step.success, moment.time, moment.ret, moment.cost, step.obs)

    first, rest = jax.random.split(key)
    return jax.lax.scan(one, episodes.start(environment, first, params), jax.random.split(rest, count))[1]


@partial(jax.jit, static_argnames=("environment", "act", "count"))
def _walk_many(environment: Environment, act: Act, count: int, plans: PyTree, keys: Array, params: PyTree) -> Record:
    """The records [L, n, count] of plans [L] with keys [n]."""
    one = partial(_walk, environment, act, count)
    return jax.vmap(jax.vmap(one, (None, 0, None)), (0, None, None))(plans, keys, params)


def _episodes(records: Record) -> Episodes:
    when = np.flatnonzero(records.done)
    return Episodes(
        when + 1,
        np.asarray(records.length)[when],
        np.asarray(records.ret)[when],
        np.asarray(records.cost)[when],
        np.asarray(records.success)[when],
    )


def oracle_episodes(course: Course, phase: Phase, best: Best, seed: int) -> Episodes:
    """The oracle's episodes in a phase."""
    key, count = jax.random.fold_in(jax.random.key(seed), phase.number), phase.end - phase.start
    plans = jax.tree.map(lambda x: x[None], best.plan)
    rows = jax.device_get(_walk_many(course.environment, best.act, count, plans, key[None], phase.task.params))
    found = _episodes(jax.tree.map(lambda x: x[0, 0], rows))
    return found._replace(end_step=found.end_step + phase.start)


def _guide(course: Course, phase: Phase) -> Guide:
    name = course.environment.name
    if name == "cartpole":
        places = np.linspace(-1.5, 1.5, 31, dtype=np.float32)
        return Guide(places, _hold)
    if name == "minecart":
        trips = _trips()  # one episode of each is enough, as nothing is random
        return Guide(trips, _follow, 1, trips.shape[1])
    return _grid_guide(course, phase)


def _hold(place: Array, e: Episode) -> Array:
    """Hold the cart at a place."""
    return steady(e.state - jnp.stack([place, *[jnp.zeros(())] * 3]))


def _follow(trip: Array, e: Episode) -> Array:
    """The action of a trip at this time."""
    return trip[jnp.minimum(e.time, len(trip) - 1)]


@functools.cache
def _by_table(fine: int, sees: bool) -> Act:
    """How a table of actions [stops, rows, columns] acts."""

    def act(table: Array, e: Episode) -> Array:
        stop = jnp.floor(e.state.point * (STOPS / POINTS)).astype(jnp.int32) % STOPS if sees else 0
        return physics.lookup(table, e.state.pos * fine)[stop]

    return act


def _trips() -> np.ndarray:
    """Sequences of actions [L, T]: turn, accelerate, roll, brake, mine, turn round, accelerate, roll home."""
    m = minecart
    trips = []
    turns, sides = ([], [m.LEFT], [m.RIGHT]), (m.LEFT, m.RIGHT)
    ways = itertools.product(turns, range(1, 4), range(22), range(1, 3), sides, (4, 5), range(1, 4))
    for turn, push, roll, mined, side, back, again in ways:
        out = [*turn, *[m.ACCELERATE] * push, *[m.NONE] * roll, m.BRAKE, *[m.MINE] * mined]
        trips.append([*out, *[side] * back, *[m.ACCELERATE] * again])
    longest = max(map(len, trips)) + 30
    return np.array([[*trip, *[m.NONE] * (longest - len(trip))] for trip in trips], np.int32)


def _grid_guide(course: Course, phase: Phase) -> Guide:
    params, environment = phase.task.params, course.environment
    assert course.grid
    sees = isinstance(params, Ground) and environment.spec.observations == 4
    ground = params if isinstance(params, Ground) else None
    layout = ground.layout if ground else params
    fine = (COARSE if sees else FINE) // (2 if course.quick else 1) or 1
    budgets = np.asarray(phase.task.budgets, np.float32)
    relative = (1 + budgets.mean()) / (1 + budgets)
    lams = LAMBDAS[::3] if course.quick else LAMBDAS
    plan = partial(_plan, config=course.grid, fine=fine, sees=sees)
    rewards = np.array([course.grid.step_reward, course.grid.goal_reward], np.float32)
    if ground:
        rewards = ground.rewards
    tables = jnp.stack([plan(layout, ground, jnp.asarray(rewards), jnp.asarray(lam * relative)) for lam in lams])
    return Guide(tables, _by_table(fine, sees), steps=WALK_STEPS // (4 if course.quick else 1))


@partial(jax.jit, static_argnames=("config", "fine", "sees"))
def _plan(
    layout: Layout, ground: Ground | None, rewards: Array, lam: Array, *, config: GridConfig, fine: int, sees: bool
) -> Array:
    """The action at each sub-cell for each place of the hazard [stops, rows, columns]."""
    height, width = layout.walls.shape
    rows, columns = jnp.meshgrid(jnp.arange(height * fine), jnp.arange(width * fine), indexing="ij")
    centres = (jnp.stack([columns, rows], -1).reshape(-1, 2) + 0.5) / fine
    points, weights = np.polynomial.hermite_e.hermegauss(NOISE)
    lengths = config.step_mean + config.step_std * jnp.asarray(points, jnp.float32)
    weights = jnp.asarray(weights / weights.sum(), jnp.float32)
    stops = jnp.asarray(ground.hazard.path)[:: POINTS // STOPS] if ground and sees else jnp.zeros((1, 2))

    def outcome(pos: Array, action: Array, length: Array) -> tuple[Array, Array, Array]:
        there = physics.land(pos, action, length, layout)
        reached = physics.at_goal(there, layout)
        if ground and sees:
            moving = jax.vmap(hazard_cost, (None, 0, None))(there, stops, ground.hazard)  # [stops, J]
            cost = physics.cost_at(there, layout)[None] + moving
        else:
            cost = (mean_cost(there, ground) if ground else physics.cost_at(there, layout))[None]
        column, row = physics.cell_of(there * fine)
        gain = rewards[0] + rewards[1] * reached - cost @ lam  # [stops], at each place of the hazard after the step
        return row * (width * fine) + column, gain, GAMMA * ~reached

    by_length = jax.vmap(outcome, (None, None, 0))
    by_action = jax.vmap(by_length, (None, 0, None))
    index, gain, discount = jax.vmap(by_action, (0, None, None))(centres, jnp.arange(physics.NUM_ACTIONS), lengths)
    moves = jnp.clip(ground.hazard.pace * STOPS / POINTS, 0.0, 1.0) if ground and sees else jnp.zeros(())

    def action_values(values: Array) -> Array:
        """Values [cells, stops] -> [stops, cells, actions]; the hazard goes on to its next place with some chance."""

        def at(stop: Array) -> Array:
            return (gain[..., stop] + discount * values[index, stop]) @ weights

        def one(stop: Array) -> Array:
            return (1 - moves) * at(stop) + moves * at((stop + 1) % len(stops))

        return jax.lax.map(one, jnp.arange(len(stops)))

    def sweep(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        values, _, count = carry
        new = action_values(values).max(2).T
        return new, jnp.abs(new - values).max(), count + 1

    start = (jnp.zeros((len(centres), len(stops))), jnp.array(jnp.inf), jnp.array(0))
    values, _, _ = jax.lax.while_loop(lambda c: (c[1] > TOLERANCE) & (c[2] < SWEEPS), sweep, start)
    best = action_values(values).argmax(2)
    return best.reshape(len(stops), height * fine, width * fine)


def reachable(course: Course, seeds: int = 4) -> tuple[list[Best], list[dict[str, Any]]]:
    """The best plan of each phase, and what it reaches: shares and rates, from runs of the whole phase."""
    bests, found = [], []
    for phase in course.phases:
        best = find_best(course, phase.number)
        rows = [oracle_episodes(course, phase, best, 1000 + n) for n in range(seeds)]
        numbers = [phase_of(one, phase.start, phase.end, phase.task.budgets) for one in rows]
        bests.append(best)
        found.append({name: float(np.mean([getattr(n, name) for n in numbers])) for name in numbers[0]._fields})
    return bests, found
