import subprocess
import sys
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from safedsr.envs import episode
from safedsr.envs.grid import gym
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.envs.grid.gym import PIXELS, GridEnv, SafetyGymnasium
from safedsr.errors import UserError

RIGHT = 3


def make(**options) -> GridEnv:
    env = gymnasium.make("safedsr/Grid-v0", **options).unwrapped
    assert isinstance(env, GridEnv)
    return env


@pytest.mark.parametrize(
    "options",
    [{}, {"layout": "three-rooms", "costs": "diamond,square"}, {"layout": "two-rooms", "render_mode": "rgb_array"}],
)
def test_gymnasium_finds_nothing_to_complain_about(options):
    check_env(make(**options))


@pytest.mark.parametrize("imports", ["gymnasium, safedsr", "safedsr, gymnasium"])
def test_registered_in_either_import_order(imports):
    code = f"import {imports}; print(gymnasium.make('safedsr/Grid-v0', layout='two-rooms').unwrapped.scene.name)"
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "two-rooms\n", "")


def test_step_and_reset_give_what_gymnasium_asks_for():
    env = make(costs="diamond,square")
    obs, info = env.reset(seed=1)
    assert obs.dtype == np.float32
    np.testing.assert_allclose(obs, [0.5 / 11, 5.5 / 11], rtol=1e-6)
    assert info.keys() == {"cost", "costs", "goal"} and info["cost"] == 0.0 and not info["goal"]
    for _ in range(4):
        obs, reward, terminated, truncated, info = env.step(RIGHT)
    assert obs in env.observation_space
    assert (type(reward), type(terminated), type(truncated), type(info["cost"])) == (float, bool, bool, float)
    assert reward == pytest.approx(-0.01) and not terminated and not truncated
    np.testing.assert_array_equal(info["costs"], [1, 1])
    assert info["cost"] == 2.0 and info["goal"] is False


def test_an_episode_ends_at_the_goal_or_at_the_time_limit():
    env = make(config=GridConfig(step_mean=0.5, step_std=0.0, time_limit=20))
    env.reset(seed=0)
    results = [env.step(RIGHT)[1:] for _ in range(19)]
    assert [result[1] for result in results] == [False] * 18 + [True]
    assert results[-1][0] == pytest.approx(0.99) and results[-1][-1]["goal"]
    env.reset()
    flags = [env.step(0)[2:4] for _ in range(20)]
    assert flags == [(False, False)] * 19 + [(False, True)]


def test_same_trajectory_as_the_pure_functions():
    env = make(layout="two-rooms", costs="diamond", config=GridConfig(time_limit=30))
    layout, config = env.scene.layout, env.config
    environment = make_grid(config, 1)
    step = jax.jit(partial(episode.step, environment))
    actions = np.random.default_rng(0).integers(0, 4, 90)
    obs, _ = env.reset(seed=7)
    key, reset_key = jax.random.split(jax.random.key(7))
    running = episode.start(environment, reset_key, layout)
    np.testing.assert_array_equal(obs, running.obs)
    for action in actions:
        key, step_key = jax.random.split(key)
        running, moment = step(step_key, running, jnp.array(action), layout)
        result = moment.step
        obs, reward, terminated, truncated, info = env.step(action)
        np.testing.assert_array_equal(obs, result.obs)
        np.testing.assert_array_equal(info["costs"], result.cost)
        assert (reward, terminated, truncated) == (result.reward, result.terminated, result.truncated)
        if terminated or truncated:
            key, reset_key = jax.random.split(key)
            running = episode.start(environment, reset_key, layout)
            env.reset()


def test_seeds_make_episodes_reproducible():
    def walk(env, seed):
        env.reset(seed=seed)
        return np.array([env.step(action % 4)[0] for action in range(12)])

    env = make()
    first, second = walk(env, 3), walk(env, 4)
    np.testing.assert_array_equal(walk(make(), 3), first)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(walk(env, 3), first)
    assert not np.array_equal(walk(env, None), first)


def test_costs_change_in_the_middle_of_an_episode_and_nothing_else_does():
    steady, changing = make(costs="diamond"), make(costs="diamond")
    for env in (steady, changing):
        env.reset(seed=2)
        env.step(RIGHT)
    step: Any = gym._step
    programs = step._cache_size()
    for number in range(10):
        if number == 4:
            changing.set_costs(np.full((1, 11, 11), 9.0))
        *expected, info = steady.step(RIGHT)
        *found, changed = changing.step(RIGHT)
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[1:] == expected[1:] and changed["goal"] == info["goal"]
        assert changed["cost"] == (info["cost"] if number < 4 else 9.0)
    assert step._cache_size() == programs


