"""The trainer of SafeDQN, SafeDSR and SafeDSR-plus: ε-greedy acting, memory, λ and target networks (Algs. 1 and 2).

Each phase is compiled separately. Besides the phases of an agent there are two in which it neither learns nor stores
transitions (Sec. 5.4): in `EVALUATE` nothing changes, in `PENALTY` only λ changes.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.core import multiplier, replay
from safedsr.core.exploration import epsilon_at, epsilon_greedy
from safedsr.core.multiplier import Multiplier
from safedsr.core.replay import Codec
from safedsr.envs.environment import Spec
from safedsr.types import JOINED, Adaptable, Choice, Draws, PyTree, Seen, Trainer, Transition, Values

EVALUATE, PENALTY = "evaluate", "penalty"
CACHED_AT_ONCE = 1000  # rows


class Memory(NamedTuple):
    """Ring and reservoir, the number of filled rows in the ring, and values of its rows cached during a phase."""

    codec: Codec
    ring: Array
    reservoir: replay.Reservoir | None
    filled: Array
    cache: Array | None


class State(NamedTuple):
    """The training state of one seed's agent."""

    key: Array
    multiplier: Multiplier
    learner: PyTree
    ring: Array
    count: Array  # [] int32, number of rows written to the ring so far
    reservoir: replay.Reservoir | None


class Learner(NamedTuple):
    """The part of a trainer that differs between agents: pure functions. `params` are the environment's parameters."""

    init: Callable[[Array, PyTree], PyTree]  # (key, params) -> learner state
    scores: Callable[[PyTree, Array, Array], Array]  # (learner state, obs, λ) -> [A], Eq. (15)
    learn: Callable[[PyTree, Memory, Array, Array, str], tuple[PyTree, dict[str, Array]]]  # (…, λ, key, phase)
    sync: Callable[[PyTree], PyTree]  # main networks -> target networks
    policy: Callable[[PyTree], PyTree]  # learner state -> networks and weights for acting
    values: Callable[[PyTree, Array, Array], Values]  # (policy, obs, λ) -> value estimates
    phases: tuple[tuple[str, int | None], ...]  # name and end of each phase; the first has no learning
    losses: tuple[str, ...]  # names of the losses from `learn`
    reservoir: Callable[[PyTree], replay.Reservoir] | None = None  # params -> an empty reservoir
    offer: Callable[[Array, replay.Reservoir, Array, PyTree], replay.Reservoir] | None = None
    """(key, reservoir, rows, params) -> the reservoir after these rows."""
    cache: Mapping[str, Callable[[PyTree, Array], Array]] = MappingProxyType({})
    """Phase -> (learner state, row) -> values of the row that are constant during that phase and are cached."""
    restart: bool = False  # store the next episode's start as s′ if an episode ends
    memory: Callable[[State], tuple[Array, Array]] | None = None  # rows to save with a policy; which are filled
    crop: Callable[[PyTree, PyTree], PyTree] = lambda policy, params: policy  # removes padding
    prepare: Callable[[PyTree, Array, PyTree], PyTree] | None = None  # (learner state, key, params) -> pretrained
    adaptable: Adaptable | None = None


class Policy(NamedTuple):
    """The learner's policy, and λ."""

    learner: PyTree
    lam: Array  # [J]


def make_trainer(learner: Learner, config: Any, spec: Spec) -> Trainer:
    """A `Trainer` around a `Learner`; `config` has the settings that `check_value_based` names."""
    codec = spec.codec
    return Trainer(
        init=partial(init, learner, config, codec),
        draw=partial(draw, config.train_every),
        begin=lambda state, obs: state,
        choose=partial(choose, learner, config, spec),
        observe=partial(observe, learner, config, codec),
        digest=partial(digest, learner, config, codec),
        sync=lambda state: state._replace(learner=learner.sync(state.learner)),
        cache=partial(cache_rows, learner),
        phase_at=lambda step: next((name, end) for name, end in learner.phases if end is None or step < end),
        last_phase=learner.phases[-1][0],
        block=config.train_every,
        period=config.sync_every,
        policy=lambda state: Policy(learner.policy(state.learner), state.multiplier.lam),
        values=lambda policy, obs: learner.values(policy.learner, obs, policy.lam),
        multipliers=lambda state: state.multiplier.lam,
        memory=learner.memory,
        refill=partial(refill, learner),
        proceed=partial(proceed, learner) if learner.adaptable else None,
        crop=lambda policy, params: policy._replace(learner=learner.crop(policy.learner, params)),
        adaptable=learner.adaptable,
    )


def init(learner: Learner, config: Any, codec: Codec, key: Array, seed: Array, params: PyTree) -> tuple[State, Array]:
    """The state before the first step, and the key of the first reset."""
    del seed  # all random numbers come from the key
    key, reset_key, learner_key = jax.random.split(key, 3)
    first = learner.init(learner_key, params)
    if learner.prepare:
        first = learner.sync(learner.prepare(first, jax.random.fold_in(learner_key, 1), params))
    state = State(
        key=key,
        multiplier=multiplier.init(codec.costs, config.multiplier),
        learner=first,
        ring=replay.init_ring(config.buffer_size, codec.width),
        count=jnp.zeros((), jnp.int32),
        reservoir=learner.reservoir(params) if learner.reservoir else None,
    )
    return state, reset_key


