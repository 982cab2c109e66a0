"""The trainer of SafeDQN, SafeDSR and SafeDSR-plus: ε-greedy acting, memory, λ and target networks (Algs. 1 and 2).

Each phase is compiled separately. Besides the phases of an agent there are two in which it neither learns nor stores
transitions (Sec. 5.4): in `EVALUATE` nothing changes, in `PENALTY` only λ changes. (Units of rewards and costs, if an
agent has them, follow what is observed in every phase.)
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.core import multiplier, replay, scaling, units
from safedsr.core.exploration import epsilon_at, epsilon_greedy
from safedsr.core.multiplier import Ended, Multiplier
from safedsr.core.normalizer import Running
from safedsr.core.units import Scale, Units
from safedsr.envs.environment import Spec
from safedsr.types import JOINED, Adaptable, Choice, Draws, PyTree, Rehearsal, Seen, Trainer, Transition, Values

EVALUATE, PENALTY = "evaluate", "penalty"
CACHED_AT_ONCE = 1000  # rows


Look = Callable[[Running | None, Array], Array]  # (statistics, obs) -> obs as the learner gets it


class Memory(NamedTuple):
    """Ring and reservoir, the number of filled rows in the ring, and values of its rows cached during a phase."""

    ring: Array
    reservoir: replay.Reservoir | None
    filled: Array
    cache: Array | None
    unpack: Callable[[Array], Transition]  # rows -> transitions as the learner gets them
    units: Units | None = None  # of rewards and costs, if the learner uses them
    found: Array | bool = True  # whether some episode has succeeded, if λ waits for that


class State(NamedTuple):
    """The training state of one seed's agent."""

    key: Array
    multiplier: Multiplier
    learner: PyTree
    ring: Array
    count: Array  # [] int32, number of rows written to the ring so far
    reservoir: replay.Reservoir | None
    scale: Running | None = None  # of observations, if the environment's Spec says that they are scaled
    signals: Scale | None = None  # of rewards and costs, if the learner uses units


class Learner(NamedTuple):
    """The part of a trainer that differs between agents: pure functions. `params` are the environment's parameters.

    Learners get scaled observations, if the environment's Spec says so; the replay memory holds them as they are.
    """

    init: Callable[[Array, PyTree], PyTree]  # (key, params) -> learner state
    scores: Callable[[PyTree, Array, Array], Array]  # (learner state, obs, λ) -> [A], Eq. (15)
    learn: Callable[[PyTree, Memory, Array, Array, str], tuple[PyTree, dict[str, Array]]]  # (…, λ, key, phase)
    sync: Callable[[PyTree], PyTree]  # main networks -> target networks
    policy: Callable[[PyTree], PyTree]  # learner state -> networks and weights for acting
    values: Callable[[PyTree, Array, Array], Values]  # (policy, obs, λ) -> value estimates
    phases: tuple[tuple[str, int | None], ...]  # name and end of each phase; the first has no learning
    losses: tuple[str, ...]  # names of the losses from `learn`
    reservoir: Callable[[PyTree], replay.Reservoir] | None = None  # params -> an empty reservoir
    offer: Callable[..., tuple[PyTree, replay.Reservoir]] | None = None
    """(key, learner state, reservoir, rows, their transitions, params) -> both after these rows."""
    cache: Mapping[str, Callable[[PyTree, Transition], Array]] = MappingProxyType({})
    """Phase -> (learner state, transition) -> its values that are constant during that phase and are cached."""
    restart: bool = False  # store the next episode's start as s′ if an episode ends
    memory: Callable[[State], tuple[Array, Array]] | None = None  # rows to save with a policy; which are filled
    crop: Callable[[PyTree, PyTree], PyTree] = lambda policy, params: policy  # removes padding
    prepare: Callable[[PyTree, Array, PyTree], PyTree] | None = None  # (learner state, key, params) -> pretrained
    adaptable: Adaptable | None = None
    in_units: bool = False  # λ and its update rule are in units of rewards and costs; so they are under the share rule


class Policy(NamedTuple):
    """The learner's policy, λ, and the statistics that observations are scaled with."""

    learner: PyTree
    lam: Array  # [J]
    scale: Running | None = None
    signals: Scale | None = None  # what the units of rewards and costs are computed from


def looker(spec: Spec) -> Look:
    """How learners get observations: scaled, if the Spec says so."""
    if not spec.scaled:
        return lambda scale, obs: obs
    return lambda scale, obs: scaling.apply(scale, obs, spec.bounds)  # type: ignore[arg-type]


def scaled_spec(spec: Spec) -> Spec:
    """The Spec of the observations that learners get."""
    if not spec.scaled:
        return spec
    low, high = scaling.scaled_bounds(spec.bounds)
    return replace(spec, low=low, high=high, scaled=False)


