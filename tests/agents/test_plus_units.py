"""SafeDSR-plus learns the same in other units, and without a map."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import GRID, tiny_agent, tiny_job

from safedsr.agents.plus.groups import groups_of, grow, nearest_point
from safedsr.engine.program import Program
from safedsr.envs.environment import Spec
from safedsr.runs.job import Job, grid_job

# Compiled as users compile: which products and sums are rounded together, and so the last bit, depends on it.


def run(job: Job, steps: int = 160):
    """The state after a training, and its records."""
    program = Program(job)
    state, found = program.init(), []
    for step in range(0, steps, 20):
        state, records, _ = program.advance(state, step, 20)
        found.append(records)
    return state, jax.tree.map(lambda *parts: np.concatenate(parts, 2), *found)


def in_other_units(job: Job, reward: float, cost: float) -> Job:
    """The same problem with rewards and costs in other units."""
    grid = replace(GRID, step_reward=reward * GRID.step_reward, goal_reward=reward * GRID.goal_reward)
    tasks = [
        task._replace(
            params=task.params._replace(costs=cost * np.asarray(task.params.costs)),
            budgets=tuple(cost * budget for budget in task.budgets),
        )
        for task in job.tasks
    ]
    return grid_job(job.algorithm, tasks, job.seeds, job.agent, grid, job.train)


@functools.cache
def usual(points: int | None):
    """A job, with cells or with points as codes, and its training."""
    chosen = {} if points is None else {"own_groups": False, "points": points}
    job = replace(tiny_job("safedsr-plus", seeds=(0,)), agent=tiny_agent("safedsr-plus", **chosen))
    return job, run(job)


@pytest.mark.parametrize(
    ("points", "reward", "cost"),
    [pytest.param(None, 1.0, 1024.0, marks=pytest.mark.slow), (None, 8.0, 0.125), (6, 0.25, 16.0)],
)
def test_powers_of_two_give_the_same_agent_bit_for_bit(points, reward, cost):
    job, (one, walked) = usual(points)
    other, same = run(in_other_units(job, reward, cost))
    np.testing.assert_array_equal(walked.obs, same.obs)
    np.testing.assert_array_equal(walked.done, same.done)
    for name in ("successor", "target", "phi"):
        for a, b in zip(*(jax.tree.leaves(getattr(s.agent.learner, name)) for s in (one, other)), strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(other.agent.multiplier.lam, reward / cost * one.agent.multiplier.lam)
    np.testing.assert_array_equal(other.agent.learner.weights.w_r, reward * one.agent.learner.weights.w_r)


def test_the_points_spread_over_what_was_seen():
    """Points fill up first; then a far observation takes the place of one of the closest pair, a near one does not."""
    groups = nearest_point(Spec(observations=1, actions=2, costs=0, low=(0.0,), high=(10.0,)), 3, 1)
    frame = groups.frame(None)
    for value in (1.0, 2.0, 9.0):
        frame, new = grow(frame, jnp.array([[value]]))
        assert new.sum() == 1
    frame, new = grow(frame, jnp.array([[8.5]]))
    assert not new.any()
    frame, new = grow(frame, jnp.array([[2.1], [5.0]]))
    assert new.sum() == 1 and sorted(np.asarray(10 * frame.points[:, 0]).round(3)) in ([1, 5, 9], [2, 5, 9])
    assert int(groups.index(frame, jnp.array([8.0]))) == int(np.argmax(np.asarray(frame.points)))


def test_a_code_that_moves_forgets_its_steps():
    job, (state, _) = usual(6)
    reservoir, frame = state.agent.reservoir, state.agent.learner.frame
    groups = groups_of(job.environment, job.agent)
    kept = np.asarray(reservoir.rows[0, 0, 0]), np.asarray(reservoir.seen[0, 0, 0])
    own = jax.tree.map(lambda x: x[0, 0], frame)
    for code, (rows, seen) in enumerate(zip(*kept, strict=True)):
        steps = job.environment.spec.codec.unpack(jnp.asarray(rows[: min(int(seen), len(rows))]))
        found = [int(groups.index(own, obs)) for obs in steps.next_obs]
        assert found.count(code) >= len(found) / 2  # neighbours may have come later


def test_inputs_without_waves_are_centred_and_codes_stay_the_same():
    spec = Spec(observations=2, actions=2, costs=0, low=(0.0, -3.0), high=(10.0, 3.0))
    corners = jnp.array([[0.0, -3.0], [5.0, 0.0], [10.0, 3.0]])
    seen, codes = jax.random.uniform(jax.random.key(0), (20, 4, 2), maxval=3.0), {}
    for octaves, wanted in ((0, [-1.0, 0.0, 1.0]), (3, [0.0, 0.5, 1.0])):
        groups = nearest_point(spec, 5, octaves)
        frame = groups.frame(None)
        for some in seen:
            frame, _ = grow(frame, some)
        inputs = jax.vmap(lambda obs, f=frame, g=groups: g.scaled(f, obs))(corners)
        np.testing.assert_allclose(inputs, np.repeat(wanted, 2).reshape(3, 2), atol=1e-6)
        codes[octaves] = [int(groups.index(frame, obs)) for obs in seen.reshape(-1, 2)]
    assert codes[0] == codes[3] and len(set(codes[0])) == 5