def draw(count: int, state: State) -> tuple[State, Draws]:
    """Two uniform random numbers for the ε-greedy choice of each step, and the environment's keys."""
    key, luck_key, env_key = jax.random.split(state.key, 3)
    luck = jax.random.uniform(luck_key, (count, 2))
    return state._replace(key=key), Draws(luck, jax.random.split(env_key, count), reset=None)


def choose(learner: Learner, config: Any, spec: Spec, state: State, obs: Array, luck: Array, now: Array) -> Choice:
    """The ε-greedy choice by Eq. (15)."""
    greedy = jnp.argmax(learner.scores(state.learner, obs, state.multiplier.lam))
    return Choice(epsilon_greedy(luck, greedy, epsilon_at(now, config.epsilon), spec.actions))


def observe(
    learner: Learner,
    config: Any,
    codec: Codec,
    state: State,
    choice: Choice,
    seen: Seen,
    aim: Array,
    now: Array,
    phase: str,
) -> tuple[State, Array]:
    """Update λ after a finished episode, except in `EVALUATE`; return also the row for the replay memory."""
    del choice  # `seen` has its action
    tuned = state.multiplier
    if phase != EVALUATE:
        tuned = multiplier.after_step(tuned, seen.total, aim, seen.done, seen.success, now, config.multiplier)
    next_obs, terminated = seen.next_obs, seen.terminated.astype(jnp.float32)
    if learner.restart:
        next_obs, terminated = seen.start, jnp.where(seen.done & ~seen.terminated, JOINED, terminated)
    row = codec.pack(Transition(seen.obs, seen.action, seen.reward, seen.cost, next_obs, terminated))
    return state._replace(multiplier=tuned), row


def cache_rows(learner: Learner, state: State, phase: str) -> Array | None:
    """The cached values of every row in the ring; computed in parts, to save memory."""
    of_row = learner.cache.get(phase)
    return jax.lax.map(partial(of_row, state.learner), state.ring, batch_size=CACHED_AT_ONCE) if of_row else None


def digest(
    learner: Learner,
    config: Any,
    codec: Codec,
    state: State,
    cache: Array | None,
    rows: Array,
    params: PyTree,
    aim: Array,
    now: Array,
    phase: str,
) -> tuple[State, Array | None, dict[str, Array]]:
    """Store the rows of a block and learn, if the phase does so."""
    del aim, now
    before = state.count
    if phase not in (EVALUATE, PENALTY):
        state = remember(learner, state, rows, params)
    if phase in (learner.phases[0][0], EVALUATE, PENALTY):
        return state, cache, dict.fromkeys(learner.losses, jnp.nan)  # type: ignore[arg-type]
    if cache is not None:
        cache = replay.add(cache, jax.vmap(partial(learner.cache[phase], state.learner))(rows), before)
    key, learn_key = jax.random.split(state.key)
    filled = jnp.minimum(state.count, config.buffer_size)
    memory = Memory(codec, state.ring, state.reservoir, filled, cache)
    learnt, losses = learner.learn(state.learner, memory, state.multiplier.lam, learn_key, phase)
    return state._replace(key=key, learner=learnt), cache, losses


def remember(learner: Learner, state: State, rows: Array, params: PyTree) -> State:
    """Store rows in the ring and, if there is one, in the reservoir."""
    if state.reservoir is not None:
        assert learner.offer
        key, store_key = jax.random.split(state.key)
        state = state._replace(key=key, reservoir=learner.offer(store_key, state.reservoir, rows, params))
    return state._replace(ring=replay.add(state.ring, rows, state.count), count=state.count + len(rows))


def refill(learner: Learner, state: State, key: Array, rows: Array, params: PyTree) -> State:
    """The state with these rows instead of the old ones in its reservoir, if it has one."""
    if state.reservoir is None:
        return state
    assert learner.offer
    return state._replace(reservoir=learner.offer(key, replay.emptied(state.reservoir), rows, params))


def proceed(
    learner: Learner, state: State, policy: Policy, keys: Array, rows: Array, count: int, params: PyTree
) -> State:
    """A fresh state that continues from a policy, with these rows as its memory; `count` rows were ever written.

    `keys` [2] are for the learner and for the reservoir.
    """
    assert learner.adaptable
    state = state._replace(
        learner=learner.adaptable.learner(policy.learner, keys[0]),
        multiplier=multiplier.at(policy.lam),
        ring=jnp.resize(rows, state.ring.shape),  # rows repeat if there are fewer than the ring holds
        count=jnp.int32(count),
    )
    return refill(learner, state, keys[1], rows, params)


def ring_rows(state: State) -> tuple[Array, Array]:
    """Every row in the ring, and which of them are filled."""
    return state.ring, jnp.arange(len(state.ring)) < state.count


def reservoir_rows(state: State) -> tuple[Array, Array]:
    """Every row in the reservoir, and which of them are filled."""
    assert state.reservoir is not None
    return state.reservoir.rows.reshape(-1, state.ring.shape[1]), replay.filled_slots(state.reservoir).ravel()


def all_rows(state: State) -> tuple[Array, Array]:
    """Every row in the ring and in the reservoir, and which of them are filled."""
    pairs = zip(ring_rows(state), reservoir_rows(state), strict=True)
    rows, filled = (jnp.concatenate(pair) for pair in pairs)
    return rows, filled
