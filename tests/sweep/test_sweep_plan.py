"""A sweep as data: values, names, packing, sweep.json, ranking. Nothing is trained in other processes here."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweeps import TINY, begun, tiny_sweep

from safedsr.cli import main
from safedsr.errors import UserError
from safedsr.runs.job import tasks_for
from safedsr.sweep.finish import finish, saved_step, standing
from safedsr.sweep.plan import Sweep, begin, packed, plan, read_sweep, with_pack
from safedsr.sweep.ranking import commands, rank
from safedsr.sweep.run import rungs
from safedsr.sweep.values import combinations, parse_choices, parse_range

MAP = ("--algos", "safedqn", "--costs", "diamond")
pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_choices_are_lists_or_ranges():
    found = parse_choices(["learning-rate=1e-4,5e-4", "ppo-lag.cost-gamma=0.9", "rule=chance", "freeze=10..20"])
    assert found == {
        "learning_rate": [1e-4, 5e-4],
        "ppo-lag.cost_gamma": [0.9],
        "rule": ["chance"],
        "freeze": "10..20",
    }
    assert parse_range("log:1e-5..1e-3") == (1e-5, 1e-3, True) and parse_range("chance") is None


@given(st.integers(1, 60), st.integers(0, 5))
def test_a_sample_is_spread_evenly_and_the_same_for_a_seed(count, seed):
    choices = {"learning_rate": "log:1e-5..1e-3", "freeze": "10..20", "rule": ["a", "b"]}
    drawn = combinations(choices, count, seed)
    assert drawn == combinations(choices, count, seed) and len(drawn) == count
    assert all(1e-5 <= one["learning_rate"] <= 1e-3 and one["freeze"] in range(10, 21) for one in drawn)
    strata = np.floor((np.log10([one["learning_rate"] for one in drawn]) + 5) / 2 * count)
    assert len(set(strata)) >= 0.8 * count  # one draw in each of `count` equal parts, to within the rounding
    if count % 2 == 0:
        assert sum(one["rule"] == "a" for one in drawn) == count // 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--algos", "safedqm"], "did you mean 'safedqn'?"),
        ([], "name at least one algorithm"),
        (["--algos", "safedqn", "--vary", "gamma"], "'gamma' is not NAME=VALUES; write for example"),
        (["--algos", "safedqn", "--vary", "gamma=0.1..0.9"], "gamma is a range; say how many values to draw"),
        (["--algos", "safedqn", "--costs", "diamond", "--vary", "gama=0.1,0.9"], "did you mean 'gamma'?"),
        (["--algos", "safedqn", "--costs", "diamond", "--vary", "gamma=0.9,0.9"], "give each value once"),
        (["--algos", "safedqn", "--set", "gamma=0.5", "--vary", "gamma=0.1,0.9"], "gamma is both set and varied"),
        (["--algos", "safedqn", "--set", "ppo.gamma=0.5"], "unknown algorithm of this sweep 'ppo'"),
        (["--algos", "safedqn", "--halving", "1"], "halving is 1; give 2 or more"),
        (["--algos", "safedqn", "--costs", "diamond", "--workers", "0"], "workers is 0; give at least 1"),
        (["--algos", "safedqn", "--halving", "2", "--no-shared"], "--halving continues runs and needs a shared folder"),
        ([*MAP, "--sample", "3"], "sample is 3; nothing is varied; write for example"),
        ([*MAP, "--address", "auto"], "--address is for --executor ray; leave it out here"),
        ([*MAP, "--no-shared"], "--no-shared is for --executor ray; leave it out here"),
        ([*MAP, "--executor", "ray", "--partition", "a"], "--partition is for --executor slurm; leave it out here"),
        ([*MAP, "--executor", "ray", "--gpus", "-1"], "gpus is -1; give at least 0"),
        ([*MAP, "--executor", "slurm", "--hours", "inf"], "hours is inf; give a number above 0, up to 8760"),
        ([*MAP, "--env", "CartPole-v1"], "layout and costs are for maps"),
        (["nothing.toml"], "nothing.toml: no such file"),
        (["--best"], "is not the folder of a sweep"),
    ],
)
def test_wrong_sweeps_are_refused_in_one_line_before_anything_is_written(capsys, tmp_path, flags, message):
    assert main(["sweep", *flags, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_names_are_stable_and_settings_go_where_they_belong(corridor_map):
    planned = plan(tiny_sweep(corridor_map))
    assert [one.name for one in planned] == ["safedqn-learning_rate=0.001", "safedqn-learning_rate=0.01"]
    job = planned[1].job
    assert (job.agent.learning_rate, job.train.steps, job.environment.settings["time_limit"]) == (0.01, 160, 12)
    assert job.agent.multiplier.penalty_start == 60 and job.seeds == (0, 1) and job.tasks[0].budgets == (1.0,)
    long = plan(tiny_sweep(corridor_map, vary={"hidden": [[8] * 40, [8] * 41]}))
    assert len({one.name for one in long}) == 2 and all(len(one.name) < 30 for one in long)


def test_a_setting_of_one_algorithm_alone():
    sweep = Sweep(("safedqn", "safedsr"), costs=("diamond",), vary={"safedsr.features": [16, 32]}, set={"gamma": 0.5})
    found = [(one.job.algorithm, one.settings) for one in plan(sweep)]
    assert found == [("safedqn", {}), ("safedsr", {"features": 16}), ("safedsr", {"features": 32})]
    assert all(one.job.agent.gamma == 0.5 for one in plan(sweep))


def test_maps_and_seeds_are_packed_as_far_as_allowed():
    tasks = tasks_for("safedqn", ["one-room", "two-rooms"], ["diamond", "square"], "5")
    for most, sizes in ((None, [12]), (12, [12]), (8, [8, 4]), (5, [4, 4, 4]), (3, [3, 3, 3, 1, 1, 1]), (1, [1] * 12)):
        groups = list(packed(tasks, (0, 1, 2), most))
        assert [len(some) * len(seeds) for some, seeds in groups] == sizes
        lanes = [(task.title, seed) for some, seeds in groups for task in some for seed in seeds]
        assert sorted(lanes) == sorted((task.title, seed) for task in tasks for seed in (0, 1, 2))
    two = tasks_for("safedqn", ["one-room"], ["diamond", "diamond,square"], "5")
    assert [len(some[0].budgets) for some, _ in packed(two, (0,), None)] == [1, 2]  # other programs


def test_a_sweep_that_does_not_fit_into_memory_is_split(corridor_map):
    sweep = tiny_sweep(corridor_map, seeds=10)
    planned = plan(sweep)
    assert with_pack(sweep, planned, 1e12) == sweep and with_pack(sweep, planned, None) == sweep
    smaller = with_pack(sweep, planned, 20_000)
    assert smaller.pack is not None and 1 <= smaller.pack < 10
    assert sum(len(one.job.seeds) for one in plan(smaller)) == 20 and len(plan(smaller)) > 2


def test_sweep_json_comes_first_and_another_sweep_is_refused(tmp_path, corridor_map):
    sweep = tiny_sweep(corridor_map)
    begun(sweep, tmp_path)
    assert read_sweep(tmp_path) == sweep
    assert [one["name"] for one in json.loads((tmp_path / "sweep.json").read_text())["runs"]] == [
        one.name for one in plan(sweep)
    ]
    begin(sweep, plan(sweep), tmp_path)
    other = tiny_sweep(corridor_map, seeds=3)
    with pytest.raises(UserError, match="holds another sweep: seeds is 3 here and 2 there"):
        begin(other, plan(other), tmp_path)


def test_a_file_says_what_flags_say(tmp_path, corridor_map, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr("safedsr.sweep.run.run_sweep", lambda sweep, planned, *rest: seen.append(sweep) or {})
    monkeypatch.setattr("safedsr.cli.sweep.print_ranking", lambda *args: None)
    file = tmp_path / "sweep.toml"
    file.write_text(
        f'algos = ["safedqn"]\nlayout = ["{corridor_map}"]\nbudget = [1]\nseeds = 9\n[set]\ntime-limit = 12\n'
        "[vary]\nlearning-rate = [1e-3, 1e-2]\n"
    )
    assert main(["sweep", str(file), "--seeds", "2", "--out", str(tmp_path / "a")]) == 0
    flags = ["--algos", "safedqn", "--layout", corridor_map, "--budget", "1", "--seeds", "2"]
    flags += ["--set", "time-limit=12", "--vary", "learning-rate=1e-3,1e-2"]
    assert main(["sweep", *flags, "--out", str(tmp_path / "b")]) == 0
    assert main(["sweep", "--out", str(tmp_path / "b")]) == 0  # the sweep of the folder
    assert seen[0] == seen[1] == seen[2] and seen[0].vary == {"learning_rate": [1e-3, 1e-2]}


def test_rungs_end_with_a_chunk_and_keep_the_best_part(corridor_map):
    sweep = tiny_sweep(corridor_map, vary={"learning_rate": [0.001 * i for i in range(1, 10)]}, halving=3)
    assert rungs(sweep, plan(sweep)) == [(20, 3), (60, 1)]  # 160/9 and 160/3 steps, up to a multiple of 20
    assert rungs(tiny_sweep(corridor_map), plan(sweep)) == []


def test_finish_goes_to_a_step_then_to_the_end_and_then_does_nothing(tmp_path, corridor_map, monkeypatch):
    planned = begun(tiny_sweep(corridor_map, vary={"learning_rate": [0.001]}), tmp_path)
    folder = tmp_path / planned[0].name
    finish(planned[0].job, folder, until=50)
    assert standing(planned[0].job, folder) == "begun" and saved_step(folder) == 60
    (found,) = rank(tmp_path)
    assert (found.steps, found.planned, found.whole) == (60, 160, False)
    half = rank(tmp_path, "return", until=60)[0].means
    finish(planned[0].job, folder, until=40)
    assert saved_step(folder) == 60
    finish(planned[0].job, folder)
    assert standing(planned[0].job, folder) == "done" and rank(tmp_path)[0].whole
    assert rank(tmp_path, "return", until=60)[0].means == half  # what came later does not count
    monkeypatch.setattr("safedsr.sweep.finish.train", lambda *args: pytest.fail("trained again"))
    finish(planned[0].job, folder)
    (line,) = commands(tmp_path, rank(tmp_path)[0])
    assert "safedsr train safedqn" in line and "--learning-rate 0.001" in line and "--hidden 8" in line
    assert set(TINY) <= {word[2:].replace("-", "_") for word in line.split() if word.startswith("--")}
