"""Level "memory": M is trained further for the new costs, from the replay memory alone; transitions are the same."""

import jax.numpy as jnp
from jax import Array

from safedsr.adapt.config import Tell, silent
from safedsr.adapt.costs import learner_of, stored_steps, units_of
from safedsr.adapt.penalty import LADDER, Score, score, search_penalty
from safedsr.core.precision import precision
from safedsr.envs.environment import Task
from safedsr.runs.policy import AnyPolicy

SOME = 0.1  # share of safe goals from which M is trained for the λ that acted best


def learn_from_memory(
    agent: AnyPolicy,
    task: Task,
    updates: int,
    enough: float,
    epsilon: float = 0.0,
    seed: int = 0,
    trial: Task | None = None,
    tell: Tell = silent,
) -> tuple[AnyPolicy, Score]:
    """The best agent of several rounds; each round trains M for one λ, then searches the λ to act with.

    The rounds end after `updates` updates, or when a share `enough` of the search's episodes is safe; where safe goals
    do not count, the return may still grow then, and they go on. The episodes are those of `trial`, or of the task.
    """
    learner_of(agent)
    trial = trial or task
    assert agent.trainer.adaptable
    steps = stored_steps(agent, task)
    rehearsal = agent.trainer.adaptable.rehearse(agent.policy, steps, updates, seed, units_of(agent, task))
    state, best, top = rehearsal.state, agent, score(agent, trial, epsilon, required=enough)
    lam = next_lam(agent.policy.lam, agent.policy.lam, top) if rehearsal.lam is None else rehearsal.lam
    for number, key in enumerate(rehearsal.keys):
        if agent.job.terms.goals and top.safe >= enough:
            break
        tell("training M from the replay memory", number / len(rehearsal.keys))
        with precision(agent.job.train.matmul):
            state = rehearsal.learn(state, lam, key)
        learnt = agent.policy._replace(learner=rehearsal.policy(state), lam=lam)
        tell("searching λ for the new M", (number + 0.5) / len(rehearsal.keys))
        candidate, found = search_penalty(agent.with_policy(learnt), trial, epsilon, enough)
        if found > top:
            best, top = candidate, found
        if rehearsal.lam is None:
            lam = next_lam(lam, candidate.policy.lam, found)
    return best, top


def next_lam(learnt: Array, acted: Array, found: Score) -> Array:
    """The λ [J] to train M for in the next round: the one that acted best, if enough episodes are safe.

    Else λ is doubled if the agent reaches the goal, and halved if not, because it is too cautious; where safe goals do
    not count, it is doubled. Above the largest λ of `LADDER`, λ starts again from a small value.
    """
    if found.safe >= SOME:
        return acted
    lam = jnp.maximum(learnt, LADDER[1]) * (2.0 if found.goal >= 0.5 else 0.5)
    return jnp.where(lam > LADDER[-1], LADDER[2], lam)
