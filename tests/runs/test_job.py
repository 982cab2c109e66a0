import dataclasses
import json

import pytest
from stairs import make_stairs, stairs_job
from tiny import tiny_agent, tiny_job, tiny_task

from safedsr.agents.registry import find_algorithm
from safedsr.core.config import MultiplierConfig
from safedsr.envs.grid.environment import scene_of
from safedsr.errors import UserError
from safedsr.runs.job import job_from_dict, tasks_for


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"freeze": 0}, "freeze is 0; φ trains from 20 on; freeze later"),
        ({"freeze": 70}, "freeze is 70; give a multiple of 20"),
        ({"buffer_size": 5}, "buffer_size is 5; it must hold a batch of 8"),
        ({"buffer_size": 42}, r"buffer_size is 42; give a multiple of train_every \(5\)"),
        ({"sync_every": 12}, r"sync_every is 12; give a multiple of train_every \(5\)"),
        ({"train_start": 0}, "train_start is 0; collect at least 20 steps"),
        ({"train_start": 30}, r"train_start is 30; give a multiple of sync_every \(20\)"),
        ({"gamma": 1.0}, "gamma is 1.0; give a value of at least 0 and below 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; give a value above 0"),
        ({"biased_share": 1.0}, "biased_share is 1.0"),
        ({"steps": 150}, r"steps is 150; give a multiple of the chunk \(20\)"),
        ({"chunk": 10}, "chunk is 10; give a multiple of 20, the period of safedsr"),
        ({"trajectories": 200}, "trajectories is 200; give at most the steps"),
        ({"seeds": ()}, "seeds is 0; train at least one"),
        ({"seeds": (1, 1)}, r"seeds is \(1, 1\); give each seed once"),
        ({"seeds": (-1,)}, r"seeds is \(-1,\); give numbers from 0 to"),
        ({"seeds": (2**32,)}, r"seeds is \(4294967296,\); give numbers from 0 to"),
        ({"steps": 50, "chunk": None}, "steps is 50; give a multiple of 20, the period of safedsr"),
        ({"terminal": "absorbing"}, "terminal is 'absorbing'; possible: cut, .*, absorb; did you mean 'absorb'"),
        ({"batch_size": 8.5}, "batch_size is 8.5; give a whole number"),
        ({"beta_r": float("nan")}, "beta_r is nan; give a finite number"),
        ({"phi_hidden": (8, 0)}, r"phi_hidden is \(8, 0\); give whole numbers of at least 1"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(UserError, match=f"^{message}"):
        tiny_job("safedsr", **settings)


ONE = tiny_task()
TWO = tiny_task("SAB.G\n\nA = fire 1\nB = water 2\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "safe-dsr"}, "unknown algorithm 'safe-dsr'; did you mean 'safedsr'?"),
        ({"algorithm": "safedsr"}, "agent is 'SafeDqnConfig'; give an object of type SafeDsrConfig"),
        ({"tasks": ()}, "tasks is 0; give at least one"),
        ({"tasks": (ONE, TWO)}, "costs is [1, 2]; all tasks of a job need equally many costs"),
        ({"tasks": (ONE._replace(budgets=(1.0, 2.0)),)}, "budgets is (1.0, 2.0); corridor has 1 costs"),
        ({"tasks": (ONE._replace(budgets=()),)}, "budgets is (); corridor has 1 costs: give one each"),
        ({"algorithm": "dqn"}, "costs is [1]; dqn takes none"),
        ({"agent": tiny_agent("safedqn", multiplier=MultiplierConfig(aim=(1, 2)))}, "aim is (1, 2); give one or 1"),
    ],
)
def test_impossible_jobs_are_named(changes, message):
    with pytest.raises(UserError) as error:
        dataclasses.replace(tiny_job("safedqn"), **changes)
    assert str(error.value).startswith(message)


