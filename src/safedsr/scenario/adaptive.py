"""The recommended agent: it adapts when it is told of a change, or when it notices one.

It learns until the first change. At an announced change it adapts. The variants with a level ("cost", "penalty" or
"memory") then act with a fixed policy until the next change. The automatic one adapts up to the first level whose
certificate passes, acts with that policy, and goes on learning beside it (`guard`); "full" goes on learning after the
level "memory". If a scenario has silent changes, all of them go on learning and watch the costs (`silent`).
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import numpy as np

from safedsr.adapt.penalty import FINAL_BATCHES, score, scores, with_lam
from safedsr.engine.program import Program
from safedsr.envs.environment import Task
from safedsr.scenario.course import Course, Phase
from safedsr.scenario.diary import Diary
from safedsr.scenario.guard import worth
from safedsr.scenario.learners import Learner, Place, enter, make_job, place_at, play, run_learner, tell, update_rate
from safedsr.scenario.runner import LEVELS, Adaptive, Climbed, Runner
from safedsr.scenario.silent import watched
from safedsr.types import PyTree

CHECK = 5_000  # environment steps after which the automatic agent simulates what it has learnt
FACTORS = tuple(2.0**k for k in range(-2, 4))  # of λ, in a check
Tops = dict[int, tuple[float, float]]  # what the policy that acts is worth in a phase, by number of the seed


def run_adaptive(course: Course, one: Adaptive, seeds: tuple[int, ...], diary: Diary, place: Place, base: Any) -> None:
    """Run an adaptive agent through all phases, from its last save; `base` is the file of its first phase."""
    runner = Runner(course, one, seeds, diary, place)
    if place.path.exists():
        runner.state = diary.load(place.path, runner.program.state_shape())
    else:
        runner.begin(first_phase(course, one.learner, seeds, diary, place, base))
    for phase in course.phases[1:]:
        if diary.step < phase.end:
            for program in (runner.program, runner.plain, runner.fixed_program):
                enter(program, course, phase.number)
            if course.silent:
                watched(runner, phase)
            else:
                _told(runner, phase)
            place.keep(diary, runner.state, course.steps, now=True)


def first_phase(
    course: Course, learner: Learner, seeds: tuple[int, ...], diary: Diary, place: Place, base: Any
) -> PyTree:
    """The state after the first phase, which all variants of an agent share; trained if there is none yet."""
    only = dataclasses.replace(course, phases=course.phases[:1])
    known = Diary(seeds, len(course.phases), course.environment.spec.costs)
    shape = Program(make_job(course, learner, seeds, course.first)).state_shape()
    if base.exists():
        known.load(base, shape)
    if known.step < course.first:
        known = Diary(seeds, len(course.phases), course.environment.spec.costs)
        run_learner(only, learner, seeds, known, place_at(base, place.show))
    return diary.load(base, shape)


def _told(runner: Runner, phase: Phase) -> None:
    """Adapt every seed to an announced task, then act to the end of the phase."""
    before = runner.course.phases[phase.number - 1].task
    done = {note["seed"] for note in runner.diary.notes if note["phase"] == phase.number}
    for index, seed in enumerate(runner.job.seeds):
        if seed not in done:
            agent = runner.agent(index, before)
            climbed = runner.spent(phase, index, lambda a=agent: runner.climb(a, phase.task, phase.task))
            runner.note(phase, index, climbed)
            runner.take(index, climbed)
            runner.place.keep(runner.diary, runner.state, runner.course.steps)
    if runner.diary.step == phase.start:
        told = tell(runner.plain, runner.state._replace(agent=runner.agents))
        runner.state = runner.state._replace(episode=told.episode)
        runner.put(told.agent)
    fixed = runner.level in LEVELS
    runner.diary.rate[phase.number] = 0.0 if fixed else update_rate(runner.job.agent)
    program = runner.fixed_program if fixed else runner.program
    after = partial(_check_all, runner, {}, phase) if runner.guards else None
    runner.state = play(program, runner.state, phase, runner.diary, runner.place, runner.course.steps, after=after)


def _check_all(runner: Runner, tops: Tops, phase: Phase, state: PyTree, steps: int) -> PyTree:
    """Now and then, let what has been learnt act, where it is better in simulated episodes."""
    del steps
    runner.state = state
    if (runner.diary.step - phase.start) % CHECK == 0 and runner.diary.step < phase.end:
        for index in range(len(runner.job.seeds)):
            runner.spent(phase, index, lambda i=index: _check(runner, tops, i, phase.task))
    return runner.state


def _check(runner: Runner, tops: Tops, index: int, task: Task) -> Climbed:
    """Simulate what a seed has learnt, with its λ and that of the policy that acts, times several factors."""
    own, enough = runner.bare(index, task), runner.enough
    judged: dict[str, Any] = {"epsilon": runner.certificate.epsilon, "required": enough}
    acting = own.with_policy(jax.tree.map(lambda x: x[0, index], runner.state.agent.policy))
    if index not in tops:
        tops[index] = worth(score(acting, task, batches=FINAL_BATCHES, **judged), enough)
    lams = np.concatenate([np.outer(FACTORS, one.policy.lam) for one in (own, acting)]).astype(np.float32)
    found = [worth(one, enough) for one in scores(own, lams, task, **judged)]
    lam = lams[max(range(len(lams)), key=found.__getitem__)]
    confirmed = scores(own, lam[None], task, batches=FINAL_BATCHES, **judged)[0]
    if worth(confirmed, enough) > tops[index]:
        runner.let_act(index, with_lam(own, lam), confirmed.safe)
        tops[index] = worth(confirmed, runner.enough)
    return Climbed(own, "check", confirmed.safe)
