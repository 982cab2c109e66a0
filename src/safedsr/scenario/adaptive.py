"""The recommended agent: it adapts when it is told of a change, or when it notices one.

It learns until the first change. At an announced change it adapts. The variants with a level ("cost", "penalty" or
"memory") then act with a fixed policy until the next change. The automatic one adapts up to the first level whose
certificate passes, and goes on learning; "full" goes on learning after the level "memory". If a scenario has silent
changes, all of them go on learning and watch the costs.
"""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.adapt.certify import certify_in
from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.adapt.ladder import AUTO, MARGIN, RUNGS, Request
from safedsr.agent import Agent
from safedsr.agents.value_based.trainer import State
from safedsr.core import multiplier
from safedsr.core.units import Units
from safedsr.engine.evaluate import WALKED
from safedsr.engine.program import Program
from safedsr.envs.environment import Task
from safedsr.envs.memory import remembered
from safedsr.runs.experience import from_rows, make_experience
from safedsr.runs.job import Job
from safedsr.scenario.course import Course, Phase
from safedsr.scenario.diary import Diary
from safedsr.scenario.learners import (
    Learner,
    Place,
    enter,
    fixed_program,
    make_job,
    place_at,
    play,
    run_learner,
    tell,
    update_rate,
)
from safedsr.scenario.watch import CALIBRATION, Watch
from safedsr.types import PyTree, Rehearsal

LEVELS = ("cost", "penalty", "memory")
FULL = "full"
CERTIFICATE = CertificateConfig(episodes=500, require=0.97)
SPEND = ClimbConfig(updates=4_000)
QUICK_CERTIFICATE, QUICK_SPEND = CertificateConfig(episodes=64, require=0.97), ClimbConfig(updates=100)
PAUSE, MOST_ALARMS = 3, 10  # chunks between two alarms, and alarms of a phase


class Adaptive(NamedTuple):
    """An agent that adapts up to a level: cost, penalty, memory, full or auto."""

    learner: Learner
    level: str


class Climbed(NamedTuple):
    """An adapted agent and its level."""

    agent: Agent
    level: str


def run_adaptive(course: Course, one: Adaptive, seeds: tuple[int, ...], diary: Diary, place: Place, base: Any) -> None:
    """Run an adaptive agent through all phases, from its last save; `base` is the file of its first phase."""
    runner = Runner(course, one, seeds, diary, place)
    if place.path.exists():
        runner.state = diary.load(place.path, runner.program.state_shape())
    else:
        runner.state = first_phase(course, one.learner, seeds, diary, place, base)
    for phase in course.phases[1:]:
        if diary.step < phase.end:
            enter(runner.program, course, phase.number)
            enter(runner.fixed_program, course, phase.number)
            if course.silent:
                runner.watched(phase)
            else:
                runner.told(phase)
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