def test_the_number_of_costs_is_fixed():
    env = make(costs="diamond")
    with pytest.raises(UserError, match="2 costs given where this environment has 1"):
        env.set_costs("diamond,square")
    assert env.scene.cost_names == ("diamond",)
    env.set_costs("square")
    assert env.scene.cost_names == ("square",)


def test_six_values_for_safety_gymnasium():
    env, plain = SafetyGymnasium(make(costs="diamond,square")), make(costs="diamond,square")
    env.reset(seed=5)
    plain.reset(seed=5)
    for _ in range(5):
        obs, reward, cost, terminated, truncated, info = env.step(RIGHT)
        expected = plain.step(RIGHT)
        np.testing.assert_array_equal(obs, expected[0])
        assert (reward, terminated, truncated) == expected[1:4]
        assert cost == info["cost"] == expected[4]["cost"]
    assert cost == 2.0


def test_frames_show_the_agent_where_it_stands():
    env = make(layout="two-rooms", costs="diamond", render_mode="rgb_array")
    empty = env.render()
    env.reset(seed=0)
    for action in (0, 3, 3, 0, 3):
        obs, *_ = env.step(action)
        frame = env.render()
        assert frame is not None and empty is not None
        assert frame.shape == (11 * PIXELS, 21 * PIXELS, 3) and frame.dtype == np.uint8
        rows, columns = np.nonzero((frame != empty).any(-1))
        np.testing.assert_allclose([columns.mean(), rows.mean()], obs * 21 * PIXELS, atol=1)
        assert len({tuple(pixel) for pixel in frame[rows, columns]}) == 1


def test_frames_show_the_map():
    env = make(layout="two-rooms", costs="diamond", render_mode="rgb_array")
    frame = env.render()
    assert frame is not None
    colours = frame[PIXELS // 2 :: PIXELS, PIXELS // 2 :: PIXELS]
    wall, cost, free, start, goal = (tuple(colours[cell]) for cell in ((0, 10), (5, 5), (0, 0), (5, 0), (5, 20)))
    assert len({wall, cost, free, start, goal}) == 5
    np.testing.assert_array_equal((colours == wall).all(-1), env.scene.layout.walls)
    np.testing.assert_array_equal((colours == cost).all(-1), env.scene.layout.costs[0] > 0)


def test_no_frame_without_a_render_mode():
    env = make()
    env.reset(seed=0)
    assert env.render() is None


def test_misuse_is_told_in_words():
    env = GridEnv()
    with pytest.raises(UserError, match="step before reset; call reset first"):
        env.step(0)
    env.reset(seed=0)
    for action in (4, -1, 1.5, "up"):
        with pytest.raises(UserError, match=r"action is .*; possible: 0 up, 1 down, 2 left, 3 right"):
            env.step(action)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="render_mode is 'ansi'; possible: None, 'rgb_array', 'human'"):
        GridEnv(render_mode="ansi")


def test_the_id_with_the_module_needs_no_import_of_ours():
    code = "import gymnasium; print(gymnasium.make('safedsr:safedsr/Grid-v0', layout='two-rooms').unwrapped.scene.name)"
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "two-rooms\n", "")


def test_a_window_shows_every_step(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame = pytest.importorskip("pygame")
    env = GridEnv(render_mode="human", costs="diamond")
    env.metadata = {**env.metadata, "render_fps": 1000}
    env.reset(seed=0)
    for _ in range(3):
        env.step(RIGHT)
        assert env._window is not None
        shown = pygame.surfarray.array3d(env._window.screen).swapaxes(0, 1)
        np.testing.assert_array_equal(shown, env._picture())
    assert env.render() is None
    env.close()
    assert env._window is None and not pygame.display.get_init()


def test_a_window_needs_pygame(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = GridEnv(render_mode="human")
    with pytest.raises(UserError, match=r"render_mode='human' needs pygame: pip install 'safedsr\[human\]'"):
        env.reset(seed=0)


def test_a_scene_may_be_given_instead_of_a_name():
    scene = load_scene("one-room", "square")
    assert GridEnv(scene).scene is scene
    assert GridEnv(scene, "none").scene.cost_names == ("none",)
