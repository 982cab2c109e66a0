"""Rung 3: M goes on learning for the new costs from remembered steps alone; how steps lead on has not changed."""

import jax.numpy as jnp
from jax import Array

from safedsr.adapt.costs import experience_of, learner_of
from safedsr.adapt.penalty import LADDER, Score, score, search_penalty
from safedsr.core.precision import precision
from safedsr.envs.environment import Task
from safedsr.runs.experience import relabelled
from safedsr.runs.policy import AnyPolicy

SOME = 0.1  # a share of safe goals from which on the λ of those who reached them is worth following


def learn_from_memory(
    agent: AnyPolicy, task: Task, updates: int, enough: float, epsilon: float = 0.0, seed: int = 0
) -> tuple[AnyPolicy, Score]:
    """The best agent of several rounds: each learns M for one λ and then searches the λ to act with.

    It ends after that many updates, or as soon as a share `enough` of the search's episodes is safe.
    """
    learner_of(agent)
    assert agent.trainer.adaptable
    steps = relabelled(experience_of(agent), agent.job.environment, task.params)
    rehearsal = agent.trainer.adaptable.rehearse(agent.policy.learner, steps, len(task.budgets), updates, seed)
    state, best, top = rehearsal.state, agent, score(agent, task, epsilon)
    lam = next_lam(agent.policy.lam, agent.policy.lam, top) if rehearsal.lam is None else rehearsal.lam
    for key in rehearsal.keys:
        if top.safe >= enough:
            break
        with precision(agent.job.train.matmul):
            state = rehearsal.learn(state, lam, key)
        learnt = agent.policy._replace(learner=rehearsal.policy(state), lam=lam)
        candidate, found = search_penalty(agent.with_policy(learnt), task, epsilon)
        if found > top:
            best, top = candidate, found
        if rehearsal.lam is None:
            lam = next_lam(lam, candidate.policy.lam, found)
    return best, top


def next_lam(learnt: Array, acted: Array, found: Score) -> Array:
    """The λ [J] to learn M for next: what acted best. Where nothing is safe, more caution, then from little again.

    An agent that does not even reach the goal is too cautious.
    """
    if found.safe >= SOME:
        return acted
    lam = jnp.maximum(learnt, LADDER[1]) * (2.0 if found.goal >= 0.5 else 0.5)
    return jnp.where(lam > LADDER[-1], LADDER[2], lam)
