"""The agent of one trial, what it carries through a task, and what a task reports."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core import multiplier
from safedsr.core.multiplier import Multiplier
from safedsr.envs.environment import Environment
from safedsr.envs.episode import Episode
from safedsr.transfer import guess as guesses
from safedsr.transfer import library as libraries
from safedsr.transfer import memory as memories
from safedsr.transfer import tables
from safedsr.transfer.config import TransferConfig
from safedsr.transfer.guess import Guess
from safedsr.transfer.library import Library
from safedsr.transfer.memory import Memory
from safedsr.transfer.rooms import Rooms
from safedsr.transfer.tables import Plan
from safedsr.types import PyTree


class Traveller(NamedTuple):
    """The agent of one trial."""

    key: Array
    multiplier: Multiplier
    table: Array  # [n, A, d] M
    usual: Array  # [cells, A, d] M of a cell, for states and actions that are new
    memory: Memory
    guess: Guess
    library: Library


class Walk(NamedTuple):
    """What changes with every step."""

    multiplier: Multiplier
    memory: Memory
    episode: Episode
    state: Array  # [] number of the present state
    first: Array  # [] number of the state in which episodes begin


class Report(NamedTuple):
    """What happened in one task."""

    reward: Array  # [steps / 1000] sum of rewards in each 1 000 steps
    traps: Array  # [steps / 1000]
    episodes: Array  # [] that ended
    goals: Array  # []
    greedy_reward: Array  # [] of one episode without random actions after the task
    greedy_traps: Array  # []
    greedy_goal: Array  # []
    greedy_steps: Array  # []
    lam: Array  # []
    states: Array  # [] in the memory
    lost: Array  # [] steps into states for which the memory had no room
    stored: Array  # [] policies in the library
    borrowed: Array  # [] share of the known states' actions whose M came from the library at the start of the task


class Tools(NamedTuple):
    """Static arguments of the compiled functions."""

    config: TransferConfig
    environment: Environment
    rooms: Rooms


def init(key: Array, tools: Tools) -> Traveller:
    """The agent before its first task."""
    config, actions = tools.config, tools.environment.spec.actions
    features = tools.rooms.features + 1  # and novelty
    table = jnp.zeros((config.states, actions, features))
    return Traveller(
        key=key,
        multiplier=multiplier.init(1, config.multiplier),
        table=table,
        usual=jnp.broadcast_to(tables.novel(features), (tools.rooms.cells, actions, features)),
        memory=memories.empty(config.states, actions),
        guess=guesses.init(tools.rooms.codes),
        library=libraries.empty(config.library, table),
    )


def direction(s: Traveller, params: PyTree, lam: Array, tools: Tools) -> Array:
    """w_r - λ·w_c of all features, with the worth of novelty last."""
    weights = tools.rooms.weights(s.guess, params, tools.config.curiosity)
    return jnp.append(weights.w_r - lam[0] * weights.w_c, tools.config.bonus)


def features_of(s: Traveller, tools: Tools) -> Array:
    """The features of each code, [codes, d]; none of them is novel."""
    return jnp.pad(tools.rooms.features_of(s.guess), ((0, 0), (0, 1)))


def plan_of(s: Traveller, direction: Array, tools: Tools) -> Plan:
    """What the agent learns M for while it explores."""
    config = tools.config
    usual = s.usual if config.remember else None
    epsilon = config.epsilon if config.foresee else 0.0
    return Plan(s.memory, features_of(s, tools), direction, usual, config.gamma, epsilon)


def used(s: Traveller) -> Traveller:
    """The agents of several trials, with those entries of the memory and the tables only that are in use."""
    count = min(-(-int(s.memory.count.max()) // tables.CHUNK) * tables.CHUNK, s.table.shape[1])
    return s._replace(
        table=s.table[:, :count],
        memory=s.memory._replace(keys=s.memory.keys[:, :count], steps=s.memory.steps[:, :count]),
        library=s.library._replace(tables=s.library.tables[:, :, :count]),
    )


def numbers(report: Report) -> dict[str, np.ndarray]:
    """A report of several trials as NumPy arrays."""
    return {name: np.asarray(value) for name, value in report._asdict().items()}
