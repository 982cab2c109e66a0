"""Contestants that learn: they go on after a change, or start again. One compiled program runs all seeds and phases."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.agents.registry import find_algorithm, make_trainer
from safedsr.agents.value_based.config import ValueBasedSettings
from safedsr.agents.value_based.trainer import EVALUATE, PENALTY, State, all_rows, ring_rows
from safedsr.engine.loop import Lane
from safedsr.engine.program import Program
from safedsr.errors import UserError
from safedsr.paper.adaptation_engine import change_costs, relabel_memory, staged
from safedsr.paper.adaptation_plan import OWN
from safedsr.paper.adaptation_plan import Phase as Stage
from safedsr.runs.config import EPISODE, TrainConfig, agent_for
from safedsr.runs.job import Job, aim_of
from safedsr.scenario.clock import worked
from safedsr.scenario.course import Course, Phase
from safedsr.scenario.diary import Diary
from safedsr.scenario.place import Place
from safedsr.types import PyTree
from safedsr.validation import with_settings

CHUNK = 1_000  # environment steps of one compiled call
REFIT_UPDATES = 10_000  # of SafeDSR's phase 2.5


class Learner(NamedTuple):
    """An algorithm with fixed settings, and what it does at a change."""

    algorithm: str
    settings: Mapping[str, Any]
    quick: Mapping[str, Any]  # settings that a quick run has instead
    restarts: bool = False
    staged: bool = False  # SafeDSR's phases of evaluation, penalty and successor learning, as in the paper
    preset: str | None = None
    explores: float | None = None  # share of a run in which ε falls and, if no setting says otherwise, λ stays


def make_job(course: Course, learner: Learner, seeds: tuple[int, ...], over: int) -> Job:
    """The job of a learner; schedules that are shares of the run are shares of `over` steps."""
    found = find_algorithm(learner.algorithm)
    settings = {**learner.settings, **(learner.quick if course.quick else {})}
    if learner.explores:
        end = int(over * learner.explores)
        settings = {"epsilon_from": min(over // 25, end), "epsilon_to": end, "penalty_start": end, **settings}
    agent = with_settings(found.settings(learner.preset), settings)
    agent = agent_for(EPISODE, over, agent, found.all_settings)
    period = agent.period
    for phase in course.phases:
        if phase.end % period:
            raise UserError(
                f"{course.scenario.source}: {learner.algorithm} learns every {period} steps and a phase ends at "
                f"{phase.end}; give changes and steps that are multiples of {period}"
            )
    chunk = period * max(CHUNK // period, 1)
    ends = math.gcd(*(phase.end for phase in course.phases))
    chunk = chunk if ends % chunk == 0 else period
    if stages(course, learner) and not course.quick:
        chunk = None  # as 'safedsr reproduce adaptation' has it, so that both give the same numbers
    training = TrainConfig(steps=course.steps, chunk=chunk, matmul=course.matmul)
    return Job(learner.algorithm, (course.phases[0].task,), seeds, agent, course.environment, training)


def stages(course: Course, learner: Learner) -> bool:
    """Whether a learner has the paper's phases; where a change is silent, nothing may begin or end with it."""
    return learner.staged and not course.silent


def make_program(course: Course, learner: Learner, job: Job) -> Program:
    """The program of a job, with the paper's phases if the learner has them."""
    return staged(job, paper_stages(course, job.agent.period)) if stages(course, learner) else Program(job)


def paper_stages(course: Course, period: int) -> list[Stage]:
    """The paper's phases for any timetable: a sixth of the first phase is an evaluation, later phases have five parts.

    These parts are an evaluation, λ alone, an evaluation, everything but φ, an evaluation.
    """

    def part(phase: Phase, share: float) -> int:
        return phase.start + round((phase.end - phase.start) * share / period) * period

    first = course.phases[0]
    found = [Stage(1, "training", 0, "everything", OWN), Stage(2, "evaluation", part(first, 5 / 6), "", EVALUATE)]
    for phase in course.phases[1:]:
        for n, mode in enumerate((EVALUATE, PENALTY, EVALUATE, OWN, EVALUATE)):
            found.append(Stage(3 + n, mode, part(phase, n / 5), "", mode))
    return found


def enter(program: Program, course: Course, number: int) -> None:
    """Let a program continue with the task of another phase; nothing is compiled again."""
    task = course.phases[number].task
    program.job = dataclasses.replace(program.job, tasks=(task,))
    program.params = course.stacked(number)
    program.aim = jnp.asarray([aim_of(program.job.agent, task.budgets)], jnp.float32)


