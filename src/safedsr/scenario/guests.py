"""Algorithms of others: a function that is called with a `World` and takes steps in it until the end.

    def entry(world):                                    # safedsr scenario run FILE my.py:entry
        rng, obs = np.random.default_rng(world.seed), world.reset()
        while not world.over:
            for task in world.news():                    # announced changes: budgets and parameters
                …
            obs, reward, costs, ended = world.step(rng.integers(world.actions))
            if ended:
                obs = world.reset()

The world counts the steps, changes the task at its times and records the episodes: a guest cannot report anything
itself, but for what it spent (`world.spend`), and cannot leave an episode before its end.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import Array

from safedsr.envs import episode as episodes
from safedsr.envs.environment import Environment, Task
from safedsr.envs.functions import load_from_file
from safedsr.errors import EnvironmentFailed, UserError
from safedsr.runs.metrics import Episodes
from safedsr.scenario.clock import worked
from safedsr.scenario.course import Course
from safedsr.scenario.diary import SPENT, Diary
from safedsr.types import PyTree
from safedsr.validation import require


class World:
    """A scenario as a guest sees it."""

    def __init__(self, course: Course, seed: int, diary: Diary, index: int) -> None:
        self.seed = seed
        self.actions = course.environment.spec.actions
        self.observations = course.environment.spec.observations
        self.steps = course.steps  # of the whole scenario
        self._course, self._diary, self._index = course, diary, index
        self._reset, self._step = _compiled(course.environment)
        self._phase, self._now, self._key = 0, 0, jax.random.key(seed)
        self._news: list[Task] = [course.phases[0].task]
        self._rows: list[tuple[Any, ...]] = []
        self._episode: Any = None

    @property
    def over(self) -> bool:
        """Whether all steps are taken."""
        return self._now >= self.steps

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets of now, which are always known."""
        return self._task.budgets

    @property
    def _task(self) -> Task:
        return self._course.phases[self._phase].task

    def news(self) -> list[Task]:
        """The tasks that were announced since the last call; the first is that of the start."""
        found, self._news = self._news, []
        return found

    def cost_of(self, task: Task, transition: Any) -> np.ndarray:
        """The costs [J] of a stored step (a `safedsr.types.Transition`) under an announced task."""
        relabel = self._course.environment.relabel
        assert relabel
        return np.asarray(relabel(transition, task.params).cost)

    def reset(self) -> np.ndarray:
        """Begin an episode, when the one before has ended; returns its first observation."""
        if self._episode is not None:
            raise UserError("an episode is running: call reset() only after step() has returned that it has ended")
        self._episode = self._reset(self._key, self._now, self._task.params)
        return np.asarray(self._episode.obs)

    def step(self, action: Any) -> tuple[np.ndarray, float, np.ndarray, bool]:
        """Take an action; returns observation, reward, costs [J] and whether the episode has ended."""
        if self.over or self._episode is None:
            raise UserError("no episode is running: call reset() first, and end when over is true")
        if not 0 <= int(action) < self.actions:
            raise UserError(f"action is {action}; give a number from 0 to {self.actions - 1}")
        before = self._episode
        self._episode, moment = self._step(self._key, self._now, before, np.int32(action), self._task.params)
        moment = jax.device_get(moment)
        self._now += 1
        if done := bool(moment.done):
            success = bool(moment.step.success)
            self._rows.append((self._now, int(moment.time), float(moment.ret), np.asarray(moment.cost), success))
        if self._now == self._course.phases[self._phase].end and not self.over:
            self._phase += 1
            if self._course.phases[self._phase].announced:
                self._news.append(self._task)
        if done:
            self._episode = None
        return np.asarray(moment.step.obs), float(moment.step.reward), np.asarray(moment.step.cost), done

    def spend(self, **amounts: float) -> None:
        """Account for what was not a step here: updates, simulated_steps, memory_steps, relabelled, seconds."""
        for name, amount in amounts.items():
            if name not in SPENT:
                raise UserError(f"'{name}' is no account; possible: {', '.join(SPENT)}")
            require(0 <= amount < math.inf, name, amount, "give a number of at least 0")
        self._diary.spend(self._phase, self._index, step=self._now, **amounts)

    def finish(self) -> Episodes:
        """The recorded episodes."""
        count = self._course.environment.spec.costs
        columns = list(zip(*self._rows, strict=True)) or [(), (), (), np.zeros((0, count)), ()]
        kinds = (np.int64, np.int32, np.float32, np.float32, bool)
        return Episodes(*(np.asarray(column, kind) for column, kind in zip(columns, kinds, strict=True)))


@functools.cache
def _compiled(environment: Environment) -> tuple[Any, Any]:
    """Functions for the start of an episode and for a step; each has random numbers of its own at every time."""

    def start(key: Array, now: Array, params: PyTree) -> Any:
        return episodes.start(environment, jax.random.fold_in(key, 2 * now), params)

    def step(key: Array, now: Array, episode: Any, action: Array, params: PyTree) -> Any:
        return episodes.step(environment, jax.random.fold_in(key, 2 * now + 1), episode, action, params)

    return jax.jit(start), jax.jit(step)


def run_guest(course: Course, path: str, seeds: tuple[int, ...], diary: Diary) -> None:
    """Run somebody else's function for every seed."""
    entry: Callable[[World], object] = load_from_file(path)[0]
    for index, seed in enumerate(seeds):
        world, began = World(course, seed, diary, index), worked()
        try:
            entry(world)
        except UserError:
            raise
        except Exception as error:
            raise EnvironmentFailed(f"{path} raised {type(error).__name__}: {error}") from error
        if not world.over:
            raise EnvironmentFailed(
                f"{path} ended before the {course.steps} steps of the scenario; go on while not over"
            )
        diary.add_episodes(seed, world.finish())
        for phase in course.phases:
            diary.paces[phase.number].append((worked() - began) / course.steps)
    diary.step = course.steps
