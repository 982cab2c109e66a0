"""minecart-deterministic-v0 of MO-Gymnasium in JAX, with the fuel, times its price, as a cost.

A cart leaves its base in the corner (0, 0), mines two kinds of ore and sells them when it returns, which ends the
episode (Abels et al. 2019). The reward is the ore that is sold, of both kinds or of one. A step is four frames long.
"""

import functools
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Environment, Spec, Step
from safedsr.envs.twins import numbers_to_json, with_numbers
from safedsr.types import Transition

ACTIONS = ("mine", "left", "right", "accelerate", "brake", "none")
MINE, LEFT, RIGHT, ACCELERATE, BRAKE, NONE = range(6)
FRAMES = 4
FUEL = FRAMES * np.array([0.055, 0.005, 0.005, 0.03, 0.005, 0.005], np.float32)  # of each action
STANDING, TURN, PUSH = 0.001, 10.0, 0.0075  # slower than this is standing; degrees and speed of a frame
BASE, REACH, CAPACITY = 0.15, 0.14, 1.5  # radius of the base, from where a mine can be mined, load of the cart
MINES = np.array([[0.16, 0.84], [0.5, 0.84], [0.84, 0.84], [0.84, 0.5], [0.84, 0.16]], np.float32)
ORES = np.array([[0.2, 0.0], [0.15, 0.1], [0.2, 0.2], [0.1, 0.15], [0.0, 0.2]], np.float32)  # of each mine in a frame


class Fuel(NamedTuple):
    """The price of fuel."""

    price: Any  # []


class Cart(NamedTuple):
    """State of an episode."""

    pos: Array  # [2]
    speed: Array  # []
    angle: Array  # [] degrees
    load: Array  # [2] of each ore
    left: Array  # [] bool, the cart has left the base


def reset(key: Array, fuel: Fuel) -> tuple[Cart, Array]:
    """A new episode at the base."""
    del key, fuel
    cart = Cart(jnp.zeros(2), jnp.zeros(()), jnp.array(45.0), jnp.zeros(2), jnp.zeros((), bool))
    return cart, observe(cart)


def observe(cart: Cart) -> Array:
    """Position, speed, sine and cosine of the direction, load as shares of the capacity."""
    angle = jnp.deg2rad(cart.angle)
    return jnp.concatenate([cart.pos, jnp.stack([cart.speed, jnp.sin(angle), jnp.cos(angle)]), cart.load / CAPACITY])


def step(key: Array, cart: Cart, action: Array, fuel: Fuel, ore: int | None = None) -> tuple[Cart, Step]:
    """Four frames of one action; the first frame after the return to the base still applies it, the others do not.

    `ore` is the kind that counts, 0 or 1; without it, both count.
    """
    del key  # nothing is random
    sold, home, back = jnp.zeros(2), jnp.zeros((), bool), jnp.zeros((), bool)
    for _ in range(FRAMES):
        applied = _apply(cart, action)
        moved = _move(applied)
        near = jnp.sqrt(moved.pos @ moved.pos) < BASE
        returned = near & moved.left & ~home
        after = moved._replace(left=moved.left | ~near, load=jnp.where(returned, 0.0, moved.load))
        sold = sold + jnp.where(returned, moved.load, 0.0)
        cart = _where(home, _where(back, applied, cart), after)
        home, back = home | returned, returned
    return cart, Step(
        obs=observe(cart),
        reward=sold.sum() if ore is None else sold[ore],
        cost=_price(action, fuel),
        terminated=home,
        truncated=jnp.zeros((), bool),
        success=jnp.ones((), bool),
    )


def _where(chosen: Array, one: Cart, other: Cart) -> Cart:
    return jax.tree.map(lambda x, y: jnp.where(chosen, x, y), one, other)


def _price(action: Array, fuel: Fuel) -> Array:
    return (fuel.price * jnp.asarray(FUEL)[action])[None]


def _apply(cart: Cart, action: Array) -> Cart:
    turn = jnp.where(action == LEFT, -TURN, 0.0) + jnp.where(action == RIGHT, TURN, 0.0)
    push = jnp.where(action == ACCELERATE, PUSH, 0.0) - jnp.where(action == BRAKE, 1.0, 0.0)
    distance = jnp.sqrt(((jnp.asarray(MINES) - cart.pos[None]) ** 2).sum(1))
    nearest = jnp.argmin(distance)
    mines = (action == MINE) & (cart.speed < STANDING) & (distance[nearest] <= REACH)
    found = jnp.asarray(ORES)[nearest]
    free = CAPACITY - cart.load.sum()
    taken = found * jnp.minimum(1.0, free / found.sum())
    return cart._replace(
        angle=(cart.angle + turn) % 360.0,
        speed=jnp.clip(cart.speed + push, 0.0, 1.0),
        load=cart.load + jnp.where(mines, taken, 0.0),
    )


def _move(cart: Cart) -> Cart:
    """The cart after a frame; at a border it turns by ten degrees and slides along it."""
    rolls = cart.speed >= STANDING
    angle = jnp.deg2rad(cart.angle)
    speed = cart.speed * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    at_low, at_high = cart.pos == 0, cart.pos == 1
    inside, fast = ~(at_low | at_high), jnp.abs(speed) > STANDING
    out = jnp.where(at_high & (speed > 0), 1.0, 0.0) - jnp.where(at_low & (speed < 0), 1.0, 0.0)
    along_x = jnp.where(inside[1] & fast[1], out[0] * jnp.sign(speed[1]), 0.0)
    along_y = jnp.where(inside[0] & fast[0], out[1] * jnp.sign(speed[0]), 0.0)
    pos = jnp.clip(cart.pos + speed, 0.0, 1.0)
    gone = jnp.sqrt(((pos - cart.pos) ** 2).sum())
    moved = cart._replace(pos=pos, speed=gone, angle=cart.angle + TURN * (along_x - along_y))
    return _where(rolls, moved, cart)


def relabel(t: Transition, fuel: Fuel) -> Transition:
    """A stored transition with the cost of another price."""
    return t._replace(cost=_price(t.action, fuel))


@functools.cache
def make_minecart(time_limit: int, ore: int | None = None) -> Environment:
    """minecart with a price of fuel; its parameters are `Fuel`. The reward is one kind of ore, 0 or 1, or both."""
    usual = Fuel(np.float32(1.0))
    return Environment(
        name="minecart",
        spec=Spec(
            observations=7,
            actions=len(ACTIONS),
            costs=1,
            low=(-1.0,) * 7,
            high=(1.0,) * 7,
            time_limit=time_limit,
            action_names=ACTIONS,
            success=False,
            scaled=True,
        ),
        reset=reset,
        step=step if ore is None else partial(step, ore=ore),
        settings={"time_limit": time_limit, **({} if ore is None else {"ore": ore})},
        to_json=numbers_to_json,
        from_json=lambda name, data: with_numbers(usual, data),
        relabel=relabel,
        params=usual,
        cost_names=("fuel",),
        with_args=with_numbers,
    )
