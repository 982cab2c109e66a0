"""The demonstration, reduced once more: a quarter of the training, fewer episodes, fewer updates."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tiny import same_trees

from safedsr import demo
from safedsr.agent import load
from safedsr.core.config import EpsilonSchedule
from safedsr.runs import storage
from safedsr.runs.config import TrainConfig

SEED, STEPS = 1, 8_000
TITLES = ["as trained", "obstacle moved", "new cost weights", "new λ, M from memory"]


class Watched(NamedTuple):
    """A demonstration, the steps at which it told of its training, and the agent it loaded."""

    found: demo.Demo
    steps: list[int]
    agent: demo.Agent


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def run(out):
    """Runs the reduced demonstration; what it is given stands for functions of its module."""

    def run_demo(**stubs) -> Watched:
        steps, loaded = [], []
        reduced = {
            "CONFIG": dataclasses.replace(demo.CONFIG, epsilon=EpsilonSchedule(epsilon_from=1_000, epsilon_to=4_000)),
            "TRAINING": TrainConfig(steps=STEPS, chunk=500),
            "EPISODES": 200,
            "UPDATES": 500,
            "ENOUGH": 0.8,
            "load": lambda folder: loaded.append(load(folder)) or loaded[-1],
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**reduced, **stubs}.items():
                patch.setattr(demo, name, value)
            found = demo.run_demo(out, SEED, lambda progress: steps.append(progress.step))
        return Watched(found, steps, loaded[-1])

    return run_demo


@pytest.fixture(scope="module")
def first(run) -> Watched:
    return run()


def test_the_rows_tell_the_story_in_its_order(first):
    rows = first.found.rows
    assert [row.title for row in rows] == TITLES
    trained, moved, _, adapted = (row.found.safe_goal_rate.value for row in rows)
    assert all(row.found.episodes == 200 and len(row.paths) == 9 for row in rows)
    assert trained > 0.9 and moved < trained - 0.2  # it knows its way, and the obstacle comes into it
    assert adapted >= moved + 0.2  # and is avoided again


def test_the_obstacle_is_the_same_and_elsewhere(first):
    home, *moved = (np.asarray(row.scene.layout.costs) for row in first.found.rows)
    assert all(np.array_equal(costs, moved[0]) for costs in moved) and not np.array_equal(home, moved[0])
    assert any(np.array_equal(np.roll(home, shift, axis=1), moved[0]) for shift in (-demo.SHIFT, demo.SHIFT))


def test_the_picture_is_there_and_times_are_told(first, out):
    assert first.found.picture == out / f"adapt-{SEED}.png"
    assert first.found.picture.read_bytes().startswith(b"\x89PNG")
    assert first.found.fit_seconds > 0 and first.found.learn_seconds > 0


def test_the_agent_is_the_one_that_was_trained(first, out):
    """Its last state, and not an earlier one: M of the policy is that of the last checkpoint."""
    folder = out / f"run-{SEED}"
    assert first.steps[-1] == STEPS and first.steps == sorted(first.steps)
    assert first.agent.seed == SEED and first.agent.job.train.steps == STEPS
    kept = load(folder, seed=SEED)
    assert same_trees((first.agent.policy, first.agent.experience), (kept.policy, kept.experience))
    (state,) = (folder / "checkpoint").glob(f"state-{STEPS:012d}.safetensors")
    weights = storage.read_tensors(state)[0]["agent/learner/successor/last/weight"][0, 0]
    np.testing.assert_array_equal(first.agent.policy.learner.successor.last.weight, weights)


def test_a_second_time_nothing_is_trained_again(first, run, out):
    policy = out / f"run-{SEED}" / "policy.safetensors"
    before = storage.read_tensors(policy)[0]

    def not_again(*args, **settings):
        raise AssertionError("a finished training is used again")

    again = run(
        search_penalty=lambda agent, *given: (agent, None),
        learn_from_memory=lambda agent, *given: (agent, None),
        train=type("Train", (), {"train": staticmethod(not_again), "resume": staticmethod(demo.train.resume)}),
    )
    assert again.steps == [] and same_trees(again.agent.policy, first.agent.policy)
    assert same_trees(storage.read_tensors(policy)[0], before)
    rates = [[row.found.safe_goal_rate for row in shown.found.rows[:3]] for shown in (again, first)]
    assert rates[0] == rates[1]