def test_budgets_for_costs_that_do_not_exist(write_map):
    path = write_map("S.C.G", "yard.txt")
    (environment,) = tasks_for("safedqn", [path], budget="2.5")
    assert environment.budgets == (2.5,) and environment.title == "yard, cost"
    with pytest.raises(
        UserError, match=r"^budget is '1,2'; there are 1 costs: give one number for all, or one for each"
    ):
        tasks_for("safedqn", [path], budget="1,2")
    with pytest.raises(UserError, match=r"^layout 'bare' has no costs and safedqn needs some; give --costs"):
        tasks_for("safedqn", [write_map("S..G", "bare.txt")])
    with pytest.raises(UserError, match=r"^budget is '1'; dqn takes none"):
        tasks_for("dqn", [path], budget="1")


def test_every_layout_meets_every_choice_of_costs():
    found = tasks_for("safedsr", ["one-room", "two-rooms"], ["diamond", "none"], "5")
    assert [e.title for e in found] == [
        "one-room, diamond",
        "one-room, none",
        "two-rooms, diamond",
        "two-rooms, none",
    ]
    assert {e.budgets for e in found} == {(5.0,)}
    (bare,) = tasks_for("dsr", ["one-room"])
    assert bare.budgets == () and scene_of(bare).layout.costs.shape == (0, 11, 11)


@pytest.mark.parametrize("name", ["safedqn", "safedsr"])
def test_a_job_survives_being_written_down(name):
    job = tiny_job(name, "SAB.G\n\nA = fire 1\nB = water 2\n", "S..G\n\ncost a\n1 . 2 .\n\ncost b\n. . . 3\n")
    data = json.loads(json.dumps(job.to_dict()))
    again = job_from_dict(data)
    assert json.loads(json.dumps(again.to_dict())) == data
    assert (again.agent, again.train, again.seeds) == (job.agent, job.train, job.seeds)
    assert again.environment is job.environment  # the same physics and number of costs
    for one, other in zip(job.tasks, again.tasks, strict=True):
        assert (one.name, one.budgets, one.cost_names) == (other.name, other.budgets, other.cost_names)
        assert (scene_of(one).layout.costs == scene_of(other).layout.costs).all()


@pytest.mark.parametrize("missing", ["algorithm", "environment", "tasks", "seeds", "agent", "train"])
def test_a_job_that_lacks_something(missing):
    data = tiny_job("safedqn").to_dict()
    del data[missing]
    with pytest.raises(UserError, match=f"the configuration lacks {missing}"):
        job_from_dict(data)


def test_a_kind_of_budget_is_stored_if_it_is_not_the_usual_one():
    job = tiny_job("safedsr-plus")
    assert "budget_kind" not in job.to_dict() and job.discount == 1.0 and job.agent.multiplier.rule == "chance"
    other = dataclasses.replace(job, budget_kind="discounted-mean")
    assert other.discount == other.agent.gamma and other.terms.on_mean
    assert other.agent.multiplier == dataclasses.replace(job.agent.multiplier, rule="mean", lam_most=None)
    data = json.loads(json.dumps(other.to_dict()))
    assert data["budget_kind"] == "discounted-mean" and data["agent"]["multiplier"]["rule"] == "mean"
    again = job_from_dict(data)
    assert (again.budget_kind, again.agent) == (other.budget_kind, other.agent)
    with pytest.raises(UserError, match=r"^budget_kind is 'mean'; give episode or discounted-mean$"):
        dataclasses.replace(job, budget_kind="mean")


@pytest.mark.parametrize("most", [None, 2.0])
def test_the_limit_of_lam_is_kept_if_it_is_not_that_of_the_grid(most):
    usual = find_algorithm("safedsr-plus").default.multiplier
    rules = usual if most is None else dataclasses.replace(usual, lam_most=most)
    job = dataclasses.replace(tiny_job("safedsr-plus", multiplier=rules), budget_kind="discounted-mean")
    assert job.agent.multiplier.rule == "mean" and job.agent.multiplier.lam_most == most


def test_a_job_says_whether_episodes_can_succeed():
    """Only if they cannot, so that other files stay as they were."""
    job = stairs_job("safedqn", tiny_agent("safedqn"), 1, 200)
    goalless = dataclasses.replace(job, environment=make_stairs(1, success=False))
    assert job.to_dict()["environment"] == {"name": "stairs"} and job.terms.goals
    assert goalless.to_dict()["environment"] == {"name": "stairs", "success": False} and not goalless.terms.goals
    assert not job_from_dict(goalless.to_dict(), make_stairs(1, success=False)).terms.success
