"""What an agent with tables needs of the four rooms: numbers of states and cells, and features, known or learnt."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.envs.twins.four_room import EVENTS, KINDS, Map, cells, event, read_map, worth
from safedsr.errors import UserError
from safedsr.transfer import guess as guesses
from safedsr.transfer.guess import Guess
from safedsr.types import PyTree

LEARNT = 32  # largest number of features of an agent that learns them; SFT-CoP's map needs 31


class Weights(NamedTuple):
    """The reward and the cost of each feature."""

    w_r: Array  # [features]
    w_c: Array  # [features]


class Rooms(NamedTuple):
    """Functions of observations and of what an agent has observed."""

    cells: int
    codes: int
    features: int
    key: Callable[[Array], Array]  # obs -> the state as an integer; its remainder by `cells` is its cell
    code: Callable[[Array], Array]  # obs after a step -> what the step did
    features_of: Callable[[Guess], Array]  # -> [codes, features]
    weights: Callable[[Guess, PyTree, float], Weights]  # (…, rewards of the task, curiosity) -> w_r, w_c


def rooms_of(known: bool, plan: Map | None = None) -> Rooms:
    """The four rooms for an agent with or without knowledge of shapes and traps."""
    plan = plan or read_map()
    width, count = plan.walls.shape[1], plan.walls.size
    bits = 2 ** jnp.arange(plan.shapes)

    def key(obs: Array) -> Array:
        cell = (width * obs[0] + obs[1]).astype(jnp.int32)
        return cell + count * (obs[2:-1].astype(jnp.int32) * bits).sum()

    if known:
        trap = jax.nn.one_hot(KINDS + 2, len(EVENTS))

        def true_weights(guess: Guess, params: PyTree, curiosity: float) -> Weights:
            del guess, curiosity
            return Weights(worth(params), trap)

        n = len(EVENTS)
        return Rooms(count, n, n, key, lambda obs: event(obs, plan), lambda guess: jnp.eye(n), true_weights)

    needed = plan.shapes + int(plan.traps.sum()) + 1  # and the goal
    if needed > LEARNT:
        raise UserError(
            f"the map has {plan.shapes} shapes, {int(plan.traps.sum())} traps and a goal; an agent without knowledge "
            f"learns a feature for each of them, {LEARNT} at most"
        )
    groups = cells(plan)
    codes = groups.count(())

    def features_of(guess: Guess) -> Array:
        return jax.nn.one_hot(guess.number, LEARNT)  # a number stays, because stored policies keep their features

    def weights(guess: Guess, params: PyTree, curiosity: float) -> Weights:
        del params
        features = features_of(guess)
        return Weights(guesses.rewards(guess, curiosity) @ features, guesses.costs(guess) @ features)

    return Rooms(count, codes, LEARNT, key, lambda obs: groups.index((), obs), features_of, weights)
