"""A hazard that moves: M goes on learning from memory for the costs of the moment, a few updates at a time."""

from safedsr.adapt.costs import experience_of, units_of
from safedsr.core.precision import precision
from safedsr.envs.environment import Task
from safedsr.runs.experience import relabelled
from safedsr.runs.policy import AnyPolicy

UPDATES = 1000  # of which one round is done at a time


def follow(agent: AnyPolicy, task: Task, seed: int = 0) -> tuple[AnyPolicy, int]:
    """The agent after one round of updates of M from its replay memory, labelled with the costs; and how many."""
    assert agent.trainer.adaptable
    steps = relabelled(experience_of(agent), agent.job.environment, task.params)
    rehearsal = agent.trainer.adaptable.rehearse(agent.policy, steps, UPDATES, seed, units_of(agent, task))
    lam = agent.policy.lam if rehearsal.lam is None else rehearsal.lam
    with precision(agent.job.train.matmul):
        state = rehearsal.learn(rehearsal.state, lam, rehearsal.keys[0])
    learnt = agent.policy._replace(learner=rehearsal.policy(state))
    return agent.with_policy(learnt), UPDATES // len(rehearsal.keys)
