"""Rung 3 for SafeDSR-plus: M goes on learning from remembered steps, for a small λ and at a rate that falls."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax import Array

from safedsr.adapt.costs import learner_of, past_of
from safedsr.adapt.penalty import Score, score, search_penalty
from safedsr.agents.plus import learner as plus
from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.plus.learner import PlusPolicy, PlusState
from safedsr.runs import experience as memory
from safedsr.runs.experiment import Environment
from safedsr.runs.policy import Agent, exact
from safedsr.types import Transition

ROUNDS = 4  # with a search for λ after each
FAST, SLOW = 2.0, 0.2  # the learning rate at first and at last, in units of the training's
SYNC = 250  # updates between copies into the target network


def learn_cells(
    agent: Agent, environment: Environment, updates: int, enough: float, epsilon: float, seed: int
) -> tuple[Agent, Score]:
    """The best agent of several rounds.

    M learns for λ₀, whatever λ is now: a large one drowns small differences of reward in errors of the cost.
    """
    config, policy = agent.job.agent, learner_of(agent)
    assert isinstance(policy, PlusPolicy)
    known = memory.steps(past_of(agent), environment.scene.layout, agent.job.grid)
    lam = jnp.full(len(environment.budgets), config.multiplier.lam_start)
    state = plus.go_on(policy, _optimizer(config, updates), config)
    best, top = agent, score(agent, environment, epsilon)
    for key in jax.random.split(jax.random.key(seed), ROUNDS):
        if top.safe >= enough:
            break
        state, _ = exact(learn_from, agent.job)(known, state, lam, key, config, -(-updates // ROUNDS), updates)
        learnt = agent.policy._replace(learner=policy._replace(successor=state.successor), lam=lam)
        candidate, found = search_penalty(agent.with_policy(learnt), environment, epsilon)
        if found > top:
            best, top = candidate, found
    return best, top


@partial(jax.jit, static_argnames=("config", "count", "updates"))
def learn_from(
    known: Transition, s: PlusState, lam: Array, key: Array, config: SafeDsrPlusConfig, count: int, updates: int
) -> tuple[PlusState, Array]:
    """`count` of all `updates` on batches of remembered steps, and their mean loss."""
    optimizer = _optimizer(config, updates)

    def update(s: PlusState, xs: tuple[Array, Array]) -> tuple[PlusState, Array]:
        n, key = xs
        chosen = jax.random.randint(key, (config.batch_size,), 0, len(known.action))
        batch = jax.tree.map(lambda x: x[chosen], known)
        s, loss = plus.learn_successor(s, batch, lam, optimizer, config)
        target = jax.tree.map(lambda new, old: jnp.where(n % SYNC == SYNC - 1, new, old), s.successor, s.target)
        return s._replace(target=target), loss

    s, losses = jax.lax.scan(update, s, (jnp.arange(count), jax.random.split(key, count)))
    return s, losses.mean()


def _optimizer(config: SafeDsrPlusConfig, updates: int) -> optax.GradientTransformation:
    rate = config.learning_rate
    return optax.adam(optax.linear_schedule(FAST * rate, SLOW * rate, updates))