class Runner:
    """An adaptive agent in one scenario."""

    def __init__(self, course: Course, one: Adaptive, seeds: tuple[int, ...], diary: Diary, place: Place) -> None:
        self.course, self.level, self.diary, self.place = course, one.level, diary, place
        self.job: Job = make_job(course, one.learner, seeds, course.first)
        self.program, self.fixed_program = Program(self.job), fixed_program(self.job)
        self.certificate = dataclasses.replace(
            QUICK_CERTIFICATE if course.quick else CERTIFICATE, epsilon=self.job.agent.epsilon.epsilon_end
        )
        self.spend = QUICK_SPEND if course.quick else SPEND
        self.state: PyTree = None
        self._like: Agent | None = None
        self._updates = 0
        self._with_policy = jax.jit(partial(_with_policy, self.program.trainer))

    def agent(self, index: int, task: Task) -> Agent:
        """The agent of a seed, with what it remembers."""
        own, environment = self._own(index), self.job.environment
        trainer = self.program.trainer
        if self._like is None:
            self._like = Agent(self.job, trainer.policy(own), 0, self.job.seeds[index])
            counted = self._counted(self._like.trainer.adaptable.rehearse)  # type: ignore[union-attr]
            adaptable = self._like.trainer.adaptable._replace(rehearse=counted)  # type: ignore[union-attr]
            self._like = self._like.changed(trainer=self._like.trainer._replace(adaptable=adaptable))
        agent = self._like.changed(policy=trainer.policy(own), task=task, seed=self.job.seeds[index])
        assert trainer.memory
        steps = from_rows(*trainer.memory(own), environment.spec.codec)
        return agent.changed(experience=make_experience(steps, agent.features, environment, task.params))

    def _own(self, index: int) -> State:
        return jax.tree.map(lambda x: x[0, index], self.state.agent)

    def _counted(self, rehearse: Callable[..., Rehearsal]) -> Callable[..., Rehearsal]:
        """The function with its updates counted."""

        def counting(policy: PyTree, steps: Any, updates: int, *rest: Any) -> Rehearsal:
            found = rehearse(policy, steps, updates, *rest)

            def learn(state: PyTree, lam: Any, key: Any) -> PyTree:
                self._updates += -(-updates // len(found.keys))
                return found.learn(state, lam, key)

            return found._replace(learn=learn)

        return counting

    def told(self, phase: Phase) -> None:
        """Adapt every seed to an announced task, then act to the end of the phase."""
        before = self.course.phases[phase.number - 1].task
        done = {note["seed"] for note in self.diary.notes if note["phase"] == phase.number}
        for index, seed in enumerate(self.job.seeds):
            if seed not in done:
                agent = self.agent(index, before)
                climbed = self._spent(phase, index, lambda a=agent: self.climb(a, phase.task, phase.task))
                self._note(phase, index, climbed)
                self._replace(index, climbed.agent)
                self.place.keep(self.diary, self.state, self.course.steps)
        if self.diary.step == phase.start:
            self.state = tell(self.program, self.state)
        fixed = self.level in LEVELS
        self.diary.rate[phase.number] = 0.0 if fixed else update_rate(self.job.agent)
        program = self.fixed_program if fixed else self.program
        self.state = play(program, self.state, phase, self.diary, self.place, self.course.steps)

    def climb(self, agent: Agent, task: Task, trial: Task) -> Climbed:
        """Apply the levels one after another, in episodes of `trial`."""
        enough = min(self.certificate.require + MARGIN, 1.0)
        request = Request(task, task, trial, self.spend, self.certificate.epsilon, enough)
        last = LEVELS[-1] if self.level in (AUTO, FULL) else self.level
        found = []
        for name in LEVELS[: LEVELS.index(last) + 1]:
            agent = RUNGS[name](agent, request)
            if self.level == AUTO:
                found.append((certify_in(agent, trial, self.certificate), name, agent))
                if found[-1][0].passed and (agent.job.terms.goals or name == last):
                    break
        if not found:
            return Climbed(agent, last)
        _, name, agent = max(found, key=lambda each: each[0].rank)
        return Climbed(agent, name)

    def _spent(self, phase: Phase, index: int, work: Callable[[], Climbed]) -> Climbed:
        """Do some work of a seed and note what it takes."""
        walked, updates, began = dict(WALKED), self._updates, time.perf_counter()
        found = work()
        steps = {name: WALKED[name] - walked[name] for name in WALKED}
        stored = len(found.agent.experience.steps.action) if found.agent.experience else 0
        seconds = time.perf_counter() - began
        self.diary.spend(
            phase.number, index, seconds=seconds, updates=self._updates - updates, relabelled=stored, **steps
        )
        return found

    def _note(self, phase: Phase, index: int, climbed: Climbed) -> None:
        about = {"phase": phase.number, "seed": self.job.seeds[index], "step": self.diary.step}
        self.diary.notes.append({**about, "level": climbed.level})

    def _replace(self, index: int, agent: Agent) -> None:
        """Let a seed go on with the policy of an agent."""
        key = jax.random.key(self.diary.step + self.job.seeds[index])
        own = self._with_policy(self._own(index), agent.policy, key)
        agents = jax.tree.map(lambda every, new: every.at[0, index].set(new), self.state.agent, own)
        self.state = self.state._replace(agent=agents)

    def watched(self, phase: Phase) -> None:
        """Go on learning to the end of a phase, and adapt from memory whenever the costs seem to have changed."""
        task = phase.task._replace(params=self.course.phases[0].task.params)  # the agent is told the budgets alone
        watches = [self._watch(index, task) for index in range(len(self.job.seeds))]
        quiet = np.full(len(watches), PAUSE)
        alarms = np.zeros(len(watches), int)
        self.diary.rate[phase.number] = update_rate(self.job.agent)

        def after(state: PyTree, steps: int) -> PyTree:
            self.state = state
            for index, watch in enumerate(watches):
                quiet[index] += 1
                if watch.alarm(self._latest(index, steps)) and quiet[index] > PAUSE and alarms[index] < MOST_ALARMS:
                    climbed = self._spent(phase, index, lambda i=index, w=watch: self._relabel(i, w, task))
                    self._note(phase, index, climbed)
                    watches[index] = self._watch(index, task, known=watch)
                    quiet[index], alarms[index] = 0, alarms[index] + 1
            return self.state

        self.state = play(self.program, self.state, phase, self.diary, self.place, self.course.steps, after=after)

    def _watch(self, index: int, task: Task, known: Watch | None = None) -> Watch:
        """A new test of a seed, calibrated on its latest chunks; after an alarm on those since then."""
        chunks = [self._latest(index, self.job.chunk, skip=n) for n in range(CALIBRATION)]
        watch = Watch(self.agent(index, task), chunks[: max(len(known.fresh), 1)] if known else chunks)
        if known:
            watch.mean, watch.spread = max(watch.mean, known.mean), max(watch.spread, known.spread)
        return watch

    def _latest(self, index: int, count: int, skip: int = 0) -> Any:
        """The latest steps of a seed in its ring, without `skip` such chunks."""
        own, size = self.state.agent, self.state.agent.ring.shape[2]
        last = int(own.count[0, index]) - skip * count
        places = np.arange(max(last - count, 0), max(last, 1)) % size
        return from_rows(np.asarray(own.ring[0, index])[places], np.ones(len(places), bool), self._codec)

    @property
    def _codec(self) -> Any:
        return self.job.environment.spec.codec

    def _relabel(self, index: int, watch: Watch, task: Task) -> Climbed:
        """After an alarm: new weights, new labels for all stored steps, and an adaptation on walks through them."""
        watch.learn()
        own, fresh = self._own(index), sum(len(chunk.action) for chunk in watch.fresh)
        size = len(own.ring)
        newest = np.zeros(size, bool)
        newest[(int(own.count) - 1 - np.arange(min(fresh, size))) % size] = True  # these have their true costs
        ring = self._labelled(np.asarray(own.ring), watch, ~newest)
        own = own._replace(ring=jnp.asarray(ring))
        if own.reservoir is not None:
            rows = np.asarray(own.reservoir.rows)
            again = self._labelled(rows.reshape(-1, rows.shape[-1]), watch, None).reshape(rows.shape)
            own = own._replace(reservoir=own.reservoir._replace(rows=jnp.asarray(again)))
        agents = jax.tree.map(lambda every, new: every.at[0, index].set(new), self.state.agent, own)
        self.state = self.state._replace(agent=agents)
        agent = self.agent(index, task)
        agent = agent.changed(job=dataclasses.replace(agent.job, environment=as_labelled(agent.job.environment)))
        assert agent.experience
        steps = jax.tree.map(np.asarray, agent.experience.steps)
        trial = task._replace(params=remembered(steps, agent.job.environment.spec.actions))
        climbed = self.climb(agent, task, trial)
        self._replace(index, climbed.agent)
        return climbed

    def _labelled(self, rows: np.ndarray, watch: Watch, chosen: np.ndarray | None) -> np.ndarray:
        """Rows with the predicted costs."""
        steps = from_rows(rows, np.ones(len(rows), bool), self._codec)
        cost = watch.predict(steps.obs, np.asarray(steps.action)).astype(np.float32)
        cost = cost if chosen is None else np.where(chosen[:, None], cost, steps.cost)
        return np.asarray(self._codec.pack(jax.tree.map(jnp.asarray, steps._replace(cost=cost))))


_AS_LABELLED: dict[int, Any] = {}


def as_labelled(environment: Any) -> Any:
    """The environment whose stored steps keep their costs; the same object each time, as compiled functions need it."""
    if id(environment) not in _AS_LABELLED:
        _AS_LABELLED[id(environment)] = dataclasses.replace(environment, relabel=lambda t, params: t)
    return _AS_LABELLED[id(environment)]


def _with_policy(trainer: Any, own: State, policy: PyTree, key: Any) -> State:
    """The training state of a seed that continues from a policy and keeps its memory."""
    measure = None if policy.signals is None else Units(policy.signals.reward, policy.signals.cost)
    return own._replace(
        learner=trainer.adaptable.learner(policy.learner, key, measure),
        multiplier=multiplier.at(policy.lam),
        signals=policy.signals,
    )
