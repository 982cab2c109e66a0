"""New costs for the replay memory of a training state, if costs change in the middle of a training."""

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.engine.program import Program
from safedsr.envs.environment import Environment
from safedsr.runs.experience import from_rows, label_steps
from safedsr.types import PyTree


def relabel_memory(program: Program, state: PyTree) -> PyTree:
    """The state [E, S] of a program whose stored steps have the costs of the program's tasks."""
    if program.trainer.refill is None:
        return state  # this algorithm stores nothing
    job = program.job
    lanes = [
        [_relabelled(program, jax.tree.map(lambda x, e=e, s=s: x[e, s], state.agent), e) for s in range(len(job.seeds))]
        for e in range(len(job.tasks))
    ]
    rows = [jax.tree.map(lambda *each: jnp.stack(each), *row) for row in lanes]
    return state._replace(agent=jax.tree.map(lambda *each: jnp.stack(each), *rows))


def _relabelled(program: Program, agent: PyTree, task: int) -> PyTree:
    environment, params = program.job.environment, program.job.tasks[task].params
    count = min(int(agent.count), len(agent.ring))
    if count == 0:
        return agent
    stored = [np.asarray(agent.ring)[:count]]
    if agent.reservoir is not None:
        from safedsr.agents.value_based.trainer import reservoir_rows

        rows, filled = reservoir_rows(agent)
        stored.append(np.asarray(rows)[np.asarray(filled)])
    new = [_anew(environment, rows, params) for rows in stored]
    agent = agent._replace(ring=agent.ring.at[:count].set(new[0]))
    if getattr(agent, "signals", None) is not None:  # units of costs
        largest = environment.spec.codec.unpack(jnp.concatenate(new)).cost.max(0)
        agent = agent._replace(signals=agent.signals._replace(cost=largest))
    key, store_key = jax.random.split(agent.key)
    assert program.trainer.refill
    return program.trainer.refill(agent._replace(key=key), store_key, jnp.concatenate(new), params)


def _anew(environment: Environment, rows: np.ndarray, params: PyTree) -> jax.Array:
    codec = environment.spec.codec
    return codec.pack(label_steps(from_rows(rows, np.ones(len(rows), bool), codec), environment, params))
