"""The twins in JAX against the environments themselves, step by step."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from safedsr.envs.environment import check_environment
from safedsr.envs.twins import make_twin, with_numbers
from safedsr.envs.twins.cartpole import NO_ZONES, Zones, steady
from safedsr.envs.twins.minecart import FUEL, make_minecart
from safedsr.errors import UserError


def test_cartpole_steps_as_gymnasium():
    twin, real = make_twin("cartpole"), gymnasium.make("CartPole-v1").unwrapped
    step, rng = jax.jit(twin.step), np.random.default_rng(0)
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

    twin = make_twin("minecart")
    real = gymnasium.make("mo_gymnasium:minecart-deterministic-v0", disable_env_checker=True).unwrapped
    check_environment(twin, twin.params)
    one_ore = jax.jit(make_minecart(1000, seed % 2).step)
    step, rng, price = jax.jit(twin.step), np.random.default_rng(seed), twin.params._replace(price=np.float32(2))
    obs, _ = real.reset(seed=0)
    cart, first = twin.reset(jax.random.key(0), price)
    assert np.allclose(first, obs, atol=1e-6)
    sold, weights = 0.0, ([2, 1, 1, 4, 1, 2], [6, 1, 1, 2, 3, 1])[seed % 2]
    for n in range(150):
        action = [3, 5, 5, 5, 5, 4][n] if n < 6 and seed < 4 else int(rng.choice(6, p=np.divide(weights, sum(weights))))
        obs, given, ended, _, _ = real.step(action)
        reward = np.asarray(given)
        own = one_ore(jax.random.key(0), cart, action, price)[1].reward
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
