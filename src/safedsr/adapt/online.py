"""Level "full": training continues with new steps in the new task, from the policy and its replay memory.

φ stays frozen; w_r, w_c, λ and M are trained, with every schedule at its end (phase 6 of the paper's last table).
"""

import contextlib
import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.adapt.costs import learner_of, stored_steps
from safedsr.engine.loop import Lane
from safedsr.engine.program import Program
from safedsr.engine.programs import program_for
from safedsr.envs.environment import Task
from safedsr.runs.experience import from_rows, make_experience
from safedsr.runs.policy import AnyPolicy, TrainedPolicy, own_job
from safedsr.types import Adaptable, PyTree


def learn_in(agent: AnyPolicy, task: Task, steps: int, stage: int, seed: int = 0) -> Iterator[AnyPolicy]:
    """Yield the agent after every `stage` of `steps` training steps in a task, both rounded up to whole periods."""
    job = dataclasses.replace(agent.job, agent=_adaptable(agent).settings)
    with contextlib.closing(program_for(own_job(agent.changed(job=job, task=task)))) as program:
        yield from _stages(program, agent, task, steps, stage, seed)


def _stages(program: Program, agent: AnyPolicy, task: Task, steps: int, stage: int, seed: int) -> Iterator[AnyPolicy]:
    period = program.trainer.period
    steps, stage = (-(-count // period) * period for count in (steps, min(stage, steps)))
    first = -(-_adaptable(agent).settled // period) * period
    state = jax.tree.map(lambda x: x[None, None], start_state(program, agent, task, seed, first))
    for step in range(first, first + steps, stage):
        state, _, _ = program.advance(state, step, min(stage, first + steps - step))
        if bad := program.first_bad(state):
            raise FloatingPointError(
                f"'{bad[0]}' is not finite after {step - first + stage} steps; the agent was not changed"
            )
        yield _agent_of(program, state.agent, agent, task)


def _adaptable(agent: TrainedPolicy) -> Adaptable:
    learner_of(agent)
    assert agent.trainer.adaptable
    return agent.trainer.adaptable


def start_state(program: Program, agent: TrainedPolicy, task: Task, seed: int, count: int) -> Lane:
    """A training state that continues from the agent: its networks, its λ, and a ring filled with its replay memory.

    `count` is the number of rows that the ring has received; the ring is full.
    """
    key, *keys = jax.random.split(jax.random.key(seed), 3)
    environment, trainer = program.job.environment, program.trainer
    fresh, first = program.start_one(key, jnp.uint32(seed), task.params)
    rows = environment.spec.codec.pack(stored_steps(agent, task))
    assert trainer.proceed
    return Lane(trainer.proceed(fresh, agent.policy, keys, rows, count, task.params), first)


def _agent_of(program: Program, agents: PyTree, agent: AnyPolicy, task: Task) -> AnyPolicy:
    trainer, environment = program.trainer, program.job.environment
    state = jax.tree.map(lambda x: x[0, 0], agents)
    learnt = agent.changed(policy=trainer.policy(state), task=task, recursion=None)
    assert trainer.memory
    new = from_rows(*trainer.memory(state), environment.spec.codec)
    old = stored_steps(agent, task)
    steps = jax.tree.map(lambda *parts: np.concatenate(parts), new, old)
    kept = make_experience(steps, learnt.features, environment, task.params)
    longest = agent.experience.longest if agent.experience else 0
    return learnt.changed(experience=kept._replace(longest=longest), knows_costs=True)
