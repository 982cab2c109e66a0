"""SafeDSR-plus with its network in tasks in a row: the library's own trainer, compiled and mapped over trials.

The codes of this agent are the events of a step, so the reward of each code is known for a new task. At the start of a
task the memory gets the new rewards, and the row Q of M becomes what the rows of the codes say. Then the agent goes on
learning. It has no library of policies.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.agents.registry import make_trainer
from safedsr.agents.value_based.trainer import State
from safedsr.core import units
from safedsr.engine import loop
from safedsr.engine.lanes import one_by_one
from safedsr.engine.loop import Lane
from safedsr.envs import episode as episodes
from safedsr.envs.environment import Environment
from safedsr.envs.episode import Episode
from safedsr.envs.twins.four_room import Rewards, worth
from safedsr.transfer.config import PART, NetworkConfig
from safedsr.transfer.traveller import Report
from safedsr.types import Trainer

NEVER_RANDOM = (1.0, 0.0)  # random numbers with which no action is random


class Kit(NamedTuple):
    """Static arguments of the compiled functions."""

    config: NetworkConfig
    environment: Environment

    @property
    def trainer(self) -> Trainer:
        """SafeDSR-plus as the library trains it."""
        return make_trainer("safedsr-plus", self.config.agent, self.environment)

    @property
    def aim(self) -> Array:
        """The target cost of an episode [1]."""
        return jnp.full(1, self.config.budget)


def init(seed: Array, kit: Kit) -> Lane:
    """The agent of one trial before its first task."""
    return loop.init(kit.trainer, kit.environment, jax.random.key(seed), seed, kit.environment.params)


def begin(lane: Lane, params: Rewards, kit: Kit) -> Lane:
    """The start of another task: the memory and the row Q of M follow its rewards; a new episode begins."""
    agent = relabelled(lane.agent, params, kit.environment)
    key, reset_key = jax.random.split(agent.key)
    agent = with_rewards(agent._replace(key=key), params, kit)
    return Lane(agent, episodes.start(kit.environment, reset_key, params))


def relabelled(agent: State, params: Rewards, environment: Environment) -> State:
    """The agent whose stored steps have the rewards of this task; their codes, and so their bins, stay the same."""
    codec, relabel = environment.spec.codec, environment.relabel
    assert relabel and agent.reservoir is not None

    def anew(rows: Array) -> Array:
        flat = codec.unpack(rows.reshape(-1, codec.width))
        return codec.pack(jax.vmap(relabel, (0, None))(flat, params)).reshape(rows.shape)

    return agent._replace(ring=anew(agent.ring), reservoir=agent.reservoir._replace(rows=anew(agent.reservoir.rows)))


def with_rewards(agent: State, params: Rewards, kit: Kit) -> State:
    """The agent whose row Q of M is w_r · (rows of the codes) for the rewards of this task, as in adaptation."""
    trainer = kit.trainer
    assert trainer.adaptable and agent.signals is not None
    policy, codes = trainer.policy(agent).learner, worth(params)
    w_r = jnp.zeros_like(policy.weights.w_r).at[: len(codes)].set(codes)
    told = policy._replace(weights=policy.weights._replace(w_r=w_r))  # those of the cost are as before
    return agent._replace(learner=trainer.adaptable.learner(told, agent.key, units.units(agent.signals, kit.aim)))


def advance(lane: Lane, params: Rewards, now: Array, phase: str, kit: Kit) -> tuple[Lane, Array]:
    """Some periods of the trainer, a chunk of steps; also the sums of reward, trap entries, episodes and goals."""
    before, trainer = lane.episode, kit.trainer
    periods = kit.config.chunk // trainer.period
    after, record, _ = loop.advance(trainer, kit.environment, lane, params, kit.aim, now, phase=phase, periods=periods)
    ended = record.done.astype(jnp.float32)
    reward = ended @ record.ret + after.episode.ret - before.ret  # records have the sums of episodes so far
    traps = ended @ record.cost[:, 0] + after.episode.cost[0] - before.cost[0]
    return after, jnp.stack([reward, traps, ended.sum(), ended @ record.success])


def greedy_episode(lane: Lane, params: Rewards, kit: Kit) -> Array:
    """Return, cost, success and length of one episode without random actions; nothing is learnt or stored."""
    agent, limit = lane.agent, kit.environment.spec.time_limit
    assert limit
    never, now = jnp.array(NEVER_RANDOM), jnp.zeros((), jnp.int32)

    def one(carry: tuple[Episode, Array], _: None) -> tuple[tuple[Episode, Array], Array]:
        episode, alive = carry
        action = kit.trainer.choose(agent, episode.obs, never, now).action
        after, moment = episodes.step(kit.environment, agent.key, episode, action, params)
        step = moment.step
        out = alive * jnp.stack([step.reward, step.cost[0], step.success.astype(jnp.float32), 1.0])
        return (after, alive * (1.0 - moment.done)), out

    start = episodes.start(kit.environment, agent.key, params)
    return jax.lax.scan(one, (start, jnp.ones(())), length=limit)[1].sum(0)


@partial(jax.jit, static_argnames="kit")
def init_trials(seeds: Array, kit: Kit) -> Lane:
    """The agents of several trials."""
    return jax.vmap(partial(init, kit=kit))(seeds)


@partial(jax.jit, static_argnames="kit")
def begin_trials(lanes: Lane, params: Rewards, kit: Kit) -> Lane:
    """The start of another task in every trial."""
    return _spread(partial(begin, kit=kit))(lanes, params)


@partial(jax.jit, static_argnames=("phase", "kit"), donate_argnums=0)
def advance_trials(lanes: Lane, params: Rewards, now: Array, phase: str, kit: Kit) -> tuple[Lane, Array]:
    """A chunk of steps in every trial."""
    return _spread(lambda lane, params: advance(lane, params, now, phase, kit))(lanes, params)


@partial(jax.jit, static_argnames="kit")
def greedy_trials(lanes: Lane, params: Rewards, kit: Kit) -> Array:
    """The episode without random actions in every trial."""
    return _spread(partial(greedy_episode, kit=kit))(lanes, params)


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mapped over trials: one after the other on a CPU, where the data of one trial fit into its cache."""
    return one_by_one(function, (0, 0)) if jax.default_backend() == "cpu" else jax.vmap(function)


