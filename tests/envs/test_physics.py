from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import slow_step
from scipy import stats
from strategies import World, worlds

from safedsr.envs import episode
from safedsr.envs.episode import Episode
from safedsr.envs.grid import physics as grid
from safedsr.envs.grid.catalog import load_scene, with_costs
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.envs.grid.layout import Layout, make_layout, stack_layouts
from safedsr.errors import UserError

LIMITED = GridConfig(time_limit=12)
FULL = World(np.zeros((5, 6), bool), np.zeros((2, 5, 6), np.float32), [(0, 0), (1, 0), (2, 0)], (5, 4))


def padded(world: World) -> Layout:
    """The layout in one shape for all worlds, so that one program serves every example."""
    return jax.tree.map(lambda field: field[0], stack_layouts([world.layout(), FULL.layout()]))


@partial(jax.jit, static_argnames="config")
def walk(key, layout, actions, config):
    """The start, the episode after each step and what the step gave, and the step lengths."""
    keys = jax.random.split(key, len(actions))
    environment = make_grid(config, len(layout.costs))
    start = episode.start(environment, key, layout)

    def advance(before, inputs):
        after, moment = episode.step_or_restart(environment, inputs[0], before, inputs[1], layout)
        return after, (after, moment)

    _, walked = jax.lax.scan(advance, start, (keys, actions))
    return start, walked, jax.vmap(grid.step_length, (0, None))(keys, config)


