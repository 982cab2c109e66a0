"""The compiled training loop: the agent acts for a block of steps, stores them and learns, then acts again.

The loop is written for one seed in one task; `program` maps it over all of them. Nested scans (act, learn, sync)
replace branches on a step counter.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.envs import episode as episodes
from safedsr.envs.environment import Environment
from safedsr.envs.episode import Episode
from safedsr.types import PyTree, Record, Seen, Trainer

UNROLLED = 10  # maximum number of unrolled steps


class Lane(NamedTuple):
    """State of one seed in one task: the agent and its current episode."""

    agent: PyTree
    episode: Episode


def init(trainer: Trainer, environment: Environment, key: Array, seed: Array, params: PyTree) -> Lane:
    """The state before the first step."""
    agent, reset_key = trainer.init(key, seed, params)
    return Lane(agent, episodes.start(environment, reset_key, params))


def advance(
    trainer: Trainer,
    environment: Environment,
    lane: Lane,
    params: PyTree,
    aim: Array,
    now: Array,
    *,
    phase: str,
    periods: int,
    discount: float = 1.0,
) -> tuple[Lane, Record, dict[str, Array]]:
    """Run whole periods of steps; returns the new state, a record of every step and the mean losses."""
    blocks = trainer.period // trainer.block

    def one_block(carry: tuple[Lane, PyTree], now: Array):
        return block(trainer, environment, *carry, params, aim, now, phase, discount)

    def period(carry: tuple[Lane, PyTree], first: Array):
        if blocks == 1:
            carry, out = one_block(carry, first)
            out = jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)
        else:
            carry, out = jax.lax.scan(one_block, carry, first + trainer.block * jnp.arange(blocks))
        lane, cache = carry
        return (lane._replace(agent=trainer.sync(lane.agent)), cache), out

    carry = lane, trainer.cache(lane.agent, phase)
    (lane, _), (records, losses) = jax.lax.scan(period, carry, now + trainer.period * jnp.arange(periods))
    records = jax.tree.map(lambda x: x.reshape(periods * trainer.period, *x.shape[3:]), records)
    return lane, records, jax.tree.map(jnp.mean, losses)


def block(
    trainer: Trainer,
    environment: Environment,
    lane: Lane,
    cache: PyTree,
    params: PyTree,
    aim: Array,
    now: Array,
    phase: str,
    discount: float = 1.0,
) -> tuple[tuple[Lane, PyTree], tuple[Record, dict[str, Array]]]:
    """Act for a block of steps, then store them and learn; `discount` is the γ of an episode's cost."""
    agent, draws = trainer.draw(lane.agent)
    episode = lane.episode
    if draws.reset is not None:
        episode = episodes.start(environment, draws.reset, params)
        agent = trainer.begin(agent, episode.obs)
    codec, end = environment.spec.codec, now + trainer.block

    def one(lane: Lane, xs: tuple[PyTree, Array, Array]) -> tuple[Lane, Array]:
        agent, before = lane
        luck, key, now = xs
        choice = trainer.choose(agent, before.obs, luck, now)
        after, moment = episodes.step_or_restart(environment, key, before, choice.action, params, discount=discount)
        step = moment.step
        seen = Seen(
            obs=before.obs,
            action=choice.action,
            reward=step.reward,
            cost=step.cost,
            next_obs=step.obs,
            terminated=step.terminated,
            success=step.success,
            done=moment.done,
            start=after.obs,
            total=moment.cost,
            ret=moment.ret,
            time=moment.time,
            last=now == end - 1,
        )
        agent, row = trainer.observe(agent, choice, seen, aim, now, phase)
        record = Record(moment.done, step.success, moment.time, moment.ret, moment.cost, step.obs)
        return Lane(agent, after), jnp.concatenate([row, codec.pack_record(record)])

    # On an accelerator each iteration launches its own kernels, so short loops are unrolled. If a block is a whole
    # epoch, the time of these launches does not matter.
    whole = jax.default_backend() == "cpu" or trainer.block == trainer.period
    unroll = 1 if whole else min(trainer.block, UNROLLED)
    xs = draws.choices, draws.env, now + jnp.arange(trainer.block)
    (agent, episode), rows = jax.lax.scan(one, Lane(agent, episode), xs, unroll=unroll)
    kept, records = rows[:, : -codec.record_width], codec.unpack_record(rows[:, -codec.record_width :])
    agent, cache, losses = trainer.digest(agent, cache, kept, params, aim, now, phase)
    return (Lane(agent, episode), cache), (records, losses)