def make_trainer(learner: Learner, config: Any, spec: Spec) -> Trainer:
    """A `Trainer` around a `Learner`; `config` has the settings that `check_value_based` names."""
    look = looker(spec)
    return Trainer(
        init=partial(init, learner, config, spec),
        draw=partial(draw, config.train_every),
        begin=lambda state, obs: state,
        choose=partial(choose, learner, config, spec),
        observe=partial(observe, learner, config, spec),
        digest=partial(digest, learner, config, spec),
        sync=lambda state: state._replace(learner=learner.sync(state.learner)),
        cache=partial(cache_rows, learner, spec),
        phase_at=lambda step: next((name, end) for name, end in learner.phases if end is None or step < end),
        last_phase=learner.phases[-1][0],
        block=config.train_every,
        period=config.sync_every,
        policy=lambda state: Policy(learner.policy(state.learner), state.multiplier.lam, state.scale, state.signals),
        values=lambda policy, obs: learner.values(policy.learner, look(policy.scale, obs), policy.lam),
        multipliers=lambda state: state.multiplier.lam,
        memory=learner.memory,
        refill=partial(refill, learner, spec),
        proceed=partial(proceed, learner, spec) if learner.adaptable else None,
        crop=lambda policy, params: policy._replace(learner=learner.crop(policy.learner, params)),
        adaptable=_with_scale(learner.adaptable, look) if learner.adaptable else None,
    )


def _with_scale(adaptable: Adaptable, look: Look) -> Adaptable:
    """Functions of whole policies and of observations as they are."""

    def rehearse(policy: Policy, steps: Transition, updates: int, seed: int, measure: Units | None) -> Rehearsal:
        return adaptable.rehearse(policy.learner, look_at(steps, policy.scale, look), updates, seed, measure)

    return adaptable._replace(
        features=lambda policy, obs, action: adaptable.features(policy.learner, look(policy.scale, obs), action),
        rehearse=rehearse,
    )


def look_at(t: Transition, scale: Running | None, look: Look) -> Transition:
    """A transition, or several, as the learner gets them."""
    return t._replace(obs=look(scale, t.obs), next_obs=look(scale, t.next_obs))


def unpack(spec: Spec, scale: Running | None, rows: Array) -> Transition:
    """The transitions of rows as the learner gets them."""
    return look_at(spec.codec.unpack(rows), scale, looker(spec))


def init(learner: Learner, config: Any, spec: Spec, key: Array, seed: Array, params: PyTree) -> tuple[State, Array]:
    """The state before the first step, and the key of the first reset."""
    del seed  # all random numbers come from the key
    key, reset_key, learner_key = jax.random.split(key, 3)
    first = learner.init(learner_key, params)
    if learner.prepare:
        first = learner.sync(learner.prepare(first, jax.random.fold_in(learner_key, 1), params))
    state = State(
        key=key,
        multiplier=multiplier.init(spec.costs, config.multiplier),
        learner=first,
        ring=replay.init_ring(config.buffer_size, spec.codec.width),
        count=jnp.zeros((), jnp.int32),
        reservoir=learner.reservoir(params) if learner.reservoir else None,
        scale=scaling.init(spec.bounds) if spec.scaled else None,
        signals=units.init(spec.costs) if learner.in_units or config.multiplier.rule == "share" else None,
    )
    return state, reset_key


def draw(count: int, state: State) -> tuple[State, Draws]:
    """Two uniform random numbers for the ε-greedy choice of each step, and the environment's keys."""
    key, luck_key, env_key = jax.random.split(state.key, 3)
    luck = jax.random.uniform(luck_key, (count, 2))
    return state._replace(key=key), Draws(luck, jax.random.split(env_key, count), reset=None)


def choose(learner: Learner, config: Any, spec: Spec, state: State, obs: Array, luck: Array, now: Array) -> Choice:
    """The ε-greedy choice by Eq. (15)."""
    lam = multiplier.acting(state.multiplier, config.multiplier, goals=spec.success)
    greedy = jnp.argmax(learner.scores(state.learner, looker(spec)(state.scale, obs), lam))
    return Choice(epsilon_greedy(luck, greedy, epsilon_at(now, config.epsilon), spec.actions))


