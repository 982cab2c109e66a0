"""The loop that SafeDQN and SafeDSR share: act k steps, learn, copy into the targets, tune λ (Algs. 1 and 2).

Written for one seed in one environment. Scans are nested (act, then learn, then sync) instead of branching on a
counter, and what is learnt in a phase is fixed when the phase is compiled. Besides an agent's own phases there are two
in which it neither learns nor remembers (Sec. 5.4): in `EVALUATE` nothing changes at all, in `PENALTY` only λ does.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.safedqn.config import SafeDqnConfig
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.core import multiplier, replay
from safedsr.core.multiplier import Multiplier
from safedsr.core.schedule import epsilon_at
from safedsr.envs.grid import physics as grid
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout
from safedsr.types import PyTree, Record, Trainer, Transition, Values

EVALUATE, PENALTY = "evaluate", "penalty"
RECALLED = 1000  # rows at a time
UNROLLED = 10  # steps at most


class Memory(NamedTuple):
    """What is remembered, how much of the ring is filled, and what is known of its rows for the whole phase."""

    ring: Array
    reservoir: replay.Reservoir | None
    filled: Array
    known: Array | None


class State(NamedTuple):
    """Everything one seed is at one moment."""

    key: Array
    env: grid.GridState
    obs: Array  # [2]
    ret: Array  # [] of the episode so far
    cost: Array  # [J] C_ep
    multiplier: Multiplier
    learner: PyTree
    ring: Array
    reservoir: replay.Reservoir | None


class Learner(NamedTuple):
    """What an agent learns, and how: pure functions over its own state."""

    init: Callable[[Array, Layout], PyTree]  # (key, map) -> learner state
    scores: Callable[[PyTree, Array, Array], Array]  # (learner state, obs, λ) -> [A], Eq. (15)
    learn: Callable[[PyTree, Memory, Array, Array, str], tuple[PyTree, dict[str, Array]]]  # (…, λ, key, phase)
    sync: Callable[[PyTree], PyTree]  # main networks -> target networks
    policy: Callable[[PyTree], PyTree]  # learner state -> what acting needs
    values: Callable[[PyTree, Array, Array], Values]  # (policy, obs, λ) -> what it expects
    phases: tuple[tuple[str, int | None], ...]  # what is learnt up to which step; the first learns nothing
    losses: tuple[str, ...]  # what `learn` measures
    reservoir: Callable[[Layout], replay.Reservoir] | None = None  # an empty one, if it wants one
    bins: Callable[[Array, Layout], Array] | None = None  # (rows, map) -> where they belong in it, [signals, n]
    recall: Mapping[str, Callable[[PyTree, Array], Array]] = MappingProxyType({})
    """Phase -> (learner state, row) -> what stays true of the row during that phase, and is worth keeping."""
    restart: bool = False  # remember the next episode's start as s′ where an episode ends
    memory: Callable[[State], Array] | None = None  # what a policy may take along, rows
    crop: Callable[[PyTree, Layout], PyTree] = lambda policy, layout: policy  # without what padded the map
    prepare: Callable[[PyTree, Array, Layout], PyTree] | None = None  # (learner state, key, map) -> one that knows more


class Policy(NamedTuple):
    """What acting needs."""

    learner: PyTree
    lam: Array  # [J]


Config = SafeDqnConfig | SafeDsrConfig | SafeDsrPlusConfig


class Loop(NamedTuple):
    """What is fixed when the loop is compiled."""

    learner: Learner
    config: Config
    grid_config: GridConfig


def make_trainer(learner: Learner, config: Config, grid_config: GridConfig) -> Trainer:
    """A `Trainer` around a `Learner`."""
    loop = Loop(learner, config, grid_config)
    return Trainer(
        init=partial(init, loop),
        advance=partial(advance, loop),
        phase_at=lambda step: next((name, end) for name, end in learner.phases if end is None or step < end),
        period=config.sync_every,
        policy=lambda state: Policy(learner.policy(state.learner), state.multiplier.lam),
        values=lambda policy, obs: learner.values(policy.learner, obs, policy.lam),
        multipliers=lambda state: state.multiplier.lam,
        memory=learner.memory,
        known=partial(recall, loop, phase=learner.phases[-1][0]),
        crop=lambda policy, layout: policy._replace(learner=learner.crop(policy.learner, layout)),
        refill=partial(refill, loop),
    )


def init(loop: Loop, key: Array, layout: Layout) -> State:
    """The state before the first step."""
    num_costs, config = len(layout.costs), loop.config
    key, reset_key, learner_key = jax.random.split(key, 3)
    env, obs = grid.reset(reset_key, layout, loop.grid_config)
    learner = loop.learner.init(learner_key, layout)
    if loop.learner.prepare:
        learner = loop.learner.sync(loop.learner.prepare(learner, jax.random.fold_in(learner_key, 1), layout))
    return State(
        key=key,
        env=env,
        obs=obs,
        ret=jnp.zeros(()),
        cost=jnp.zeros(num_costs),
        multiplier=multiplier.init(num_costs, config.multiplier),
        learner=learner,
        ring=replay.init_ring(config.buffer_size, num_costs),
        reservoir=loop.learner.reservoir(layout) if loop.learner.reservoir else None,
    )


def advance(loop: Loop, state: State, layout: Layout, aim: Array, step: Array, *, phase: str, periods: int):
    """Whole periods of `sync_every` steps: gives the state, a record of every step and the mean losses."""
    config = loop.config
    blocks = config.sync_every // config.train_every

    def period(carry: tuple[State, Array | None], first: Array):
        steps = first + config.train_every * jnp.arange(blocks)
        (state, known), out = jax.lax.scan(lambda c, step: block(loop, *c, layout, aim, step, phase), carry, steps)
        return (state._replace(learner=loop.learner.sync(state.learner)), known), out

    carry = state, recall(loop, state, phase)
    (state, _), (records, losses) = jax.lax.scan(period, carry, step + config.sync_every * jnp.arange(periods))
    records = jax.tree.map(lambda x: x.reshape(periods * config.sync_every, *x.shape[3:]), records)
    return state, records, jax.tree.map(jnp.mean, losses)


def recall(loop: Loop, state: State, phase: str) -> Array | None:
    """What the learner knows of every row in the ring; some rows at a time, to need little room."""
    of_row = loop.learner.recall.get(phase)
    return jax.lax.map(partial(of_row, state.learner), state.ring, batch_size=RECALLED) if of_row else None


def block(loop: Loop, state: State, known: Array | None, layout: Layout, aim: Array, step: Array, phase: str):
    """Act for `train_every` steps; remember them and learn, as far as the phase does."""
    learner, config = loop.learner, loop.config
    state, rows, records = act(loop, state, layout, aim, step, tunes=phase != EVALUATE)
    if phase not in (EVALUATE, PENALTY):
        state = remember(loop, state, rows, layout, step)
    if phase in (learner.phases[0][0], EVALUATE, PENALTY):
        return (state, known), (records, dict.fromkeys(learner.losses, jnp.nan))
    if known is not None:
        known = replay.add(known, jax.vmap(partial(learner.recall[phase], state.learner))(rows), step)
    key, learn_key = jax.random.split(state.key)
    filled = jnp.minimum(step + config.train_every, config.buffer_size)
    memory = Memory(state.ring, state.reservoir, filled, known)
    learnt, losses = learner.learn(state.learner, memory, state.multiplier.lam, learn_key, phase)
    return (state._replace(key=key, learner=learnt), known), (records, losses)


def act(
    loop: Loop, state: State, layout: Layout, aim: Array, step: Array, tunes: bool = True
) -> tuple[State, Array, Record]:
    """`train_every` steps of the ε-greedy policy; gives what to remember and what to record."""
    learner, config = loop.learner, loop.config
    key, luck_key, env_key = jax.random.split(state.key, 3)
    luck = jax.random.uniform(luck_key, (config.train_every, 2))
    env_keys = jax.random.split(env_key, config.train_every)

    def one(s: State, xs: tuple[Array, Array, Array]) -> tuple[State, Array]:
        luck, env_key, now = xs
        greedy = jnp.argmax(learner.scores(s.learner, s.obs, s.multiplier.lam))
        action = grid.epsilon_greedy(luck, greedy, epsilon_at(now, config.epsilon))
        env, out = grid.step(env_key, s.env, action, layout, loop.grid_config)
        done = out.terminated | out.truncated
        ret, cost = s.ret + out.reward, s.cost + out.cost
        tuned = s.multiplier
        if tunes:
            tuned = multiplier.after_step(s.multiplier, cost, aim, done, out.terminated, now, config.multiplier)
        record = Record(done, out.terminated, s.env.time + 1, ret, cost, out.next_obs)
        next_obs = out.obs if learner.restart else out.next_obs
        row = replay.pack(Transition(s.obs, action, out.reward, out.cost, next_obs, out.terminated))
        s = s._replace(
            env=env,
            obs=out.obs,
            # Algs. 1 and 2 print the reset of C_ep inside the `if`; it has to happen at every episode's end.
            ret=jnp.where(done, 0.0, ret),
            cost=jnp.where(done, 0.0, cost),
            multiplier=tuned,
        )
        return s, jnp.concatenate([row, pack_record(record)])

    times = step + jnp.arange(config.train_every)
    # On an accelerator each turn of a loop has launches of its own.
    unroll = 1 if jax.default_backend() == "cpu" else min(config.train_every, UNROLLED)
    state, steps = jax.lax.scan(one, state._replace(key=key), (luck, env_keys, times), unroll=unroll)
    width = state.ring.shape[1]
    return state, steps[:, :width], unpack_record(steps[:, width:])


def pack_record(record: Record) -> Array:
    """A record as a row [6 + J]: accelerators spend much of a step on writing one array after the other."""
    single = jnp.stack([record.done, record.reached, record.length, record.ret])
    return jnp.concatenate([single, record.obs, record.cost])


def unpack_record(row: Array) -> Record:
    """The record of a row, or the records of rows."""
    return Record(
        done=row[..., 0] > 0,
        reached=row[..., 1] > 0,
        length=row[..., 2].astype(jnp.int32),
        ret=row[..., 3],
        obs=row[..., 4:6],
        cost=row[..., 6:],
    )


def remember(loop: Loop, state: State, rows: Array, layout: Layout, step: Array) -> State:
    """Rows into the ring and, where the learner wants one, into the reservoir."""
    if state.reservoir is not None:
        key, store_key = jax.random.split(state.key)
        state = state._replace(key=key, reservoir=_offer(loop, store_key, state.reservoir, rows, layout))
    return state._replace(ring=replay.add(state.ring, rows, step))


def refill(loop: Loop, state: State, key: Array, rows: Array, layout: Layout) -> State:
    """The state whose reservoir, if it has one, holds these rows instead of what was in it."""
    if state.reservoir is None:
        return state
    empty = jax.tree.map(jnp.zeros_like, state.reservoir)
    return state._replace(reservoir=_offer(loop, key, empty, rows, layout))


def _offer(loop: Loop, key: Array, reservoir: replay.Reservoir, rows: Array, layout: Layout) -> replay.Reservoir:
    assert loop.learner.bins
    return replay.store(key, reservoir, rows, loop.learner.bins(rows, layout))


def remembered(state: State) -> Array:
    """Every row in the ring and in the reservoir; slots that were never filled are zero."""
    assert state.reservoir is not None
    return jnp.concatenate([state.ring, state.reservoir.rows.reshape(-1, state.ring.shape[1])])
