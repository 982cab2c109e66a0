"""The recommended agent: it adapts when it is told of a change, or when it notices one.

It learns until the first change. At an announced change it adapts. The variants with a level ("cost", "penalty" or
"memory") then act with a fixed policy until the next change. The automatic one adapts up to the first level whose
certificate passes, acts with that policy, and goes on learning beside it (`guard`); "full" goes on learning after the
level "memory", and "from-memory" after an adaptation on walks through its memory, without a simulator. If a scenario
has silent changes, all of them go on learning and watch the costs (`silent`); announced ones are adapted to as well.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from safedsr.adapt.penalty import FINAL_BATCHES, score, scores, with_lam
from safedsr.adapt.walks import walking
from safedsr.agent import Agent
from safedsr.engine.program import Program
from safedsr.envs.environment import Task
from safedsr.scenario.contestants import FROM_MEMORY
from safedsr.scenario.course import Course, Phase
from safedsr.scenario.diary import Diary
from safedsr.scenario.guard import worth
from safedsr.scenario.learners import Learner, enter, make_job, play, run_learner, tell, update_rate
from safedsr.scenario.place import Place, turns
from safedsr.scenario.runner import LEVELS, Adaptive, Climbed, Runner
from safedsr.scenario.silent import Sentry, watch_start
from safedsr.types import PyTree

CHECK = 5_000  # environment steps after which the automatic agent simulates what it has learnt
FACTORS = tuple(2.0**k for k in range(-2, 4))  # of λ, in a check


def run_adaptive(
    course: Course, one: Adaptive, seeds: tuple[int, ...], diary: Diary, place: Place, base: Place
) -> None:
    """Run an adaptive agent through all phases, from its last save; `base` is the place of its first phase."""
    runner = Runner(course, one, seeds, diary, place)
    if place.there(seeds):
        runner.state = diary.load(place.folder, runner.program.state_shape())
    else:
        runner.begin(first_phase(course, one.learner, seeds, diary, base))
    sentry = Sentry(runner) if course.silent else None
    for phase in course.phases:
        if diary.step < phase.end:
            for program in (runner.program, runner.plain, runner.fixed_program):
                enter(program, course, phase.number)
            _live(runner, sentry, phase)
            place.keep(diary, runner.state, course.steps, now=True)


def shared_steps(course: Course, learner: Learner) -> int:
    """Steps that all variants of an agent share: the first phase; if changes may be silent, until the watch begins."""
    unit = make_job(course, learner, (0,), course.first).chunk
    return watch_start(course.first, unit) if course.silent else course.first


def first_phase(course: Course, learner: Learner, seeds: tuple[int, ...], diary: Diary, base: Place) -> PyTree:
    """The state after the shared steps, trained if there is none yet; another process that trains it is waited for."""
    end = shared_steps(course, learner)
    shape = Program(make_job(course, learner, seeds, course.first)).state_shape()
    with turns(base.folder, seeds, base.timer):
        for some in alike(seeds, base.step):
            if base.step(some[0]) < end:
                known = Diary(some, len(course.phases), course.environment.spec.costs)
                run_learner(course, learner, some, known, base, until=end)
    return diary.load(base.folder, shape)


def alike(seeds: Sequence[int], step: Callable[[int], Any]) -> list[tuple[int, ...]]:
    """The seeds in groups that are at the same step."""
    found: dict[Any, tuple[int, ...]] = {}
    for seed in seeds:
        at = step(seed)
        found[at] = (*found.get(at, ()), seed)
    return list(found.values())


def _live(runner: Runner, sentry: Sentry | None, phase: Phase) -> None:
    """Act to the end of a phase, after an adaptation if its task is announced."""
    if phase.number and phase.announced:
        _told(runner, phase)
    if sentry:
        for index, own in enumerate(runner.diary.own):
            if not own or (runner.diary.step == phase.start and phase.announced):
                sentry.renew(index, phase)
    fixed = runner.level in LEVELS and not sentry and phase.number > 0
    runner.diary.rate[phase.number] = 0.0 if fixed else update_rate(runner.job.agent)
    program = runner.fixed_program if fixed else runner.program
    after = partial(sentry.after, phase) if sentry else partial(_check_all, runner, phase) if runner.guards else None
    runner.state = play(program, runner.state, phase, runner.diary, runner.place, runner.course.steps, after=after)


def _told(runner: Runner, phase: Phase) -> None:
    """Adapt every seed to an announced task, once; then its stored steps get the costs of the task."""
    before = runner.course.known(phase.number - 1)
    since = max((other.number for other in runner.course.phases[: phase.number] if other.announced), default=0)
    guessing = {note["seed"] for note in runner.diary.notes if note["alarm"] and since <= note["phase"] < phase.number}
    done = {note["seed"] for note in runner.diary.notes if note["phase"] == phase.number and not note["alarm"]}
    for index, seed in enumerate(runner.job.seeds):
        if seed not in done:
            agent = runner.agent(index, before).changed(knows_costs=seed not in guessing)  # others predict their costs
            climbed = runner.spent(phase, index, lambda a=agent: _adapted(runner, a, phase.task))
            runner.note(phase, index, climbed)
            runner.take(index, climbed)
            runner.place.keep(runner.diary, runner.state, runner.course.steps)
    if runner.diary.step == phase.start:
        told = tell(runner.plain, runner.state._replace(agent=runner.agents))
        runner.state = runner.state._replace(episode=told.episode)
        runner.put(told.agent)


def _adapted(runner: Runner, agent: Agent, task: Task) -> Climbed:
    """The adapted agent; only the level from-memory has no simulator."""
    return runner.climb(agent, task, walking(agent, task) if runner.level == FROM_MEMORY else task)


def _check_all(runner: Runner, phase: Phase, state: PyTree, steps: int) -> PyTree:
    """Now and then, let what has been learnt act, where it is better in simulated episodes."""
    del steps
    runner.state = state
    if phase.number and (runner.diary.step - phase.start) % CHECK == 0 and runner.diary.step < phase.end:
        for index in range(len(runner.job.seeds)):
            runner.spent(phase, index, lambda i=index: _check(runner, i, phase))
    return runner.state


def _check(runner: Runner, index: int, phase: Phase) -> Climbed:
    """Simulate what a seed has learnt, with its λ and that of the policy that acts, times several factors."""
    task, enough, top = phase.task, runner.enough, f"top/{phase.number}"
    own, known = runner.bare(index, task), runner.diary.own[index]
    judged: dict[str, Any] = {"epsilon": runner.certificate.epsilon, "required": enough}
    acting = own.with_policy(jax.tree.map(lambda x: x[0, index], runner.state.agent.policy))
    if top not in known:
        known[top] = np.array(worth(score(acting, task, batches=FINAL_BATCHES, **judged), enough))
    lams = np.concatenate([np.outer(FACTORS, one.policy.lam) for one in (own, acting)]).astype(np.float32)
    found = [worth(one, enough) for one in scores(own, lams, task, **judged)]
    lam = lams[max(range(len(lams)), key=found.__getitem__)]
    confirmed = scores(own, lam[None], task, batches=FINAL_BATCHES, **judged)[0]
    if worth(confirmed, enough) > tuple(known[top]):
        runner.let_act(index, with_lam(own, lam), confirmed.safe)
        known[top] = np.array(worth(confirmed, enough))
    return Climbed(own, "check", confirmed.safe)