@settings(max_examples=60)
@given(world=worlds(st.just(2)), seed=st.integers(0, 2**31 - 1), data=st.data())
def test_agrees_with_the_slow_twin(world, seed, data):
    pushy = data.draw(st.integers(0, 3), label="favourite action")
    rng = np.random.default_rng(seed)
    actions = np.where(rng.random(60) < 0.4, pushy, rng.integers(0, 4, 60))
    begin, walked, lengths = walk(jax.random.key(seed), padded(world), actions, LIMITED)
    start, (episodes, moments), lengths = jax.device_get((begin, walked, lengths))

    scale = max(world.walls.shape)
    centres = {(np.float32(column + 0.5), np.float32(row + 0.5)) for column, row in world.starts}
    pos, time, ret, cost = tuple(start.state.pos), 0, 0.0, np.zeros(2)
    assert pos in centres
    np.testing.assert_allclose(start.obs, start.state.pos / scale, rtol=1e-6)
    for i, action in enumerate(actions):
        slow = slow_step(world.walls, world.costs, world.goal, pos, action, lengths[i], time, LIMITED.time_limit)
        moment, after = jax.tree.map(lambda field, i=i: field[i], (moments, episodes))
        step = moment.step
        assert not world.walls[int(slow.y), int(slow.x)]
        np.testing.assert_allclose(step.obs, slow.obs, rtol=1e-6)
        np.testing.assert_allclose(step.reward, slow.reward, rtol=1e-6)
        np.testing.assert_array_equal(step.cost, np.array(slow.cost, np.float32))
        assert (step.terminated, step.truncated) == (slow.terminated, slow.truncated)
        assert step.success == slow.terminated and moment.done == (slow.terminated or slow.truncated)
        pos, time, ret, cost = tuple(after.state.pos), time + 1, ret + slow.reward, cost + slow.cost
        assert moment.time == time
        np.testing.assert_allclose(moment.ret, ret, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(moment.cost, cost, rtol=1e-5, atol=1e-30)  # JAX flushes denormals
        if moment.done:
            assert pos in centres
            time, ret, cost = 0, 0.0, np.zeros(2)
        else:
            np.testing.assert_allclose(pos, (slow.x, slow.y), rtol=1e-6)  # versions of JAX round lengths differently
        assert after.time == time
        np.testing.assert_allclose(after.obs, np.array(pos) / scale, rtol=1e-6)


def one_step(layout: Layout, pos, action: int, time: int = 0, config: GridConfig = GridConfig()):
    environment, state = make_grid(config, len(layout.costs)), grid.GridState(jnp.array(pos, jnp.float32))
    nothing = jnp.zeros(()), jnp.zeros(len(layout.costs))
    before = Episode(state, grid.observe(state, layout), jnp.array(time, jnp.int32), *nothing)
    after, moment = episode.step(environment, jax.random.key(0), before, jnp.array(action), layout)
    return after.state, moment.step


@pytest.mark.parametrize(("action", "cell"), [(0, (2, 1)), (1, (2, 3)), (2, (1, 2)), (3, (3, 2))])
def test_directions(action, cell):
    layout = make_layout(np.zeros((5, 5), bool), np.zeros((0, 5, 5)), [(0, 0)], (4, 4))
    after, _ = one_step(layout, (2.5, 2.5), action)
    assert tuple(np.asarray(grid.cell_of(after.pos))) == cell
    assert grid.ACTIONS[action] == ("up", "down", "left", "right")[action]


@pytest.mark.parametrize("action", range(3))
def test_a_blocked_move_keeps_the_place_and_costs_what_the_cell_costs(action):
    walls = np.ones((3, 4), bool)
    walls[1, 1:3] = False
    costs = np.zeros((2, 3, 4))
    costs[:, 1, 1] = 3, 0.5
    layout = make_layout(walls, costs, [(1, 1)], (2, 1))
    after, result = one_step(layout, (1.1, 1.5), action)
    np.testing.assert_array_equal(after.pos, np.array([1.1, 1.5], np.float32))
    np.testing.assert_array_equal(result.cost, [3, 0.5])
    np.testing.assert_allclose(result.reward, -0.01, rtol=1e-6)


@pytest.mark.parametrize(("pos", "action"), [((0.1, 0.5), 2), ((0.5, 0.1), 0), ((4.5, 2.9), 1), ((4.9, 0.5), 3)])
def test_the_edges_of_the_map_are_walls(pos, action):
    layout = make_layout(np.zeros((3, 5), bool), np.zeros((0, 3, 5)), [(0, 0)], (2, 1))
    after, _ = one_step(layout, pos, action)
    np.testing.assert_array_equal(after.pos, np.array(pos, np.float32))


def test_the_goal_at_the_time_limit_terminates_and_does_not_truncate(corridor):
    config = GridConfig(time_limit=1000)
    _, late = one_step(corridor.layout, (3.9, 0.5), 3, time=999, config=config)
    assert late.terminated and not late.truncated
    np.testing.assert_allclose(late.reward, 0.99, rtol=1e-6)
    _, lost = one_step(corridor.layout, (3.9, 0.5), 2, time=999, config=config)
    assert lost.truncated and not lost.terminated
    _, early = one_step(corridor.layout, (3.9, 0.5), 2, time=998, config=config)
    assert not early.truncated and not early.terminated


def test_rewards_are_settings(corridor):
    config = GridConfig(step_reward=-0.5, goal_reward=7)
    assert one_step(corridor.layout, (3.9, 0.5), 3, config=config)[1].reward == 6.5
    assert one_step(corridor.layout, (1.5, 0.5), 3, config=config)[1].reward == -0.5


def test_observation_and_position_are_inverse():
    layout = load_scene("three-rooms").layout
    pos = jnp.array([30.5, 4.25])
    obs = grid.observe(grid.GridState(pos), layout)
    np.testing.assert_allclose(obs, [30.5 / 31, 4.25 / 31], rtol=1e-6)
    np.testing.assert_allclose(grid.position(obs, layout), pos, rtol=1e-6)


@pytest.mark.parametrize(("clip", "std"), [(1.0, 0.1), (3.0, 0.075)])
def test_step_lengths_are_a_clipped_normal(clip, std):
    count = 200_000
    config = GridConfig(step_std=std, step_clip=clip)
    keys = jax.random.split(jax.random.key(3), count)
    lengths = np.asarray(jax.vmap(grid.step_length, (0, None))(keys, config), np.float64)
    noise = (lengths - 0.75) / std
    tail = stats.norm.sf(clip)
    spread = np.sqrt(1 - 2 * tail - 2 * clip * stats.norm.pdf(clip) + 2 * clip**2 * tail)
    assert abs(noise.mean()) < 4 * spread / np.sqrt(count)
    assert abs(noise.std() - spread) < 4 * spread / np.sqrt(2 * count)
    assert np.abs(noise).max() <= clip + 1e-5
    for end in (-clip, clip):
        at_clip = np.count_nonzero(np.abs(noise - end) < 1e-5)
        assert abs(at_clip - count * tail) < 4 * np.sqrt(count * tail)
    inside = noise[np.abs(noise) < clip - 1e-5]
    assert stats.kstest(inside, stats.truncnorm(-clip, clip).cdf).pvalue > 1e-3


def test_starts_are_uniform():
    world = World(np.zeros((2, 4), bool), np.zeros((2, 2, 4), np.float32), [(0, 0), (1, 0), (0, 1)], (3, 1))
    more = stack_layouts([world.layout(), FULL._replace(starts=[(c, 0) for c in range(5)]).layout()])
    layout = jax.tree.map(lambda field: field[0], more)
    assert len(layout.starts) == 5
    keys = jax.random.split(jax.random.key(0), 3000)
    states, _ = jax.vmap(grid.reset, (0, None))(keys, layout)
    places, counts = np.unique(states.pos, axis=0, return_counts=True)
    np.testing.assert_array_equal(places, [[0.5, 0.5], [0.5, 1.5], [1.5, 0.5]])
    assert stats.chisquare(counts).pvalue > 1e-3


def test_other_maps_and_costs_do_not_recompile():
    step: Any = jax.jit(grid.step, static_argnames="config")
    scene = load_scene("two-rooms", "diamond")
    turned = scene.layout._replace(walls=scene.layout.walls[:, ::-1].copy(), goal=np.array([3, 3], np.int32))
    state, _ = grid.reset(jax.random.key(0), scene.layout)
    for layout in (scene.layout, with_costs(scene, "square").layout, turned, load_scene("rooms-2", "none").layout):
        step(jax.random.key(1), state, 3, layout, GridConfig())
    assert step._cache_size() == 1
    step(jax.random.key(1), state, 3, load_scene("one-room", "diamond").layout, GridConfig())
    assert step._cache_size() == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("step_std", -0.1, "step_std is -0.1"),
        ("step_clip", -1.0, "step_clip is -1.0"),
        ("step_mean", 0.9, "0.675 … 1.125'; steps must lie in"),
        ("step_mean", 0.1, "-0.125 … 0.325'; steps must lie in"),
        ("step_mean", float("nan"), "step_mean is nan; give a finite number"),
        ("time_limit", 0, "time_limit is 0; give a number of steps from 1 to 16777216"),
    ],
)
def test_bad_settings(field, value, message):
    with pytest.raises(UserError) as error:
        GridConfig(**{field: value})
    assert message in str(error.value)
