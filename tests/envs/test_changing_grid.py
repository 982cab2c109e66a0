"""The grid with a moving hazard and changing rewards: one program for all parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from safedsr.envs.environment import check_environment
from safedsr.envs.grid.changing import POINTS, Ground, Hazard, hazard_at, make_changing_grid, no_hazard
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.envs.grid.text import parse_scene
from safedsr.types import JOINED, Transition

CONFIG = GridConfig(time_limit=50)
LAYOUT = parse_scene("S....\n.....\n..C..\n....G\n").layout
UP_AND_DOWN = np.stack([np.full(POINTS, 2.5), np.linspace(0.5, 3.5, POINTS)], 1).astype(np.float32)
HAZARD = Hazard(UP_AND_DOWN, np.float32(1.0), np.array([2.0], np.float32), np.float32(4.0))
GROUND = Ground(LAYOUT, np.array([-0.01, 1.0], np.float32), HAZARD)
STILL = GROUND._replace(hazard=no_hazard(1))


def grid(*, sees):
    return make_changing_grid(CONFIG, 1, (-0.01, 2.0), sees=sees)


def test_without_a_hazard_it_is_the_grid():
    plain, changing = make_grid(CONFIG, 1), grid(sees=False)
    check_environment(changing, STILL)
    key = jax.random.key(3)
    state, obs = changing.reset(key, STILL)
    theirs, same = plain.reset(key, LAYOUT)
    assert np.array_equal(obs, same)
    for n, action in enumerate([1, 3, 1, 3, 3, 1, 3, 1]):
        step_key = jax.random.fold_in(key, n)
        state, mine = changing.step(step_key, state, jnp.int32(action), STILL)
        theirs, other = plain.step(step_key, theirs, jnp.int32(action), LAYOUT)
        assert all(map(np.array_equal, mine, other))


def test_the_hazard_moves_along_its_path_and_costs():
    world = grid(sees=True)
    check_environment(world, GROUND)
    state, obs = world.reset(jax.random.key(0), GROUND)
    start = float(state.point)
    assert np.allclose(obs[2:] * LAYOUT.scale, hazard_at(HAZARD, state.point))
    places = []
    for n in range(10):
        state, step = world.step(jax.random.key(n), state, jnp.int32(3), GROUND)
        places.append(float(state.point))
        centre = np.asarray(hazard_at(HAZARD, state.point))
        hit = np.hypot(*(np.asarray(state.pos) - centre)) < 1
        own = LAYOUT.costs[0][int(state.pos[1]), int(state.pos[0])]
        assert float(step.cost[0]) == pytest.approx(2 * hit + own)
    assert np.allclose(places, (start + 4 * np.arange(1, 11)) % POINTS, atol=1e-3)
    resting = GROUND._replace(hazard=HAZARD._replace(pace=np.float32(0)))
    after, _ = world.step(jax.random.key(0), state, jnp.int32(0), resting)
    assert float(after.point) == float(state.point)


def test_one_program_serves_all_hazards():
    world = grid(sees=True)
    step = jax.jit(world.step)
    state, _ = world.reset(jax.random.key(0), GROUND)
    for ground in (GROUND, STILL, GROUND._replace(hazard=HAZARD._replace(radius=np.float32(9)))):
        step(jax.random.key(0), state, jnp.int32(0), ground)
    assert step._cache_size() == 1  # type: ignore[attr-defined]


def stored(x, y, hazard=(), terminated=0.0):
    obs = jnp.asarray([x, y, *hazard], jnp.float32) / LAYOUT.scale
    return Transition(obs, jnp.int32(0), jnp.float32(-0.01), jnp.zeros(1), obs, jnp.float32(terminated))


def test_stored_steps_get_new_costs_rewards_and_ends():
    blind, seeing = grid(sees=False).relabel, grid(sees=True).relabel
    assert blind and seeing
    moved = GROUND._replace(layout=LAYOUT._replace(goal=np.array([0, 3], np.int32)), rewards=np.array([-0.5, 2.0]))
    there = blind(stored(0.5, 3.5), moved)
    assert float(there.reward) == 1.5 and float(there.terminated) == 1
    gone = blind(stored(4.5, 3.5, terminated=1.0), moved)
    assert float(gone.reward) == -0.5 and float(gone.terminated) == 0
    assert float(blind(stored(4.5, 3.5, terminated=JOINED), moved).terminated) == JOINED
    assert float(seeing(stored(2.0, 1.9, (2.5, 1.5)), GROUND).cost[0]) == 2
    assert float(seeing(stored(2.0, 1.9, (2.5, 3.5)), GROUND).cost[0]) == 0
    on_path = float(np.mean(np.hypot(*(np.array([[2.5, 0.5]]) - UP_AND_DOWN).T) < 1))
    assert float(blind(stored(2.5, 0.5), GROUND).cost[0]) == pytest.approx(2 * on_path)


def test_parameters_are_saved_and_read():
    world = grid(sees=False)
    from safedsr.envs.environment import Task

    assert world.to_json and world.from_json
    again = world.from_json("x", world.to_json(Task("x", GROUND, ("cost",), (1.0,))))
    assert all(map(np.array_equal, jax.tree.leaves(GROUND), jax.tree.leaves(again)))
