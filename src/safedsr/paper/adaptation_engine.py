"""Programs that go through phases, and what happens to their state when the costs change (phase 2.5)."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.learner import batch_features, learn_weights
from safedsr.agents.value_based.loop import EVALUATE, State, remembered
from safedsr.core import replay
from safedsr.engine.lanes import precision
from safedsr.engine.program import Program
from safedsr.envs.grid.layout import Layout
from safedsr.paper.adaptation_plan import OWN, Phase
from safedsr.runs import experience as memory
from safedsr.runs.experiment import Job
from safedsr.types import PyTree, Trainer


def staged(job: Job, phases: Sequence[Phase], walks: int = 0) -> Program:
    """A program that goes through the phases; it keeps the walks of that many last steps of each evaluation."""
    program = Program(job)
    own, last = program.trainer.phase_at, job.train.steps
    ends = {phase: min(end, last) for phase, end in zip(phases, [p.start for p in phases[1:]] + [last], strict=True)}

    def phase_at(step: int) -> tuple[str, int | None]:
        phase = [phase for phase in phases if phase.start <= step][-1]
        if phase.mode != OWN:
            return phase.mode, ends[phase]
        name, end = own(step)
        return name, ends[phase] if end is None else min(end, ends[phase])

    looked_at = [end for phase, end in ends.items() if phase.mode == EVALUATE]
    program.trainer = program.trainer._replace(phase_at=phase_at)
    program.keeps = lambda stop: any(0 <= end - stop < walks for end in looked_at)
    return program


def without_memory(program: Program) -> Program:
    """The program, whose policies take nothing along: gathering it takes longer than some phases."""
    program.trainer = program.trainer._replace(memory=None)
    return program


def take_lanes(state: PyTree, lanes: Sequence[int]) -> PyTree:
    """The states of some environments [E, S, …], in this order; the same one may go on several times."""
    return jax.tree.map(lambda x: x[jnp.asarray(lanes)], state)


def change_costs(program: Program, state: PyTree, updates: int) -> tuple[PyTree, float]:
    """Phase 2.5 in every lane of a program that has the new maps; also the seconds it took, without compiling."""
    one = partial(adapt_weights, trainer=program.trainer, config=program.job.agent, updates=updates)
    every = jax.jit(jax.vmap(jax.vmap(one, (0, None)), (0, 0)), donate_argnums=0)
    with precision(program.job.train.matmul):
        compiled = every.lower(state, program.layout).compile()
    began = time.perf_counter()
    state = jax.block_until_ready(compiled(state, program.layout))
    return state, time.perf_counter() - began


def adapt_weights(state: State, layout: Layout, trainer: Trainer, config: Any, updates: int) -> State:
    """One lane: memory relabelled with the new costs, then w_r and w_c fitted to it; φ, M and λ stay."""
    key, store_key, fit_key = jax.random.split(state.key, 3)
    state = relabel_memory(store_key, state._replace(key=key), layout, trainer)
    return fit_weights(fit_key, state, config, updates) if updates else state


def relabel_memory(key: Array, state: State, layout: Layout, trainer: Trainer) -> State:
    """What is remembered as it would have been on this map; the reservoir's bins are those of the new costs."""
    label = jax.vmap(memory.relabel, (0, None))

    def anew(rows: Array) -> Array:
        return replay.pack(label(replay.unpack(rows), layout))

    ring = anew(state.ring)
    if state.reservoir is None:
        return state._replace(ring=ring)
    choose_key, store_key = jax.random.split(key)
    rows = remembered(state)
    known = rows[:, :2].any(1)  # slots that were never filled are zero
    others = jax.random.choice(choose_key, len(rows), (len(rows),), p=known / known.sum())
    rows = anew(jnp.where(known[:, None], rows, rows[others]))
    assert trainer.refill
    return trainer.refill(state._replace(ring=ring), store_key, rows, layout)


def fit_weights(key: Array, state: State, config: SafeDsrConfig, updates: int) -> State:
    """Updates of w_r and w_c on Eq. (14) with batches as in training; the ring is full."""
    assert state.reservoir is not None
    ring, reservoir, phi = state.ring, state.reservoir, state.learner.encoder.phi

    def update(learner: PyTree, key: Array) -> tuple[PyTree, None]:
        chosen = replay.choose_biased(
            key, reservoir, jnp.int32(len(ring)), 1, config.batch_size, share=config.biased_share
        )
        batch = replay.unpack(chosen.rows(ring)[0])
        known, _ = batch_features(phi, batch)
        return learn_weights(learner, batch, known, config)[0], None

    learner, _ = jax.lax.scan(update, state.learner, jax.random.split(key, updates))
    return state._replace(learner=learner)
