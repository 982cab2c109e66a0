"""Rung 3: M goes on learning for the new costs from remembered steps alone; how steps lead on has not changed."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.adapt.cells import learn_cells
from safedsr.adapt.costs import learner_of, past_of
from safedsr.adapt.penalty import LADDER, Score, score, search_penalty
from safedsr.agents.plus import learner as plus
from safedsr.agents.safedsr import learner as safedsr
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.equations import both_features
from safedsr.agents.safedsr.learner import DsrState
from safedsr.runs import experience as memory
from safedsr.runs.experiment import Environment
from safedsr.runs.policy import Agent, exact
from safedsr.types import Transition

ROUND = 500  # updates between two searches for λ
SOME = 0.1  # a share of safe goals from which on the λ of those who reached them is worth following


def learner_state(policy: Any, key: Array, config: Any) -> Any:
    """A learner that goes on from a policy; what a policy lacks (g, the optimisers' moments) starts anew."""
    if isinstance(policy, plus.PlusPolicy):
        return plus.go_on(policy, plus.adam(config), config)
    fresh = safedsr.init(key, len(policy.weights.w_c), config)
    return fresh._replace(
        encoder=fresh.encoder._replace(phi=policy.phi),
        weights=policy.weights,
        successor=policy.successor,
        target_phi=policy.phi,
        target_successor=policy.successor,
    )


class Known(NamedTuple):
    """Remembered steps and their features, which stay as they are while φ does."""

    t: Transition
    features: Array  # [n, d + A·k] φ(s, a) and φ(s′, ·)


@partial(jax.jit, static_argnames=("config", "updates"))
def learn_from(
    known: Known, s: DsrState, lam: Array, key: Array, config: SafeDsrConfig, updates: int
) -> tuple[DsrState, Array]:
    """Updates of M by Eq. (11) on batches of remembered steps, and their mean loss; targets follow as in training."""
    between = config.sync_every // config.train_every * config.update_steps

    def update(s: DsrState, key: Array) -> tuple[DsrState, Array]:
        chosen = jax.random.randint(key, (config.batch_size,), 0, len(known.features))
        t = jax.tree.map(lambda x: x[chosen], known.t)
        return safedsr.learn_known(s, known.features, chosen, t, lam, config)

    def period(s: DsrState, keys: Array) -> tuple[DsrState, Array]:
        s, losses = jax.lax.scan(update, s, keys)
        return s._replace(target_successor=s.successor), losses.mean()

    keys = jax.random.split(key, (max(updates // between, 1), between))
    s, losses = jax.lax.scan(period, s, keys)
    return s, losses.mean()


def learn_from_memory(
    agent: Agent, environment: Environment, updates: int, enough: float, epsilon: float = 0.0, seed: int = 0
) -> tuple[Agent, Score]:
    """The best agent of several rounds: each learns M for one λ and then searches the λ to act with.

    It ends after that many updates, or as soon as a share `enough` of the search's episodes is safe.
    """
    if isinstance(learner_of(agent), plus.PlusPolicy):
        return learn_cells(agent, environment, updates, enough, epsilon, seed)
    config, policy = agent.job.agent, learner_of(agent)
    key, learner_key = jax.random.split(jax.random.key(seed))
    known = recall(agent, environment)
    state = learner_state(policy, learner_key, config)
    best, top = agent, score(agent, environment, epsilon)
    lam = next_lam(agent.policy.lam, agent.policy.lam, top)
    for begin in range(0, updates, ROUND):
        if top.safe >= enough:
            break
        round_key = jax.random.fold_in(key, begin)
        state, _ = exact(learn_from, agent.job)(known, state, lam, round_key, config, min(ROUND, updates))
        learnt = agent.policy._replace(learner=policy._replace(successor=state.successor), lam=lam)
        candidate, found = search_penalty(agent.with_policy(learnt), environment, epsilon)
        if found > top:
            best, top = candidate, found
        lam = next_lam(lam, candidate.policy.lam, found)
    return best, top


def recall(agent: Agent, environment: Environment) -> Known:
    """Everything the agent remembers, with its features."""
    t = memory.steps(past_of(agent), environment.scene.layout, agent.job.grid)
    return Known(t, _features(learner_of(agent).phi, t))


_features = jax.jit(jax.vmap(both_features, (None, 0)))


def next_lam(learnt: Array, acted: Array, found: Score) -> Array:
    """The λ [J] to learn M for next: what acted best. Where nothing is safe, more caution, then from little again.

    An agent that does not even reach the goal is too cautious.
    """
    if found.safe >= SOME:
        return acted
    lam = jnp.maximum(learnt, LADDER[1]) * (2.0 if found.goal >= 0.5 else 0.5)
    return jnp.where(lam > LADDER[-1], LADDER[2], lam)
