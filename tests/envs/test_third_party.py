"""Environments and numbers of others: MO-Gymnasium, MiniGrid, and the functions of the examples."""

import importlib.util
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from safedsr.envs.copies import Copies
from safedsr.envs.host import from_gymnasium

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def example(name: str) -> Any:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_minecart_steps_as_mo_gymnasium_does_alone():
    pytest.importorskip("mo_gymnasium")
    made = from_gymnasium("minecart-deterministic-v0", reward=0, cost=example("minecart").fuel)
    alone = gymnasium.make("mo_gymnasium:minecart-deterministic-v0", disable_env_checker=True)
    obs, _ = alone.reset(seed=3)
    rng = np.random.default_rng(0)
    with Copies(made.host, [made.params]) as copies:
        np.testing.assert_allclose(copies.reset(np.array([[3]]))[0], obs, rtol=1e-6)
        for action in rng.integers(6, size=200):
            copies.begin_step(np.array([action]))
            rows = copies.end_step()
            obs, gained, terminated, truncated, _ = alone.step(action)
            reward = np.asarray(gained)
            np.testing.assert_allclose(rows.next_obs[0], obs, rtol=1e-6)
            np.testing.assert_allclose(rows.extra[0], reward, rtol=1e-6)
            assert (rows.reward[0], rows.cost[0, 0]) == (reward[0], -reward[2])
            assert (rows.terminated[0], rows.truncated[0]) == (terminated, truncated)
            if terminated or truncated:
                obs, _ = alone.reset()


def test_the_best_known_policies_of_minecart():
    """The numbers that follow from the front which comes with the environment."""
    pytest.importorskip("mo_gymnasium")
    minecart = example("minecart")
    found = [minecart.best_known(budget) for budget in minecart.BUDGETS]
    np.testing.assert_allclose(found, [0.556, 0.603, 1.022, 1.108], atol=5e-4)


def test_lava_costs_instead_of_ending_the_episode():
    pytest.importorskip("minigrid")
    lava = example("minigrid_lava")
    made = from_gymnasium(lava.room, cost=lava.lava)
    assert made.spec.success and made.spec.observations == 3
    forward = np.array([2])
    with Copies(made.host, [made.params]) as copies:
        start = copies.reset(np.array([[0]]))
        assert start[0].tolist() == [1, 1, 0]
        walked = []
        for _ in range(6):
            copies.begin_step(forward)
            rows = copies.end_step()
            walked.append((rows.next_obs[0, 0].item(), rows.cost[0, 0].item(), bool(rows.success[0])))
    assert walked == [(2, 0, False), (3, 1, False), (4, 1, False), (5, 1, False), (6, 0, False), (7, 0, True)]


@pytest.mark.parametrize(
    ("module", "name", "needs"),
    [
        ("minigrid_lava", "room", "minigrid"),
        ("lunar_lander", "lander", "Box2D"),
        ("four_room", "rooms", "mo_gymnasium"),
        ("four_room", "maze", "mo_gymnasium"),
        ("resource_gathering", "field", "mo_gymnasium"),
    ],
)
def test_the_environments_of_the_examples_pass_gymnasiums_checker(module, name, needs):
    pytest.importorskip(needs)
    check_env(Alone(getattr(example(module), name)()), skip_render_check=True)


class Alone(gymnasium.Env):
    """An environment without its spec, from which the checker would make another one, and with a sum as reward."""

    def __init__(self, env: gymnasium.Env) -> None:
        self.env, self.observation_space, self.action_space = env, env.observation_space, env.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, float(np.sum(np.asarray(reward))), terminated, truncated, info


def test_the_maze_of_sft_cop_has_its_traps():
    pytest.importorskip("mo_gymnasium")
    rooms = example("four_room")
    made = from_gymnasium(rooms.maze, reward=[0, 1, 2], cost=rooms.traps)
    assert len(rooms.TRAPS) == 12 and made.spec.observations == 2 + 18
    at = [np.array([row, column, *[0] * 18]) for row, column in ((1, 8), (1, 7), (1, 6))]
    enter = [bool(rooms.traps(at[0], 0, place, np.zeros(3), {})) for place in at]
    assert enter == [False, True, False]
    assert [bool(rooms.traps(at[2], 0, place, np.zeros(3), {}, right=1.0)) for place in at] == [True, False, False]


def test_the_costs_of_the_examples():
    zones, lander, rooms, highway = map(example, ("zones", "lunar_lander", "four_room", "highway_lane"))
    at = [np.array([x, 0, 0, 0]) for x in (0.0, -1.2, 1.2, 1.4)]
    assert [bool(zones.forbidden(None, 0, x, 1.0, {})) for x in at] == [False, True, True, False]
    assert [bool(zones.one_side(None, 0, x, 1.0, {})) for x in at] == [False, False, True, True]
    assert [lander.fuel(None, action, None, 0.0, {}) for action in range(4)] == [0, 0.1, 1, 0.1]
    assert [rooms.forbidden(None, 0, None, np.array([0.0, 1.0, 1.0]), {}, kind=k) for k in (0, 1, 2)] == [0, 1, 1]
    cars = np.zeros((5, 5))
    cars[0, 2] = 2 / 3
    assert [bool(highway.closed(None, 0, cars, 0.0, {}, lane=lane)) for lane in (0, 1, 2)] == [False, False, True]


def test_in_resource_gathering_a_death_and_the_closed_cell_cost():
    danger = example("resource_gathering").danger
    here, elsewhere, alive, dead = (
        np.array([2.0, 4.0, 0, 0]),
        np.array([2.0, 3.0, 0, 0]),
        np.zeros(3),
        np.array([-1.0, 0, 0]),
    )
    assert not danger(elsewhere, 0, here, alive, {}) and danger(elsewhere, 0, here, dead, {})
    assert danger(elsewhere, 0, here, alive, {}, row=2, column=4)
    assert not danger(here, 0, elsewhere, alive, {}, row=2, column=4)


def test_a_zone_of_the_track_may_lie_on_either_side():
    between = example("zones").between
    left, right = np.array([-0.5, 0, 0, 0]), np.array([0.5, 0, 0, 0])
    assert between(left, 0, right, 1.0, {}) and not between(right, 0, left, 1.0, {})
    assert between(right, 0, left, 1.0, {}, low=-9, high=-0.3)