def observe(
    learner: Learner,
    config: Any,
    spec: Spec,
    state: State,
    choice: Choice,
    seen: Seen,
    aim: Array,
    now: Array,
    phase: str,
) -> tuple[State, Array]:
    """Update λ after a finished episode, except in `EVALUATE`; return also the row for the replay memory.

    Before learning starts, the statistics of observations get s as one more sample.
    """
    del choice  # `seen` has its action
    tuned, signals, measure = state.multiplier, state.signals, None
    if signals is not None:
        before = units.units(signals, aim)
        signals = units.push(signals, seen.reward, seen.cost, seen.ret, seen.time, config.gamma)
        measure = units.units(signals, aim)
        tuned = multiplier.scaled(tuned, measure.lam / before.lam)
    if phase != EVALUATE:
        ended = Ended(seen.total, aim, spec.success, seen.success, seen.time.astype(jnp.float32))
        tuned = multiplier.after_step(tuned, ended, seen.done, now, config.multiplier, measure)
    next_obs, terminated = seen.next_obs, seen.terminated.astype(jnp.float32)
    if learner.restart:
        next_obs, terminated = seen.start, jnp.where(seen.done & ~seen.terminated, JOINED, terminated)
    success, first = (x.astype(jnp.float32) for x in (seen.done & seen.success, seen.time == 1))
    step = seen.obs, seen.action, seen.reward, seen.cost, next_obs, terminated, seen.extra, success, first
    row = spec.codec.pack(Transition(*step))
    scale = state.scale
    if scale is not None and phase == learner.phases[0][0]:
        scale = scaling.push(scale, seen.obs)
    return state._replace(multiplier=tuned, scale=scale, signals=signals), row


def cache_rows(learner: Learner, spec: Spec, state: State, phase: str) -> Array | None:
    """The cached values of every row in the ring; computed in parts, to save memory."""
    if phase not in learner.cache:
        return None
    return jax.lax.map(partial(_cached, learner, spec, state, phase), state.ring, batch_size=CACHED_AT_ONCE)


def _cached(learner: Learner, spec: Spec, state: State, phase: str, row: Array) -> Array:
    return learner.cache[phase](state.learner, unpack(spec, state.scale, row))


def digest(
    learner: Learner,
    config: Any,
    spec: Spec,
    state: State,
    cache: Array | None,
    rows: Array,
    params: PyTree,
    aim: Array,
    now: Array,
    phase: str,
) -> tuple[State, Array | None, dict[str, Array]]:
    """Store the rows of a block and learn, if the phase does so."""
    del now
    before = state.count
    if phase not in (EVALUATE, PENALTY):
        state = remember(learner, spec, state, rows, params)
    if phase in (learner.phases[0][0], EVALUATE, PENALTY):
        return state, cache, dict.fromkeys(learner.losses, jnp.nan)  # type: ignore[arg-type]
    if cache is not None:
        cache = replay.add(cache, jax.vmap(partial(_cached, learner, spec, state, phase))(rows), before)
    key, learn_key = jax.random.split(state.key)
    filled = jnp.minimum(state.count, config.buffer_size)
    measure = None if state.signals is None else units.units(state.signals, aim)
    found, rows_of = state.multiplier.begun, partial(unpack, spec, state.scale)
    memory = Memory(state.ring, state.reservoir, filled, cache, rows_of, measure, found)
    learnt, losses = learner.learn(state.learner, memory, state.multiplier.lam, learn_key, phase)
    return state._replace(key=key, learner=learnt), cache, losses


def remember(learner: Learner, spec: Spec, state: State, rows: Array, params: PyTree) -> State:
    """Store rows in the ring and, if there is one, in the reservoir."""
    if state.reservoir is not None:
        assert learner.offer
        key, store_key = jax.random.split(state.key)
        transitions = unpack(spec, state.scale, rows)
        learnt, reservoir = learner.offer(store_key, state.learner, state.reservoir, rows, transitions, params)
        state = state._replace(key=key, learner=learnt, reservoir=reservoir)
    count = replay.counted(state.count, len(rows), len(state.ring))
    return state._replace(ring=replay.add(state.ring, rows, state.count), count=count)


def refill(learner: Learner, spec: Spec, state: State, key: Array, rows: Array, params: PyTree) -> State:
    """The state with these rows instead of the old ones in its reservoir, if it has one."""
    if state.reservoir is None:
        return state
    assert learner.offer
    empty, transitions = replay.emptied(state.reservoir), unpack(spec, state.scale, rows)
    learnt, reservoir = learner.offer(key, state.learner, empty, rows, transitions, params)
    return state._replace(learner=learnt, reservoir=reservoir)


def proceed(
    learner: Learner, spec: Spec, state: State, policy: Policy, keys: Array, rows: Array, count: int, params: PyTree
) -> State:
    """A fresh state that continues from a policy, with these rows as its memory; `count` rows were ever written.

    `keys` [2] are for the learner and for the reservoir.
    """
    assert learner.adaptable
    measure = None if policy.signals is None else Units(policy.signals.reward, policy.signals.cost)
    state = state._replace(
        learner=learner.adaptable.learner(policy.learner, keys[0], measure),
        multiplier=multiplier.at(policy.lam),
        ring=jnp.resize(rows, state.ring.shape),  # rows repeat if there are fewer than the ring holds
        count=jnp.int32(count),
        scale=policy.scale,
        signals=policy.signals,
    )
    return refill(learner, spec, state, keys[1], rows, params)


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
