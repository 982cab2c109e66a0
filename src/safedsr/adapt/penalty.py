"""Rung 2: λ for new costs, by a search over simulated episodes or learnt on-policy as in the paper."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core import multiplier
from safedsr.core.config import MultiplierConfig
from safedsr.core.multiplier import Multiplier
from safedsr.engine.evaluate import Outcome, run_keys
from safedsr.envs.grid import physics as grid
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout
from safedsr.runs.experiment import Environment
from safedsr.runs.metrics import within
from safedsr.runs.policy import Agent
from safedsr.types import PyTree

LADDER = (0.0, *(0.05 * 2.0**k for k in range(11)))  # up to 51: from no caution to nothing but caution
BATCH = 64  # episodes of one compiled call
FINALISTS, FINAL_BATCHES = 3, 4


class Score(NamedTuple):
    """How a policy did in simulated episodes; the larger, the better."""

    safe: float  # share that reached the goal within the budget
    goal: float  # share that reached the goal
    spared: float  # minus the mean cost over the budget, summed over costs
    reward: float  # mean


def with_lam(agent: Agent, lam: Any) -> Agent:
    """The agent with other multipliers."""
    return agent.with_policy(agent.policy._replace(lam=jnp.asarray(lam, jnp.float32)))


def score(agent: Agent, environment: Environment, epsilon: float, batches: int = 1, seed: int = 0) -> Score:
    """`batches` times `BATCH` episodes."""
    keys = jax.random.split(jax.random.key(seed), FINAL_BATCHES * BATCH).reshape(FINAL_BATCHES, BATCH)
    found = [run_keys(agent, environment.scene.layout, keys[n], epsilon) for n in range(batches)]
    o = Outcome(*(np.concatenate(field) for field in zip(*found, strict=True)))
    over = np.maximum(o.cost - np.asarray(environment.budgets, np.float32), 0).mean(0).sum()
    safe = o.reached & within(o.cost, environment.budgets)
    return Score(float(safe.mean()), float(o.reached.mean()), -float(over), float(o.ret.mean()))


def search_penalty(agent: Agent, environment: Environment, epsilon: float = 0.0) -> tuple[Agent, Score]:
    """The agent with the λ of most safe goals; of several costs, one λ after the other, twice."""
    lam = np.asarray(agent.policy.lam, np.float32)
    best = score(agent, environment, epsilon, FINAL_BATCHES)
    for j in [*range(len(lam))] * (2 if len(lam) > 1 else 1):
        lam, best = _search_one(agent, environment, epsilon, lam, best, j)
    return with_lam(agent, lam), best


def _search_one(
    agent: Agent, environment: Environment, epsilon: float, lam: np.ndarray, best: Score, j: int
) -> tuple[np.ndarray, Score]:
    """Try every rung of the ladder for λ_j, then the few best with more episodes."""
    choices = [np.where(np.arange(len(lam)) == j, np.float32(value), lam) for value in LADDER]
    first = [score(with_lam(agent, choice), environment, epsilon) for choice in choices]
    for n in sorted(range(len(choices)), key=first.__getitem__, reverse=True)[:FINALISTS]:
        found = score(with_lam(agent, choices[n]), environment, epsilon, FINAL_BATCHES)
        if found > best:
            lam, best = choices[n], found
    return lam, best


def learn_penalty(agent: Agent, environment: Environment, steps: int = 100_000, seed: int = 0) -> Agent:
    """λ tuned by the agent's own rule after each episode of its ε-greedy policy, while all else stays (Sec. 5.4)."""
    config = agent.job.agent.multiplier
    aim = environment.budgets if config.aim is None else config.aim
    aim = jnp.broadcast_to(jnp.asarray(aim, jnp.float32), len(environment.budgets))
    start = multiplier.at(agent.policy.lam)
    epsilon = jnp.float32(agent.job.agent.epsilon.epsilon_end)
    tuned = _tune(
        agent.values_of,
        agent.job.grid,
        config,
        agent.policy,
        environment.scene.layout,
        aim,
        epsilon,
        start,
        jax.random.split(jax.random.key(seed), steps),
    )
    return with_lam(agent, tuned.lam)


@partial(jax.jit, static_argnames=("values", "grid_config", "config"))
def _tune(
    values: Any,
    grid_config: GridConfig,
    config: MultiplierConfig,
    policy: PyTree,
    layout: Layout,
    aim: Array,
    epsilon: Array,
    start: Multiplier,
    keys: Array,
) -> Multiplier:
    tune = multiplier.RULES[config.rule]

    def step(carry: tuple[grid.GridState, Array, Multiplier], key: Array):
        state, cost, m = carry
        luck_key, step_key = jax.random.split(key)
        best = jnp.argmax(values(policy._replace(lam=m.lam), grid.observe(state, layout)).score)
        action = grid.epsilon_greedy(jax.random.uniform(luck_key, (2,)), best, epsilon)
        state, out = grid.step(step_key, state, action, layout, grid_config)
        done, cost = out.terminated | out.truncated, cost + out.cost
        m = jax.tree.map(partial(jnp.where, done), tune(m, cost, aim, config), m)
        return (state, jnp.where(done, 0.0, cost), m), None

    state, _ = grid.reset(keys[0], layout, grid_config)
    (_, _, tuned), _ = jax.lax.scan(step, (state, jnp.zeros(len(layout.costs)), start), keys)
    return tuned
