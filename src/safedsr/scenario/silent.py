"""Changes that nobody announces: the agent watches its costs, and after an alarm it adapts from its memory alone."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.envs.environment import Task
from safedsr.envs.memory import remembered
from safedsr.runs.experience import from_rows
from safedsr.scenario.course import Phase
from safedsr.scenario.learners import play, update_rate
from safedsr.scenario.runner import Climbed, Runner
from safedsr.scenario.watch import CALIBRATION, Watch
from safedsr.types import PyTree

PAUSE, MOST_ALARMS = 3, 10  # chunks between two alarms, and alarms of a phase


def watched(runner: Runner, phase: Phase) -> None:
    """Go on learning to the end of a phase, and adapt from memory whenever the costs seem to have changed."""
    task = phase.task._replace(params=runner.course.phases[0].task.params)  # the agent is told the budgets alone
    watches = [_watch(runner, index, task) for index in range(len(runner.job.seeds))]
    quiet = np.full(len(watches), PAUSE)
    alarms = np.zeros(len(watches), int)
    runner.diary.rate[phase.number] = update_rate(runner.job.agent)

    def after(state: PyTree, steps: int) -> PyTree:
        runner.state = state
        for index, watch in enumerate(watches):
            quiet[index] += 1
            if watch.alarm(_latest(runner, index, steps)) and quiet[index] > PAUSE and alarms[index] < MOST_ALARMS:
                climbed = runner.spent(phase, index, lambda i=index, w=watch: _relabel(runner, i, w, task))
                runner.note(phase, index, climbed)
                watches[index] = _watch(runner, index, task, known=watch)
                quiet[index], alarms[index] = 0, alarms[index] + 1
        return runner.state

    runner.state = play(
        runner.program, runner.state, phase, runner.diary, runner.place, runner.course.steps, after=after
    )


def _watch(runner: Runner, index: int, task: Task, known: Watch | None = None) -> Watch:
    """A new test of a seed, calibrated on its latest chunks; after an alarm on those since then."""
    chunks = [_latest(runner, index, runner.job.chunk, skip=n) for n in range(CALIBRATION)]
    watch = Watch(runner.agent(index, task), chunks[: max(len(known.fresh), 1)] if known else chunks)
    if known:
        watch.mean, watch.spread = max(watch.mean, known.mean), max(watch.spread, known.spread)
    return watch


def _latest(runner: Runner, index: int, count: int, skip: int = 0) -> Any:
    """The latest steps of a seed in its ring, without `skip` such chunks."""
    own, size = runner.agents, runner.agents.ring.shape[2]
    last = int(own.count[0, index]) - skip * count
    places = np.arange(max(last - count, 0), max(last, 1)) % size
    return from_rows(np.asarray(own.ring[0, index])[places], np.ones(len(places), bool), _codec(runner))


def _codec(runner: Runner) -> Any:
    return runner.job.environment.spec.codec


def _relabel(runner: Runner, index: int, watch: Watch, task: Task) -> Climbed:
    """After an alarm: new weights, new labels for all stored steps, and an adaptation on walks through them."""
    watch.learn()
    own, fresh = runner.own(index), sum(len(chunk.action) for chunk in watch.fresh)
    size = len(own.ring)
    newest = np.zeros(size, bool)
    newest[(int(own.count) - 1 - np.arange(min(fresh, size))) % size] = True  # these have their true costs
    ring = _labelled(runner, np.asarray(own.ring), watch, ~newest)
    own = own._replace(ring=jnp.asarray(ring))
    if own.reservoir is not None:
        rows = np.asarray(own.reservoir.rows)
        again = _labelled(runner, rows.reshape(-1, rows.shape[-1]), watch, None).reshape(rows.shape)
        own = own._replace(reservoir=own.reservoir._replace(rows=jnp.asarray(again)))
    runner.put(jax.tree.map(lambda every, new: every.at[0, index].set(new), runner.agents, own))
    agent = runner.agent(index, task)
    agent = agent.changed(job=dataclasses.replace(agent.job, environment=as_labelled(agent.job.environment)))
    assert agent.experience
    steps = jax.tree.map(np.asarray, agent.experience.steps)
    trial = task._replace(params=remembered(steps, agent.job.environment.spec.actions))
    climbed = runner.climb(agent, task, trial)
    runner.take(index, climbed)
    return climbed


def _labelled(runner: Runner, rows: np.ndarray, watch: Watch, chosen: np.ndarray | None) -> np.ndarray:
    """Rows with the predicted costs."""
    steps = from_rows(rows, np.ones(len(rows), bool), _codec(runner))
    cost = watch.predict(steps.obs, np.asarray(steps.action)).astype(np.float32)
    cost = cost if chosen is None else np.where(chosen[:, None], cost, steps.cost)
    return np.asarray(_codec(runner).pack(jax.tree.map(jnp.asarray, steps._replace(cost=cost))))


_AS_LABELLED: dict[int, Any] = {}


def as_labelled(environment: Any) -> Any:
    """The environment whose stored steps keep their costs; the same object each time, as compiled functions need it."""
    if id(environment) not in _AS_LABELLED:
        _AS_LABELLED[id(environment)] = dataclasses.replace(environment, relabel=lambda t, params: t)
    return _AS_LABELLED[id(environment)]