def run_trials(lanes: Lane, params: Rewards, kit: Kit) -> tuple[Lane, Report]:
    """One task of every trial: states and parameters have a leading axis."""
    config, trainer, first = kit.config, kit.trainer, int(lanes.agent.count[0])
    if first:
        lanes = begin_trials(lanes, params, kit)
    found = []
    for now in range(first, first + config.steps, config.chunk):
        lanes, counts = advance_trials(lanes, params, np.int32(now), trainer.phase_at(now)[0], kit)
        found.append(counts)
    chunks = np.stack([np.asarray(counts) for counts in found], 1)  # [trials, chunks, 4]
    parts = chunks.reshape(len(chunks), config.steps // PART, -1, 4).sum(2)
    reward, traps, goal, length = np.moveaxis(np.asarray(greedy_trials(lanes, params, kit)), -1, 0)
    none = jnp.zeros(len(parts))
    return lanes, Report(
        reward=parts[..., 0],
        traps=parts[..., 1],
        episodes=parts[..., 2].sum(1),
        goals=parts[..., 3].sum(1),
        greedy_reward=reward,
        greedy_traps=traps,
        greedy_goal=goal,
        greedy_steps=length,
        lam=lanes.agent.multiplier.lam[:, 0],
        states=jnp.minimum(lanes.agent.count, lanes.agent.ring.shape[1]),
        lost=none,
        stored=none,
        borrowed=none,
    )
