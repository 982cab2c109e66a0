"""The twins in JAX against the environments themselves, step by step."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from safedsr.envs.environment import check_environment
from safedsr.envs.twins import make_twin, with_numbers
from safedsr.envs.twins.cartpole import NO_ZONES, Zones, steady
from safedsr.envs.twins.four_room import EVENTS, MAZE, Rewards, cells, event, read_map
from safedsr.envs.twins.minecart import FUEL, make_minecart
from safedsr.errors import UserError
from safedsr.types import Transition


@functools.cache
def compiled(name: str):
    """A twin and its compiled step, for all tests together."""
    twin = make_twin(name)
    return twin, jax.jit(twin.step)


@functools.cache
def one_ore(ore: int):
    """The compiled step of the twin of minecart that pays for one of its two ores."""
    return jax.jit(make_minecart(1000, ore).step)


def test_cartpole_steps_as_gymnasium():
    (twin, step), real = compiled("cartpole"), gymnasium.make("CartPole-v1").unwrapped
    rng = np.random.default_rng(0)
    check_environment(twin, NO_ZONES)
    for episode in range(5):
        obs, _ = real.reset(seed=episode)
        state, ended = jnp.asarray(obs), False
        while not ended:
            action = int(rng.integers(2))
            obs, reward, ended, _, _ = real.step(action)
            state, found = step(jax.random.key(0), state, action, NO_ZONES)
            assert np.allclose(found.obs, obs, atol=1e-4) and bool(found.terminated) == ended
            assert float(found.reward) == reward == 1.0 and float(found.cost[0]) == 0.0


def test_the_steady_controller_keeps_the_cart_near_the_middle():
    twin, zones = (
        make_twin("cartpole", 200),
        Zones(np.array([0.3, -9.0], np.float32), np.array([9.0, -0.3], np.float32)),
    )

    def one(state, key):
        state, found = twin.step(key, state, steady(state), zones)
        return state, (found.cost[0], found.terminated)

    start = jax.vmap(lambda key: twin.reset(key, zones)[0])(jax.random.split(jax.random.key(1), 50))
    costs, ended = jax.vmap(lambda s: jax.lax.scan(one, s, jax.random.split(jax.random.key(0), 200))[1])(start)
    assert not np.asarray(ended).any() and not np.asarray(costs).any()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of MO-Gymnasium
@pytest.mark.parametrize("seed", range(6))
def test_minecart_steps_as_mo_gymnasium(seed):
    import mo_gymnasium  # noqa: F401

    twin, step = compiled("minecart")
    real = gymnasium.make("mo_gymnasium:minecart-deterministic-v0", disable_env_checker=True).unwrapped
    check_environment(twin, twin.params)
    rng, price = np.random.default_rng(seed), twin.params._replace(price=np.float32(2))
    obs, _ = real.reset(seed=0)
    cart, first = twin.reset(jax.random.key(0), price)
    assert np.allclose(first, obs, atol=1e-6)
    sold, weights = 0.0, ([2, 1, 1, 4, 1, 2], [6, 1, 1, 2, 3, 1])[seed % 2]
    for n in range(150):
        action = [3, 5, 5, 5, 5, 4][n] if n < 6 and seed < 4 else int(rng.choice(6, p=np.divide(weights, sum(weights))))
        obs, given, ended, _, _ = real.step(action)
        reward = np.asarray(given)
        own = one_ore(seed % 2)(jax.random.key(0), cart, action, price)[1].reward
        cart, found = step(jax.random.key(0), cart, action, price)
        assert np.isclose(own, reward[seed % 2], atol=1e-3)
        assert np.allclose(found.obs, obs, atol=2e-3), (n, action)
        assert np.isclose(found.reward, reward[:2].sum(), atol=1e-3) and bool(found.terminated) == ended
        assert np.isclose(found.cost[0], -2 * reward[2]) and np.isclose(found.cost[0], 2 * FUEL[action])
        sold += float(found.reward)
        if ended:
            break


def test_parameters_of_twins_are_checked():
    assert with_numbers(NO_ZONES, {"low": [0.1, 0.2]}).low.tolist() == np.array([0.1, 0.2], np.float32).tolist()
    with pytest.raises(UserError, match=r"unknown parameter 'lov'.*'low'"):
        with_numbers(NO_ZONES, {"lov": [0.1, 0.2]})
    with pytest.raises(UserError, match="low is 3; give a list of 2 finite numbers"):
        with_numbers(NO_ZONES, {"low": 3})
    with pytest.raises(UserError, match="unknown environment 'cartpol'; did you mean 'cartpole'"):
        make_twin("cartpol")


@pytest.mark.parametrize("seed", range(4))
def test_four_room_steps_as_mo_gymnasium(seed):
    """Cells, shapes and ends are compared; traps, which that environment does not have, are counted on the map."""
    from mo_gymnasium.envs.four_room.four_room import FourRoom

    letters = str.maketrans({".": " ", "#": "X", "S": "_"})
    drawn = np.array([list(line.translate(letters)) for line in MAZE.split()])
    real, (twin, step) = FourRoom(maze=drawn), compiled("four-room")
    check_environment(twin, twin.params)
    plan, rng = read_map(), np.random.default_rng(seed)
    params = Rewards(rng.uniform(-1, 1, 3).astype(np.float32))
    met, drift = set(), rng.dirichlet(np.ones(4), 3)
    for episode in range(3):
        obs, _ = real.reset()
        place, first = twin.reset(jax.random.key(0), params)
        assert np.array_equal(first[:-1], obs)
        for _ in range(600):
            before, action = obs, int(rng.choice(4, p=0.5 * drift[episode] + 0.125))
            obs, counts, ended, _, _ = real.step(action)
            place, found = step(jax.random.key(0), place, action, params)
            assert np.array_equal(found.obs[:-1], obs) and bool(found.terminated) == bool(found.success) == ended
            trap = drawn[tuple(obs[:2])] == "T" and tuple(obs[:2]) != tuple(before[:2])
            assert float(found.cost[0]) == trap
            assert float(found.reward) == pytest.approx(1.0 if ended else float(counts @ params.shapes), abs=1e-6)
            met.add(EVENTS[int(event(found.obs, plan))])
            if ended:
                break
    assert {"nothing", "trap"} < met and len(met) >= 4


def test_four_room_gives_stored_steps_the_rewards_of_another_task():
    (twin, step), plan = compiled("four-room"), read_map()
    one, other = Rewards(np.array([0.5, -1, 0.25], np.float32)), Rewards(np.array([-0.5, 0.75, 1], np.float32))
    rng, place, met = np.random.default_rng(0), twin.reset(jax.random.key(0), one)[0], []
    groups, relabel = cells(plan), twin.relabel
    assert relabel
    obs = jnp.concatenate([place.cell.astype(jnp.float32), place.taken, jnp.zeros(1)])
    codes = {}
    for _ in range(400):
        action = jnp.int32(rng.choice(4, p=[0.15, 0.35, 0.35, 0.15]))
        after, found = step(jax.random.key(0), place, action, one)
        _, wanted = step(jax.random.key(0), place, action, other)
        stored = Transition(obs, action, found.reward, found.cost, found.obs, found.terminated)
        relabelled = relabel(stored, other)
        assert float(relabelled.reward) == float(wanted.reward) and float(relabelled.cost[0]) == float(wanted.cost[0])
        met.append(float(wanted.reward))
        # All steps with the same code have the same reward and cost.
        code = int(groups.index((), found.obs))
        assert codes.setdefault(code, (float(found.reward), float(found.cost[0]))) == (
            float(found.reward),
            float(found.cost[0]),
        )
        place, obs = (twin.reset(jax.random.key(0), one)[0], obs) if bool(found.terminated) else (after, found.obs)
    assert len(set(met)) >= 3 and max(codes) < groups.count(one)
