"""Programs with phases, and the change of their state when the costs change (phase 2.5)."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.registry import make_trainer
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.learner import batch_features, learn_weights
from safedsr.agents.value_based.trainer import EVALUATE, State, all_rows
from safedsr.core import replay
from safedsr.core.precision import precision
from safedsr.core.replay import Codec
from safedsr.engine.loop import Lane
from safedsr.engine.program import Program
from safedsr.paper.adaptation_plan import OWN, Phase
from safedsr.runs.job import Job
from safedsr.types import Choice, PyTree


def staged(
    job: Job,
    phases: Sequence[Phase] = (),
    walks: int = 0,
    *,
    remembers: bool = True,
    greedy: Sequence[tuple[int, int]] = (),
) -> Program:
    """A program that runs the phases; it saves the positions of the last `walks` steps of each evaluation.

    Without `remembers`, its policies are saved without a replay memory, as collecting it takes longer than some phases.
    From the first to the second step of each pair in `greedy`, no action is random.
    """
    trainer = make_trainer(job.algorithm, job.agent, job.environment)
    if not remembers:
        trainer = trainer._replace(memory=None)
    if greedy:
        trainer = trainer._replace(choose=partial(choose_greedily, trainer.choose, greedy))
    if not phases:
        return Program(job, trainer)
    own, last = trainer.phase_at, job.train.steps
    ends = {phase: min(end, last) for phase, end in zip(phases, [p.start for p in phases[1:]] + [last], strict=True)}

    def phase_at(step: int) -> tuple[str, int | None]:
        phase = [phase for phase in phases if phase.start <= step][-1]
        if phase.mode != OWN:
            return phase.mode, ends[phase]
        name, end = own(step)
        return name, ends[phase] if end is None else min(end, ends[phase])

    looked_at = [end for phase, end in ends.items() if phase.mode == EVALUATE]
    return Program(
        job, trainer._replace(phase_at=phase_at), lambda stop: any(0 <= end - stop < walks for end in looked_at)
    )


def choose_greedily(
    own: Callable[..., Choice], spans: Sequence[tuple[int, int]], state: State, obs: Array, luck: Array, now: Array
) -> Choice:
    """The agent's own choice, without random actions in these spans of steps."""
    inside = jnp.stack([(now >= start) & (now < end) for start, end in spans]).any()
    return own(state, obs, jnp.where(inside, 1.0, luck), now)  # an action is random if the first number is below ε


def take_lanes(state: PyTree, lanes: Sequence[int]) -> PyTree:
    """The states [E, S, …] of some tasks, in this order; a task may appear several times."""
    return jax.tree.map(lambda x: x[jnp.asarray(lanes)], state)


def change_costs(program: Program, state: PyTree, updates: int, share: float | None = None) -> tuple[PyTree, float]:
    """Phase 2.5 for every agent of a program with the new costs; also its seconds, without compilation.

    `share` of each batch is drawn from all past experiences; if not given, as in training.
    """
    one = partial(adapt_weights, program=program, updates=updates, share=share)
    every = jax.jit(jax.vmap(jax.vmap(one, (0, None)), (0, 0)), donate_argnums=0)
    with precision(program.job.train.matmul):
        compiled = every.lower(state, program.params).compile()
    began = time.perf_counter()
    state = jax.block_until_ready(compiled(state, program.params))
    return state, time.perf_counter() - began


def adapt_weights(lane: Lane, params: PyTree, program: Program, updates: int, share: float | None) -> Lane:
    """One agent: relabel the memory with the new costs, then fit w_r and w_c to it; φ, M and λ stay."""
    config = program.job.agent
    state: State = lane.agent
    key, store_key, fit_key = jax.random.split(state.key, 3)
    state = relabel_memory(store_key, state._replace(key=key), params, program)
    codec = program.job.environment.spec.codec
    if updates:
        biased: float = config.biased_share if share is None else share
        state = fit_weights(fit_key, state, config, codec, updates, biased)
    return lane._replace(agent=state)


def relabel_memory(key: Array, state: State, params: PyTree, program: Program) -> State:
    """The memory with the costs of this task; the bins of the reservoir are those of the new costs."""
    environment = program.job.environment
    codec, relabel = environment.spec.codec, environment.relabel
    assert relabel and program.trainer.refill
    label = jax.vmap(relabel, (0, None))

    def anew(rows: Array) -> Array:
        return codec.pack(label(codec.unpack(rows), params))

    ring = anew(state.ring)
    if state.reservoir is None:
        return state._replace(ring=ring)
    choose_key, store_key = jax.random.split(key)
    rows, filled = all_rows(state)
    others = jax.random.choice(choose_key, len(rows), (len(rows),), p=filled / filled.sum())
    rows = anew(jnp.where(filled[:, None], rows, rows[others]))
    return program.trainer.refill(state._replace(ring=ring), store_key, rows, params)


def fit_weights(key: Array, state: State, config: SafeDsrConfig, codec: Codec, updates: int, share: float) -> State:
    """Update w_r and w_c by Eq. (14), with batches as in training, and this share of them biased."""
    assert state.reservoir is not None
    ring, reservoir, phi = state.ring, state.reservoir, state.learner.encoder.phi
    filled = jnp.minimum(state.count, len(ring))

    def update(learner: PyTree, key: Array) -> tuple[PyTree, None]:
        chosen = replay.choose_biased(key, reservoir, filled, 1, config.batch_size, share=share)
        batch = codec.unpack(chosen.rows(ring)[0])
        known, _ = batch_features(phi, batch)
        return learn_weights(learner, batch, known, config)[0], None

    learner, _ = jax.lax.scan(update, state.learner, jax.random.split(key, updates))
    return state._replace(learner=learner)
