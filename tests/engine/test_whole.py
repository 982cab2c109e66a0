"""Whole lives of agents other than those of test_train: trained, killed, resumed, loaded, evaluated; bit for bit."""

import dataclasses
import json
import signal
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from test_train import assert_same_run, last_state
from tiny import GRID, same_trees, tiny_agent, tiny_task

from safedsr.agent import load, load_all
from safedsr.agents.registry import find_algorithm
from safedsr.engine.evaluate import evaluate
from safedsr.engine.train import resume, train
from safedsr.runs.config import TrainConfig
from safedsr.runs.folder import load_run
from safedsr.runs.job import Job, grid_job
from safedsr.runs.metrics import goal_count

pytestmark = pytest.mark.usefixtures("compile_quickly")
NAMES = ["ppo-lag", "safedsr-plus", *(pytest.param(name, marks=pytest.mark.slow) for name in ("trpo-pid", "cpo"))]
STEPS, CHUNK, KILLED = 400, 40, 240
MAP = "SCG\n..."
ON_POLICY: dict[str, Any] = {
    "steps_per_epoch": 40,
    "batch_size": 20,
    "update_iters": 3,
    "hidden": (8,),
    "target_kl": 0.1,
    "kl_reduce": "mean",
    "actor_lr": 0.02,
    "critic_lr": 0.02,
    "decay_steps": STEPS,
    "penalty_start": CHUNK,
    "damping": 0.01,
    "window": 5,
    "lam_lr": 0.5,
    "pid_kp": 1.0,
    "pid_ki": 0.5,
}
TRAIN = """
import json, sys
from safedsr.engine.train import train
from safedsr.runs.job import job_from_dict

def show(progress):
    print(progress.step, flush=True)
    if progress.step == int(sys.argv[3]):
        sys.stdin.readline()

train(job_from_dict(json.loads(sys.argv[1])), sys.argv[2], show)
"""


@cache
def job_of(name: str) -> Job:
    """Two seeds on a map of two roads, one of which costs; everything that can be learnt is learnt before and after."""
    if name == "safedsr-plus":
        agent = tiny_agent(name, train_start=CHUNK, sync_every=CHUNK)
    else:
        agent = dataclasses.replace(find_algorithm(name).default, **ON_POLICY)
    settings = TrainConfig(steps=STEPS, chunk=CHUNK, checkpoint_seconds=0, trajectories=CHUNK)
    return grid_job(name, (tiny_task(MAP),), (3, 4), agent, GRID, settings)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Gives the folder of a run that nothing interrupted."""
    return cache(lambda name: train(job_of(name), tmp_path_factory.mktemp(name) / "run"))


def train_and_kill(job: Job, folder) -> None:
    """Train in a process of its own, and kill it when it has taken some of its steps and not yet saved the last."""
    command = [sys.executable, "-c", TRAIN, json.dumps(job.to_dict()), str(folder), str(KILLED)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        while process.stdout.readline() not in (f"{KILLED}\n", ""):
            pass
        process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_run_ends_as_one_that_was_never_interrupted(name, straight, tmp_path):
    folder, expected = tmp_path / "run", straight(name)
    train_and_kill(job_of(name), folder)
    half, step = last_state(folder)
    assert step == KILLED - CHUNK and not (folder / "policy.json").exists()
    assert load_run(folder).episodes["end_step"].max() <= step
    resume(folder)
    assert_same_run(folder, expected)
    assert sorted(p.name for p in folder.rglob("*")) == sorted(p.name for p in expected.rglob("*"))
    whole = last_state(folder)[0]
    network = "agent/learner/successor/" if name == "safedsr-plus" else "agent/learner/nets/actor/"
    learnt = [path for path in half if path.startswith(network)]
    assert learnt and not any(np.array_equal(half[path], whole[path]) for path in learnt)  # it went on learning

    ours, theirs = load_all(folder), load_all(expected)
    assert ours.keys() == theirs.keys() == {(0, 3), (0, 4)}
    for place, agent in ours.items():
        assert same_trees((agent.policy, agent.experience), (theirs[place].policy, theirs[place].experience))
    assert load(folder).seed == load(expected).seed
    found, right = (evaluate(agents[0, 3], episodes=100, epsilon=0.3).to_dict() for agents in (ours, theirs))
    assert found == right and 0 < found["safe_goal_rate"]["value"] <= found["goal_rate"]["value"]


@pytest.mark.parametrize("name", NAMES)
def test_those_runs_do_what_can_go_wrong(name, straight):
    """They reach goals, pay costs, and λ moves where there is one: otherwise equality would say little."""
    run = load_run(straight(name))
    assert all(goal_count(episodes) > 3 and episodes.cost.any() for episodes in run.by_seed())
    assert len(np.unique(run.curves["lam_0"])) > (0 if name == "cpo" else 2)
