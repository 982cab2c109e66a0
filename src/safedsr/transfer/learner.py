"""One agent that learns one task after the other, compiled for a whole task and mapped over trials.

The agent is SafeDSR-plus with a table in place of a network: successor features M of what steps lead to, the weights
w_r and w_c, λ, targets that foresee the share ε of random actions, and a memory that it keeps over tasks. At the start
of a task it sets the weights, takes for each state the best of its stored policies (generalised policy improvement),
and learns from its memory.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.core import multiplier
from safedsr.core.exploration import epsilon_greedy
from safedsr.core.multiplier import Ended
from safedsr.envs import episode as episodes
from safedsr.envs.episode import Episode
from safedsr.transfer import guess as guesses
from safedsr.transfer import library as libraries
from safedsr.transfer import memory as memories
from safedsr.transfer import tables
from safedsr.transfer.config import PART
from safedsr.transfer.memory import NONE, Memory
from safedsr.transfer.rooms import Weights
from safedsr.transfer.tables import Plan
from safedsr.transfer.traveller import Report, Tools, Traveller, Walk, direction, features_of, init, plan_of
from safedsr.types import PyTree

REFUSED = -10.0  # worth of an action that was never tried, where nothing is to be explored
TIE = 1e-6  # equal scores are ordered at random
UNROLLED = 10  # steps of a loop on an accelerator, where each iteration launches its own kernels


def begin(s: Traveller, params: PyTree, before: PyTree, tools: Tools) -> tuple[Traveller, Array]:
    """The start of a task: store the policy, set the weights, take the best of all policies, learn from memory."""
    config, lam, borrowed = tools.config, s.multiplier.lam, jnp.zeros(())
    plan = plan_of(s, direction(s, before, lam, tools), tools)  # features are those at the end of the last task
    if not config.remember:
        s = refresh(s, tools)
        s = s._replace(memory=memories.forget(s.memory))
        plan = plan._replace(memory=s.memory)
    s = s._replace(guess=guesses.next_task(s.guess))
    new = direction(s, params, lam, tools)
    if config.library:
        s, borrowed = consult(s, plan, new, tools)
    if config.remember:
        s = s._replace(table=tables.sweeps(config.rehearse, s.table, plan._replace(direction=new)))
    return s, borrowed


def refresh(s: Traveller, tools: Tools) -> Traveller:
    """States that are new start with the mean of their cell, as M is by now."""
    return s._replace(usual=tables.mean_of_cells(s.table, s.memory, tools.rooms.cells))


def consult(s: Traveller, plan: Plan, new: Array, tools: Tools) -> tuple[Traveller, Array]:
    """Offer the policy to the library, review the stored ones, and take the best of all; also the share taken."""
    config, m = tools.config, s.memory
    offered = libraries.offer(s.library, s.table, plan.direction, m, config.distinct)
    library = jax.tree.map(lambda new, old: jnp.where(m.count > 0, new, old), offered, s.library)

    def review(table: Array, own: Array) -> Array:
        return tables.sweeps(config.review, table, plan._replace(direction=own))

    library = library._replace(tables=jax.vmap(review)(library.tables, library.directions))
    table, better = libraries.best_of(library, s.table, new)
    known = memories.filled(m)[:, None]
    borrowed = (better & known).sum() / jnp.maximum(4 * m.count, 1)
    return s._replace(library=library, table=jnp.where(known[..., None], table, s.table)), borrowed


def scores(s: Traveller, walk: Walk, aim: Array, tools: Tools) -> Array:
    """Q - λ·K [A] in the present state; in a state that is new since the last learning, those of its cell."""
    old = (walk.state != NONE) & (walk.state < s.memory.count)
    return (
        jnp.where(old, s.table[jnp.maximum(walk.state, 0)], s.usual[tools.rooms.key(walk.episode.obs) % len(s.usual)])
        @ aim
    )


def start(before: Memory, params: PyTree, key: Array, tools: Tools) -> tuple[Memory, Episode, Array]:
    """A new episode and the number of its first state."""
    episode = episodes.start(tools.environment, key, params)
    m, state = memories.enter(before, tools.rooms.key(episode.obs))
    return m, episode, state


def advance(
    s: Traveller, walk: Walk, luck: Array, params: PyTree, weights: Weights, tools: Tools
) -> tuple[Walk, tuple[Array, ...]]:
    """One step; also reward, cost, end and goal to be counted, and the state, code, reward and cost to learn from."""
    config, environment, rooms = tools
    aim = jnp.append(weights.w_r - walk.multiplier.lam[0] * weights.w_c, config.bonus)
    tied = scores(s, walk, aim, tools) + TIE * luck[2:]
    action = epsilon_greedy(luck[:2], jnp.argmax(tied), config.epsilon, environment.spec.actions)
    key = jax.random.key(0)  # nothing in the environment is random
    after, moment = episodes.step_or_restart(environment, key, walk.episode, action, params)
    step = moment.step
    m, entered = memories.enter(walk.memory, rooms.key(step.obs))
    m = memories.record(m, walk.state, action, entered, rooms.code(step.obs), step.terminated)
    following = jnp.where(moment.done, walk.first, entered)
    tuned = multiplier.chance(walk.multiplier, Ended(moment.cost, jnp.full(1, config.budget)), config.multiplier)
    tuned = jax.tree.map(lambda new, old: jnp.where(moment.done, new, old), tuned, walk.multiplier)
    counts = jnp.stack([step.reward, step.cost[0], moment.done, moment.done & step.success])
    return Walk(tuned, m, after, following, walk.first), (
        counts,
        walk.state,
        rooms.code(step.obs),
        step.reward,
        step.cost[0],
    )


def learn(s: Traveller, visited: Array, params: PyTree, tools: Tools) -> Traveller:
    """Passes over the states of the last steps, then over the whole memory."""
    plan = plan_of(s, direction(s, params, s.multiplier.lam, tools), tools)
    both = tables.revisit(tools.config.recent, s.table, tables.all_onward(s.table, plan), visited, plan)
    return s._replace(
        table=jax.lax.fori_loop(0, tools.config.sweeps, lambda _, b: tables.sweep(b[0], b[1], plan), both)[0]
    )


def round_of(carry: tuple[Traveller, Walk], _: None, params: PyTree, tools: Tools):
    """Act for some steps, then learn."""
    config = tools.config
    s, walk = carry
    key, luck_key = jax.random.split(s.key)
    luck = jax.random.uniform(luck_key, (config.learn_every, 2 + tools.environment.spec.actions))
    old, unroll = s.memory.count, 1 if jax.default_backend() == "cpu" else UNROLLED
    weights = tools.rooms.weights(s.guess, params, config.curiosity)
    walk, (counts, visited, codes, rewards, costs) = jax.lax.scan(
        lambda walk, luck: advance(s, walk, luck, params, weights, tools), walk, luck, unroll=unroll
    )
    m = walk.memory
    fresh = old + jnp.arange(config.learn_every + 1)  # at most one new state a step, and the first of all
    fresh = jnp.where(fresh < m.count, fresh, len(m.keys))
    table = s.table.at[fresh].set(s.usual[m.keys[jnp.minimum(fresh, len(m.keys) - 1)] % len(s.usual)], mode="drop")
    guess = guesses.push(s.guess, codes, rewards, costs)
    s = s._replace(key=key, multiplier=walk.multiplier, memory=m, table=table, guess=guess)
    return (learn(s, visited, params, tools), walk), counts.sum(0)


def settle(s: Traveller, params: PyTree, tools: Tools) -> tuple[Traveller, Array]:
    """The agent as it acts where there are no random actions and nothing is to be explored, and its direction.

    It learns from its memory for ε = 0, with rewards as they are on average, and keeps to actions that it has tried.
    Without passes for this, it acts by M as it is.
    """
    config = tools.config
    weights = tools.rooms.weights(s.guess, params, 0.0)
    if not config.settle:
        return s, jnp.append(weights.w_r - s.multiplier.lam[0] * weights.w_c, 0.0)
    aim = jnp.append(weights.w_r - s.multiplier.lam[0] * weights.w_c, REFUSED)
    usual = jnp.broadcast_to(tables.novel(len(aim)), s.usual.shape)
    plan = Plan(s.memory, features_of(s, tools), aim, usual, config.gamma, 0.0)
    return s._replace(table=tables.sweeps(config.settle, s.table, plan), usual=usual), aim


def part_of(carry: tuple[Traveller, Walk], part: Array, params: PyTree, tools: Tools):
    """Some rounds, the steps of one entry of a report."""
    (s, walk), config = carry, tools.config
    if config.remember:
        s = jax.lax.cond(part < config.refresh, partial(refresh, tools=tools), lambda s: s, s)
    rounds = max(min(PART, config.steps) // config.learn_every, 1)
    carry, counts = jax.lax.scan(partial(round_of, params=params, tools=tools), (s, walk), length=rounds)
    return carry, counts.sum(0)


def greedy_episode(s: Traveller, params: PyTree, tools: Tools) -> Array:
    """Return, cost, success and length of one episode without random actions; nothing is learnt or stored."""
    limit = tools.environment.spec.time_limit
    assert limit
    s, aim = settle(s, params, tools)
    m, episode, state = start(s.memory, params, s.key, tools)

    def one(carry: tuple[Memory, Episode, Array, Array], _: None):
        m, episode, state, alive = carry
        found = scores(s, Walk(s.multiplier, m, episode, state, state), aim, tools)
        after, moment = episodes.step(tools.environment, s.key, episode, jnp.argmax(found), params)
        m, state = memories.enter(m, tools.rooms.key(after.obs))
        step = moment.step
        out = alive * jnp.stack([step.reward, step.cost[0], step.success.astype(jnp.float32), 1.0])
        return (m, after, state, alive * (1.0 - moment.done)), out

    return jax.lax.scan(one, (m, episode, state, jnp.ones(())), length=limit)[1].sum(0)


def run_task(s: Traveller, params: PyTree, before: PyTree, tools: Tools) -> tuple[Traveller, Report]:
    """One whole task; `before` are the parameters of the task before it."""
    config = tools.config
    s, borrowed = begin(s, params, before, tools)
    m, episode, state = start(s.memory._replace(lost=jnp.zeros_like(s.memory.lost)), params, s.key, tools)
    walk = Walk(s.multiplier, m, episode, state, state)
    (s, _), parts = jax.lax.scan(
        partial(part_of, params=params, tools=tools), (s, walk), jnp.arange(max(config.steps // PART, 1))
    )
    reward, traps, goal, steps = greedy_episode(s, params, tools)
    return s, Report(
        reward=parts[:, 0],
        traps=parts[:, 1],
        episodes=parts[:, 2].sum(),
        goals=parts[:, 3].sum(),
        greedy_reward=reward,
        greedy_traps=traps,
        greedy_goal=goal,
        greedy_steps=steps,
        lam=s.multiplier.lam[0],
        states=s.memory.count,
        lost=s.memory.lost,
        stored=s.library.used.sum(),
        borrowed=borrowed,
    )


@partial(jax.jit, static_argnames="tools", donate_argnums=0)
def run_trials(s: Traveller, params: PyTree, before: PyTree, tools: Tools) -> tuple[Traveller, Report]:
    """One task of every trial at once: states and parameters have a leading axis."""
    return jax.vmap(partial(run_task, tools=tools), axis_name=tables.TRIALS)(s, params, before)


@partial(jax.jit, static_argnames="tools")
def init_trials(seeds: Array, tools: Tools) -> Traveller:
    """The agents of several trials."""
    return jax.vmap(lambda seed: init(jax.random.key(seed), tools))(seeds)
