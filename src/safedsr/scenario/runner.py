"""An adaptive agent in one scenario: its training states, its adaptations, and what they take."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

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
from safedsr.runs.experience import from_rows, make_experience
from safedsr.runs.job import Job
from safedsr.scenario.clock import worked
from safedsr.scenario.contestants import FROM_MEMORY
from safedsr.scenario.course import Course, Phase
from safedsr.scenario.diary import Diary
from safedsr.scenario.guard import guarded, wrap
from safedsr.scenario.learners import Learner, fixed_program, make_job
from safedsr.scenario.place import Place
from safedsr.types import PyTree, Rehearsal

LEVELS = ("cost", "penalty", "memory")
CERTIFICATE = CertificateConfig(episodes=500, require=0.97)
SPEND = ClimbConfig(updates=4_000)
QUICK_CERTIFICATE, QUICK_SPEND = CertificateConfig(episodes=64, require=0.97), ClimbConfig(updates=100)


class Adaptive(NamedTuple):
    """An agent that adapts up to a level: cost, penalty, memory, full, auto, or from-memory, which is auto on walks."""

    learner: Learner
    level: str


class Climbed(NamedTuple):
    """An adapted agent, its level, and the safe share of its certificate, if it has one."""

    agent: Agent
    level: str
    share: float | None = None


class Runner:
    """An adaptive agent in one scenario."""

    def __init__(self, course: Course, one: Adaptive, seeds: tuple[int, ...], diary: Diary, place: Place) -> None:
        self.course, self.level, self.diary, self.place = course, one.level, diary, place
        self.job: Job = make_job(course, one.learner, seeds, course.first)
        self.guards = one.level == AUTO and not course.silent
        self.plain, self.fixed_program = Program(self.job), fixed_program(self.job)
        self.trainer = self.plain.trainer
        own = guarded(self.trainer, self.job.agent, self.job.environment.spec)
        self.program = Program(self.job, own) if self.guards else self.plain
        self.certificate = dataclasses.replace(
            QUICK_CERTIFICATE if course.quick else CERTIFICATE, epsilon=self.job.agent.epsilon.epsilon_end
        )
        self.spend = QUICK_SPEND if course.quick else SPEND
        self.state: PyTree = None
        self._updates = 0
        self._with_policy = jax.jit(functools.partial(_with_policy, self.trainer))

    def begin(self, state: PyTree) -> None:
        """Take over the state after the first phase."""
        self.state = state._replace(agent=wrap(self.trainer, state.agent)) if self.guards else state

    @property
    def agents(self) -> State:
        """The training states [1, S]."""
        return self.state.agent.own if self.guards else self.state.agent

    def put(self, agents: State) -> None:
        """Go on with these training states [1, S]."""
        self.state = self.state._replace(agent=self.state.agent._replace(own=agents) if self.guards else agents)

    def agent(self, index: int, task: Task) -> Agent:
        """The agent of a seed, with what it remembers."""
        own, environment, agent = self.own(index), self.job.environment, self.bare(index, task)
        assert self.trainer.memory
        steps = from_rows(*self.trainer.memory(own), environment.spec.codec)
        return agent.changed(experience=make_experience(steps, agent.features, environment, task.params))

    def bare(self, index: int, task: Task) -> Agent:
        """The agent of a seed, without a memory."""
        policy = self.policy_of(self.agents, index)
        return self.like.changed(policy=policy, task=task, seed=self.job.seeds[index])

    def policy_of(self, agents: State, index: int) -> PyTree:
        """The policy of a seed among the training states [1, S]."""
        return self.trainer.policy(jax.tree.map(lambda x: x[0, index], agents))

    @functools.cached_property
    def like(self) -> Agent:
        """An agent that all others are changed from, so that they share compiled functions; it counts updates."""
        like = Agent(self.job, self.policy_of(self.agents, 0), 0, self.job.seeds[0])
        adaptable = like.trainer.adaptable
        assert adaptable
        adaptable = adaptable._replace(rehearse=self._counted(adaptable.rehearse))
        return like.changed(trainer=like.trainer._replace(adaptable=adaptable))

    def own(self, index: int) -> State:
        """The training state of a seed."""
        return jax.tree.map(lambda x: x[0, index], self.agents)

    def _counted(self, rehearse: Callable[..., Rehearsal]) -> Callable[..., Rehearsal]:
        """The function with its updates counted."""

        def counting(policy: PyTree, steps: Any, updates: int, *rest: Any) -> Rehearsal:
            found = rehearse(policy, steps, updates, *rest)

            def learn(state: PyTree, lam: Any, key: Any) -> PyTree:
                self._updates += -(-updates // len(found.keys))
                return found.learn(state, lam, key)

            return found._replace(learn=learn)

        return counting

    def climb(self, agent: Agent, task: Task, trial: Task) -> Climbed:
        """Apply the levels one after another, in episodes of `trial`."""
        request = Request(task, task, trial, self.spend, self.certificate.epsilon, self.enough)
        certified_ones = self.level in (AUTO, FROM_MEMORY)
        last = self.level if self.level in LEVELS else LEVELS[-1]
        found = []
        for name in LEVELS[: LEVELS.index(last) + 1]:
            agent = RUNGS[name](agent, request)
            if certified_ones:
                found.append((certify_in(agent, trial, self.certificate), name, agent))
                if found[-1][0].passed and (agent.job.terms.goals or name == last):
                    break
        if not found:
            return Climbed(agent, last)
        certified, name, agent = max(found, key=lambda each: each[0].rank)
        return Climbed(agent, name, certified.safe_goal_rate.value)

    @property
    def enough(self) -> float:
        """The safe share of simulated episodes at which a search stops."""
        return min(self.certificate.require + MARGIN, 1.0)

    def spent(self, phase: Phase, index: int, work: Callable[[], Climbed]) -> Climbed:
        """Do some work of a seed and note what it takes."""
        walked, updates, began = dict(WALKED), self._updates, worked()
        found = work()
        steps = {name: WALKED[name] - walked[name] for name in WALKED}
        stored = len(found.agent.experience.steps.action) if found.agent.experience else 0
        seconds = worked() - began
        self.diary.spend(
            phase.number, index, seconds=seconds, updates=self._updates - updates, relabelled=stored, **steps
        )
        return found

    def note(self, phase: Phase, index: int, climbed: Climbed, *, alarm: bool = False) -> None:
        """Note the level of an adaptation, and whether it followed an alarm."""
        about = {"phase": phase.number, "seed": self.job.seeds[index], "step": self.diary.step, "alarm": alarm}
        self.diary.notes.append({**about, "level": climbed.level, "certified": climbed.share})

    def take(self, index: int, climbed: Climbed) -> None:
        """Let a seed go on with the policy of an adapted agent."""
        key = jax.random.key(self.diary.step + self.job.seeds[index])
        own = self._with_policy(self.own(index), climbed.agent.policy, key)
        self.put(jax.tree.map(lambda every, new: every.at[0, index].set(new), self.agents, own))
        if self.guards:
            self.let_act(index, climbed.agent, climbed.share or 0.0)

    def let_act(self, index: int, agent: Agent, share: float) -> None:
        """Let a policy act for a seed; where there are goals, only if the required share of its episodes was safe.

        A policy that seldom reaches the goal shows the learner little, so the learner itself acts then.
        """
        now, acts = self.state.agent, not self.job.terms.goals or share >= self.certificate.require
        policy = jax.tree.map(lambda every, new: every.at[0, index].set(new), now.policy, agent.policy)
        self.state = self.state._replace(agent=now._replace(policy=policy, acts=now.acts.at[0, index].set(acts)))


def _with_policy(trainer: Any, own: State, policy: PyTree, key: Any) -> State:
    """The training state of a seed that continues from a policy and keeps its memory."""
    measure = None if policy.signals is None else Units(policy.signals.reward, policy.signals.cost)
    return own._replace(
        learner=trainer.adaptable.learner(policy.learner, key, measure),
        multiplier=multiplier.at(policy.lam),
        signals=policy.signals,
    )