def update_rate(agent: Any) -> float:
    """Updates in each environment step; of on-policy agents at most, because their passes may stop early."""
    if isinstance(agent, ValueBasedSettings):
        return agent.update_steps / agent.train_every  # type: ignore[attr-defined]
    return agent.update_iters * (agent.steps_per_epoch // agent.batch_size) / agent.steps_per_epoch


def run_learner(
    course: Course, learner: Learner, seeds: tuple[int, ...], diary: Diary, place: Place, until: int | None = None
) -> None:
    """Run a learner through all phases, or up to a step, from its last save."""
    last = until or course.steps
    job = make_job(course, learner, seeds, course.first)
    program = make_program(course, learner, job)
    state = diary.load(place.folder, program.state_shape()) if place.there(seeds) else program.init()
    for phase in (one._replace(end=min(one.end, last)) for one in course.phases):
        if diary.step >= phase.end:
            continue
        clock = 0
        if phase.number and learner.restarts:
            again = make_job(course, learner, seeds, phase.end - phase.start)
            program = program if again.agent == program.job.agent else Program(again)
            clock = phase.start  # its schedules begin again
        enter(program, course, phase.number)
        if diary.step == phase.start and phase.number:
            state = _changed(program, learner, state, phase, diary, course.quick)
        diary.rate[phase.number] = update_rate(job.agent)
        state = play(program, state, phase, diary, place, last, clock)
        place.keep(diary, state, last, now=True)


def _changed(program: Program, learner: Learner, state: PyTree, phase: Phase, diary: Diary, quick: bool) -> PyTree:
    """The state at the beginning of a phase: a new one, one that was told the task, or the same."""
    began = worked()
    if learner.restarts:
        return program.init()
    if not phase.announced or not isinstance(state.agent, State):
        return state
    if learner.staged:
        updates = REFIT_UPDATES // 50 if quick else REFIT_UPDATES
        state, _ = change_costs(program, state, updates)
    else:
        updates, state = 0, tell(program, state)
    stored = np.minimum(np.asarray(state.agent.count)[0], state.agent.ring.shape[2])
    for index in range(len(diary.seeds)):
        seconds = worked() - began
        diary.spend(phase.number, index, seconds=seconds, updates=updates, relabelled=float(stored[index]))
    return state


def tell(program: Program, state: PyTree) -> PyTree:
    """The state [1, S] whose stored steps have the labels of the program's task."""
    one = partial(_tell_one, program=program)
    every = jax.jit(jax.vmap(jax.vmap(one, (0, None)), (0, 0)), donate_argnums=0)
    return every(state, program.params)


def _tell_one(lane: Lane, params: PyTree, program: Program) -> Lane:
    state: State = lane.agent
    key, store_key = jax.random.split(state.key)
    state = relabel_memory(store_key, state._replace(key=key), params, program)
    if state.signals is not None:  # units of costs: the largest that is remembered
        rows, filled = all_rows(state) if state.reservoir is not None else ring_rows(state)
        cost = jnp.where(filled[:, None], program.job.environment.spec.codec.unpack(rows).cost, 0.0)
        state = state._replace(signals=state.signals._replace(cost=cost.max(0)))
    return lane._replace(agent=state)


def play(
    program: Program,
    state: PyTree,
    phase: Phase,
    diary: Diary,
    place: Place,
    steps: int,
    clock: int = 0,
    after: Callable[[PyTree, int], PyTree] | None = None,
) -> PyTree:
    """Advance to the end of a phase and record it; `clock` is the step at which the program's schedules began.

    `after` is called with the state and the number of steps after each chunk, and may change the state.
    """
    while diary.step < phase.end:
        stop = min(program.next_stop(diary.step - clock) + clock, phase.end)
        began = worked()
        state, records, _ = program.advance(state, diary.step - clock, stop - diary.step)
        diary.add(records)
        diary.paces[phase.number].append((worked() - began) / (stop - diary.step))
        require_finite(program, state, stop)
        count, diary.step = stop - diary.step, stop
        if after:
            state = after(state, count)
        place.keep(diary, state, steps)
    return state


def require_finite(program: Program, state: PyTree, step: int) -> None:
    """Raise if a value of the state is not finite."""
    if bad := program.first_bad(state):
        raise FloatingPointError(f"'{bad[0]}' of seed {program.job.seeds[bad[2]]} is not finite at step {step}")


def fixed_program(job: Job) -> Program:
    """A program in which nothing is learnt or stored."""
    trainer = make_trainer(job.algorithm, job.agent, job.environment)
    return Program(job, trainer._replace(phase_at=lambda step: (EVALUATE, None)))
