"""Rung 4: new interactions. The trainer itself goes on in the new environment, from the policy and what it remembers.

φ stays frozen; w_r, w_c, λ and M go on learning, with every schedule at its end (phase 6 of the paper's last table).
"""

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.adapt.costs import learner_of, past_of
from safedsr.adapt.successor import learner_state
from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.value_based.loop import State
from safedsr.core import multiplier, replay
from safedsr.engine.program import Program
from safedsr.runs import experience as memory
from safedsr.runs.experiment import Environment
from safedsr.runs.policy import Agent, own_job
from safedsr.types import PyTree


def learn_in(agent: Agent, environment: Environment, steps: int, stage: int, seed: int = 0) -> Iterator[Agent]:
    """The agent after every `stage` more steps of training in an environment, both rounded up to whole periods."""
    job = own_job(agent.changed(environment=environment))
    if isinstance(job.agent, SafeDsrConfig):
        job = dataclasses.replace(job, agent=dataclasses.replace(job.agent, pretrain=0))  # φ is trained already
    program = Program(job)
    period = program.trainer.period
    steps, stage = (-(-count // period) * period for count in (steps, min(stage, steps)))
    state = jax.tree.map(lambda x: x[None, None], start_state(program, agent, environment, seed))
    first = _first_step(agent.job.agent)
    for step in range(first, first + steps, stage):
        state, _, _ = program.advance(state, step, min(stage, first + steps - step))
        if bad := program.first_bad(state):
            raise FloatingPointError(
                f"'{bad[0]}' is not finite after {step - first + stage} steps; the agent is as before"
            )
        yield _agent_of(program, state, agent, environment)


def start_state(program: Program, agent: Agent, environment: Environment, seed: int) -> State:
    """A trainer's state that goes on from the agent: its networks, its λ, and memory filled with what it remembers."""
    layout = environment.scene.layout
    key, learner_key, store_key = jax.random.split(jax.random.key(seed), 3)
    fresh: State = program.trainer.init(key, layout)
    rows = replay.pack(memory.steps(past_of(agent), layout, agent.job.grid))
    assert program.trainer.refill
    state = fresh._replace(
        learner=learner_state(learner_of(agent), learner_key, agent.job.agent),
        multiplier=multiplier.at(agent.policy.lam),
        ring=jnp.resize(rows, fresh.ring.shape),  # rows repeat where there are fewer than it holds
    )
    return program.trainer.refill(state, store_key, rows, layout)


def _first_step(config: SafeDsrConfig | SafeDsrPlusConfig) -> int:
    """A step at which φ is frozen (if ever), λ is tuned, ε has reached its end and the ring is full."""
    freeze = config.freeze if isinstance(config, SafeDsrConfig) else 0
    late = max(freeze, config.multiplier.penalty_start, config.epsilon.epsilon_to, config.buffer_size)
    return -(-late // config.period) * config.period


def _agent_of(program: Program, state: PyTree, agent: Agent, environment: Environment) -> Agent:
    state = jax.tree.map(lambda x: x[0, 0], state)
    policy = program.trainer.policy(state)
    layout = environment.scene.layout
    assert program.trainer.memory
    old = replay.pack(memory.steps(past_of(agent), layout, agent.job.grid))
    rows = np.concatenate([program.trainer.memory(state), old])
    past = memory.make_past(rows, policy.learner.phi, layout)
    return agent.changed(policy=policy, environment=environment, past=past, recursion=None)
