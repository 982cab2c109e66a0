"""Changes that nobody announces: the agent watches its costs, and after an alarm it adapts from its memory alone.

The watch begins at a time that depends on the length of the first phase alone, and goes on to the end. It is never told
where a phase begins; an alarm before the first change is a false one, and the agent adapts after it as after any other.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.adapt.walks import through
from safedsr.agents.value_based.trainer import State
from safedsr.envs.environment import Task
from safedsr.runs import arrays as trees
from safedsr.runs.experience import FIT_STEPS, from_rows
from safedsr.scenario import watch as tests
from safedsr.scenario.course import Phase
from safedsr.scenario.runner import Climbed, Runner
from safedsr.scenario.watch import CALIBRATION, Chunk, Watch
from safedsr.types import PyTree, Transition

BEGINS = 0.75  # of the first phase
PAUSE, MOST_ALARMS = 3, 20  # chunks between two alarms, and alarms of a run


def watch_start(first: int, unit: int) -> int:
    """The step at which the watch begins, in a first phase of so many steps; a multiple of `unit`."""
    return max(int(first * BEGINS) // unit, 1) * unit


class Sentry:
    """The sequential tests of all seeds of a run; what they know is in its diary, and so is saved with it."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        shape = jax.eval_shape(lambda agents: runner.policy_of(agents, 0), runner.agents)
        self._policies: list[PyTree] = [None] * len(runner.job.seeds)  # whose φ predicts
        for index, own in enumerate(runner.diary.own):
            if own:
                saved = {name.removeprefix("policy/"): x for name, x in own.items() if name.startswith("policy/")}
                self._policies[index] = trees.from_arrays(shape, saved, "the watch")

    def renew(self, index: int, phase: Phase, known: Watch | None = None) -> None:
        """Begin the test of a seed anew, with its φ of now; after an alarm, only the steps since then are usual."""
        runner, own = self.runner, self.runner.diary.own[index]
        agent = runner.agent(index, runner.course.known(phase.number))
        assert agent.experience
        self._policies[index] = agent.policy
        steps = jax.tree.map(lambda x: x[:FIT_STEPS], agent.experience.steps)
        count = max(known.fresh // runner.job.chunk, 1) if known else CALIBRATION
        there = max(int(runner.agents.count[0, index]) // runner.job.chunk, 1)
        chunks = [self._chunk(index, runner.job.chunk, skip=n) for n in range(min(count, there))]
        test = tests.begin(*self._seen(index, steps), chunks, known)
        alarms = int(own.get("alarms", 0)) + (known is not None)
        policy = {f"policy/{name}": x for name, x in trees.to_arrays(agent.policy).items()}
        quiet = np.asarray(0 if known else PAUSE)
        runner.diary.own[index] = {**policy, **tests.to_arrays(test), "quiet": quiet, "alarms": np.asarray(alarms)}

    def after(self, phase: Phase, state: PyTree, steps: int) -> PyTree:
        """Look at one more chunk of every seed, and adapt those that give an alarm; the phase is for accounts only."""
        runner = self.runner
        runner.state = state
        for index, own in enumerate(runner.diary.own):
            test = tests.after(tests.from_arrays(own), self._chunk(index, steps))
            quiet = int(own["quiet"]) + 1
            own |= {**tests.to_arrays(test), "quiet": np.asarray(quiet)}
            if tests.alarmed(test) and quiet > PAUSE and own["alarms"] < MOST_ALARMS:
                climbed = runner.spent(phase, index, lambda i=index, t=test: self._relabel(i, t, phase))
                runner.note(phase, index, climbed, alarm=True)
                self.renew(index, phase, known=test)
        return runner.state

    def _chunk(self, index: int, count: int, skip: int = 0) -> Chunk:
        """φ and costs of the latest steps of a seed, without `skip` such chunks."""
        return self._seen(index, _latest(self.runner, index, count, skip))

    def _seen(self, index: int, steps: Transition) -> Chunk:
        agent = self.runner.like.changed(policy=self._policies[index])
        return agent.features(steps.obs, steps.action), np.asarray(steps.cost)

    def _relabel(self, index: int, test: Watch, phase: Phase) -> Climbed:
        """After an alarm: new weights, new labels for all stored steps, and an adaptation on walks through them."""
        runner = self.runner
        weights = tests.learn(test, self._chunk(index, test.fresh))
        own = runner.own(index)
        size = len(own.ring)
        newest = np.zeros(size, bool)
        newest[(int(own.count) - 1 - np.arange(min(test.fresh, size))) % size] = True  # these have their true costs
        own = own._replace(ring=jnp.asarray(self._labelled(index, np.asarray(own.ring), weights, ~newest)))
        if own.reservoir is not None:
            rows = np.asarray(own.reservoir.rows)
            again = self._labelled(index, rows.reshape(-1, rows.shape[-1]), weights, None).reshape(rows.shape)
            own = own._replace(reservoir=own.reservoir._replace(rows=jnp.asarray(again)))
        runner.put(jax.tree.map(lambda every, new: every.at[0, index].set(new), runner.agents, own))
        agent = labelled_agent(runner, index, runner.course.known(phase.number))
        climbed = runner.climb(agent, agent.task, through(agent, agent.task, agent.experience.steps))
        runner.take(index, climbed)
        return climbed

    def _labelled(self, index: int, rows: np.ndarray, weights: np.ndarray, chosen: np.ndarray | None) -> np.ndarray:
        """Rows with the predicted costs."""
        codec = self.runner.job.environment.spec.codec
        steps = from_rows(rows, np.ones(len(rows), bool), codec)
        cost = tests.predict(weights, self._seen(index, steps)[0]).astype(np.float32)
        cost = cost if chosen is None else np.where(chosen[:, None], cost, steps.cost)
        return np.asarray(codec.pack(jax.tree.map(jnp.asarray, steps._replace(cost=cost))))


def _latest(runner: Runner, index: int, count: int, skip: int) -> Transition:
    """The latest steps of a seed in its ring; only these rows leave the device."""
    agents: State = runner.agents
    size, last = agents.ring.shape[2], int(agents.count[0, index]) - skip * count
    places = np.arange(max(last - min(count, size), 0), max(last, 1)) % size
    return from_rows(agents.ring[0, index, places], np.ones(len(places), bool), runner.job.environment.spec.codec)


def labelled_agent(runner: Runner, index: int, task: Task) -> Any:
    """The agent of a seed, whose stored steps keep their costs in whatever task; it has learnt from other costs."""
    agent = runner.agent(index, task)
    job = dataclasses.replace(agent.job, environment=as_labelled(agent.job.environment))
    return agent.changed(job=job, knows_costs=False)


_AS_LABELLED: dict[int, Any] = {}


def as_labelled(environment: Any) -> Any:
    """The environment whose stored steps keep their costs; the same object each time, as compiled functions need it."""
    if id(environment) not in _AS_LABELLED:
        _AS_LABELLED[id(environment)] = dataclasses.replace(environment, relabel=lambda t, params: t)
    return _AS_LABELLED[id(environment)]
