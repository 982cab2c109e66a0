"""The paper's experiments: the rows as jobs, and a tiny one end to end."""

import signal
import subprocess
import sys
from dataclasses import asdict, replace

import jax
import pytest
from tiny import same_trees

from safedsr.agents.registry import find_algorithm
from safedsr.cli import main
from safedsr.engine.program import Program
from safedsr.engine.train import Stopped
from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.errors import UserError
from safedsr.paper.experiments import (
    ABLATIONS,
    EXPERIMENTS,
    MATCHED,
    NEAREST,
    ON_POLICY,
    PLUS_COSTS,
    QUICK_SETTINGS,
    READINGS,
    SHIFTED,
    SINGLE_LAMBDA,
    UNITS,
    RunGroup,
    shorten,
)
from safedsr.paper.reproduce import PlannedRun, plan, plan_run, reproduce, share_done
from safedsr.runs import storage
from safedsr.runs.collect import load_results
from safedsr.runs.folder import load_run
from safedsr.runs.pack import pack
from safedsr.sweep.finish import standing
from safedsr.validation import with_settings

pytestmark = pytest.mark.usefixtures("compile_quickly")
TINY = {
    **{"batch_size": 8, "buffer_size": 40, "train_start": 20, "train_every": 5, "sync_every": 20, "hidden": (8,)},
    **{"epsilon_from": 20, "epsilon_to": 100, "penalty_start": 60},
}


@pytest.fixture
def row(write_map):
    """A corridor of three cells, and an agent small enough for it."""
    return RunGroup("tiny", ("safedqn",), (write_map("SCG", "corridor.txt"),), (), seeds=2, steps=400, settings=TINY)


@pytest.fixture
def task(row) -> PlannedRun:
    return plan_run(row, "safedqn")


def same_policy(one, other):
    return same_trees(*(storage.read_tensors(folder / "policy.safetensors")[0] for folder in (one, other)))


def test_the_baselines_are_those_of_the_paper():
    tasks = {task.name: task.job for task in plan("baselines")}
    assert set(tasks) == {*ON_POLICY, "safedqn", "safedsr", "safedsr-absorb"}
    for name, job in tasks.items():
        names = {environment.title for environment in job.tasks}
        six = {f"{rooms}, {costs}" for rooms in ROOM_NAMES for costs in ("none", "diamond")}
        assert names == six | ({f"{rooms}, 2*diamond" for rooms in ROOM_NAMES} if name in ON_POLICY else set())
        assert job.seeds == tuple(range(10))
        assert {environment.budgets for environment in job.tasks} == {(5.0,)}
        assert job.train.steps == 500_000 and job.train.trajectories == 100_000
    assert tasks["safedsr"].agent.terminal == "cut" and tasks["safedsr-absorb"].agent.terminal == "absorb"


def test_readings_change_what_they_name_and_nothing_else():
    fresh = f"safedsr-{NEAREST}-fresh"
    for quick in (False, True):
        jobs = {task.name: task.job for task in plan("readings", quick=quick)}
        assert list(jobs) == [*(f"safedsr-{name}" for name in READINGS), "dsr-cut", "dsr-restart", fresh]
        assert jobs["dsr-cut"].num_costs == jobs["dsr-restart"].num_costs == 0
    usual = asdict(find_algorithm("safedsr").settings("paper"))
    for task in plan("readings", algos=["safedsr"]):
        again = task.name == fresh
        assert task.job.seeds == (tuple(range(100, 110)) if again else (0, 1, 2))
        how = READINGS[NEAREST if again else task.name.removeprefix("safedsr-")]
        changed = {name: value for name, value in asdict(task.job.agent).items() if value != usual[name]}
        assert changed == how.get("settings", {}) and (changed or how.keys() & {"grid", "budget"})


def test_the_extras_are_those_of_the_text():
    tasks = {task.name: task.job for task in plan("extras")}
    longer = [job for name, job in tasks.items() if name.endswith("-five-times")]
    assert {job.algorithm for job in longer} == set(ON_POLICY)
    assert all(job.train.steps == job.agent.decay_steps == 5 * 500_000 for job in longer)
    assert tasks["safedqn-long"].train.steps == 2_500_000
    late = {job.algorithm for name, job in tasks.items() if name.endswith("late-penalty") and job.agent.penalty_start}
    assert late == {"pdo", "rcpo", "trpo-lag", "ppo-lag"}
    assert tasks["safedsr-no-delay"].agent.multiplier.penalty_start == 0


def flat(settings):
    """Settings by their flags, wherever they are."""
    parts = [flat(value) if isinstance(value, dict) else {name: value} for name, value in settings.items()]
    return {name: value for part in parts for name, value in part.items()}


def test_plus_is_judged_on_fresh_seeds_and_each_variant_changes_one_thing():
    tasks = {task.name.removeprefix("safedsr-plus").removeprefix("-"): task.job for task in plan("plus")}
    assert {name for name, job in tasks.items() if job.train.steps != 500_000} == {"no-map-short"}
    points = {name: job for name, job in tasks.items() if name.startswith("no-map")}
    assert set(points) == {f"no-map-{name}" for name in (*PLUS_COSTS, "no-outcomes", "short", "zero")}
    assert not any(job.agent.own_groups for job in points.values())
    assert {job.seeds for job in points.values()} == {tuple(range(80, 90))}
    assert {name: tasks[name].seeds for name in PLUS_COSTS} == dict.fromkeys(PLUS_COSTS, tuple(range(70, 80)))
    assert tasks["two-costs"].tasks[0].budgets == (5.0, 10.0)
    usual, whole = (flat(asdict(tasks[name].agent)) for name in ("diamond", "single"))
    assert {key for key in whole if whole[key] != usual[key]} == set(SINGLE_LAMBDA)
    for name in ABLATIONS:
        assert tasks[name].seeds == tasks["single"].seeds
        changed = {key: value for key, value in flat(asdict(tasks[name].agent)).items() if value != whole[key]}
        assert changed and changed == {key: value for key, value in ABLATIONS[name].items() if value != whole[key]}
        assert [e.cost_names for e in tasks[name].tasks] == [("diamond",)] * 3
    for name, how in {**UNITS, **SHIFTED}.items():
        assert tasks[name].agent == replace(tasks["diamond"].agent, **how.get("settings", {}))
        assert tasks[name].environment.settings != tasks["diamond"].environment.settings or "costs" in how
    for name in ("safedsr-matched", "safedqn-matched"):
        own = flat(asdict(tasks[name].agent))
        assert {key: own[key] for key in MATCHED} == {key: whole[key] for key in MATCHED}
        assert {key: own[key] for key in ("epsilon_from", "epsilon_to", "epsilon_end", "penalty_start")} == {
            key: whole[key] for key in ("epsilon_from", "epsilon_to", "epsilon_end", "penalty_start")
        }


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_quick_jobs_are_short_in_everything(experiment):
    for task, quick in zip(plan(experiment), plan(experiment, quick=True), strict=True):
        assert quick.name == task.name and quick.job.algorithm == task.job.algorithm
        assert quick.job.train.steps == task.job.train.steps // 50 and len(quick.job.seeds) == 2
        assert quick.job.train.steps >= 2 * quick.job.chunk and getattr(quick.job.agent, "train_start", 0) <= 1_000
        assert len(quick.job.tasks) == len(task.job.tasks) and quick.work < task.work / 10


def test_delays_shrink_with_the_steps():
    row = shorten(RunGroup("", ("pdo",), settings={"penalty_start": 100_000, "gamma": 0.9}))
    assert row.settings == {"penalty_start": 2_000, "gamma": 0.9} and row.steps == 10_000


def test_a_part_of_an_experiment():
    (only,) = plan("baselines", runs=["safedsr-absorb"], matmul="tensorfloat32")
    assert (only.name, only.job.train.matmul) == ("safedsr-absorb", "tensorfloat32")
    tasks = plan("baselines", algos=["safedsr", "cpo"], layouts=["rooms-4"], seeds=3)
    assert [task.name for task in tasks] == ["cpo", "safedsr", "safedsr-absorb"]
    for task in tasks:
        assert {e.name for e in task.job.tasks} == {"rooms-4"} and task.job.seeds == (0, 1, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"experiment": "baseline"}, "did you mean 'baselines'?"),
        ({"algos": ["cp0"]}, "did you mean 'cpo'?"),
        ({"runs": ["safedsr-abs"]}, "did you mean 'safedsr-absorb'?"),
        ({"algos": ["dqn"]}, "dqn is not part of 'baselines'; its algorithms are cpo, "),
        ({"layouts": ["two-rom"]}, "did you mean 'two-rooms'?"),
        ({"seeds": 0}, "seeds is 0; train at least one"),
    ],
)
def test_parts_that_do_not_exist(options, message):
    with pytest.raises(UserError) as error:
        plan(options.pop("experiment", "baselines"), **options)
    assert message in str(error.value)


def test_settings_are_found_wherever_they_are():
    agent = plan_run(EXPERIMENTS["baselines"][-1], "safedsr").job.agent
    changed = with_settings(agent, {"gamma": 0.5, "epsilon_end": 0.1, "penalty_start": 7})
    before, after = asdict(agent), asdict(changed)
    assert (after["gamma"], after["epsilon"]["epsilon_end"], after["multiplier"]["penalty_start"]) == (0.5, 0.1, 7)
    before["gamma"], before["epsilon"]["epsilon_end"], before["multiplier"]["penalty_start"] = 0.5, 0.1, 7
    assert before == after
    with pytest.raises(UserError, match="unknown setting of SafeDsrConfig 'gama'; did you mean 'gamma'"):
        with_settings(agent, {"gama": 0.5})


def test_stopped_killed_and_resumed_is_as_if_it_had_never_stopped(tmp_path, task, monkeypatch):
    tasks = [task, task._replace(name="second")]
    shares = []
    assert reproduce(tasks, tmp_path / "straight", lambda title, p, share: shares.append((title, share))) == []
    assert shares == sorted(shares, key=lambda pair: pair[1]) and shares[-1] == ("second (2 of 2)", pytest.approx(1))
    assert share_done(tasks, tmp_path / "straight") == 1

    out = tmp_path / "out"

    def stop(title, p, share):
        (out / "safedqn-tiny" / "stop").touch()

    with pytest.raises(
        Stopped, match=r"stopped at step 20 of 400, all saved in .*; the same command continues from there"
    ):
        reproduce(tasks, out, stop)
    assert [standing(one.job, out / one.name) for one in tasks] == ["begun", "new"]

    def die(title, p, share):
        raise MemoryError

    with pytest.raises(MemoryError):
        reproduce(tasks, out, die)
    assert load_run(out / "safedqn-tiny").curves["step"].max() == 20
    titles = []
    assert reproduce(tasks, out, lambda title, p, share: titles.append(title)) == []
    assert set(titles) == {"safedqn-tiny (1 of 2)", "second (2 of 2)"}
    for one in tasks:
        assert same_policy(out / one.name, tmp_path / "straight" / one.name)
    monkeypatch.setattr(Program, "__init__", lambda *args: pytest.fail("trained again"))
    assert reproduce(tasks, out) == []
    assert [result.steps for result in load_results([out / task.name])] == [400]


def test_packed_folders_count_as_done(tmp_path, row, task):
    reproduce([task], tmp_path / "full")
    pack(tmp_path / "full" / task.name, tmp_path / "packed" / task.name)
    assert standing(task.job, tmp_path / "packed" / task.name) == "done"
    longer = plan_run(row._replace(steps=800), "safedqn")
    assert standing(longer.job, tmp_path / "full" / task.name) == "begun"
    with pytest.raises(UserError, match="is a packed copy and cannot be continued"):
        standing(longer.job, tmp_path / "packed" / task.name)


def test_folders_that_hold_something_else_are_found_before_anything_is_trained(tmp_path, row, task):
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="second is not empty and is not a run folder; remove it"):
        reproduce([task, task._replace(name="second")], tmp_path)
    assert not (tmp_path / task.name).exists()
    reproduce([task], tmp_path)
    other = plan_run(row._replace(settings={**TINY, "gamma": 0.5}), "safedqn")
    with pytest.raises(UserError, match=r"holds a run with other settings: gamma is 0.5 here and 0.99 there"):
        reproduce([other], tmp_path)


def test_a_job_that_breaks_down_does_not_stop_the_others(tmp_path, task, monkeypatch):
    bad = iter([("learner/q", 0, 1)])
    monkeypatch.setattr(Program, "first_bad", lambda self, state: next(bad, None))
    (broken,) = reproduce([task, task._replace(name="second")], tmp_path)
    assert broken.startswith("safedqn-tiny: 'learner/q' is not finite at step 20")
    assert [standing(task.job, tmp_path / name) for name in ("safedqn-tiny", "second")] == ["begun", "done"]


@pytest.fixture
def tiny_experiment(row, monkeypatch):
    monkeypatch.setattr("safedsr.paper.reproduce.shorten", lambda row: row)
    monkeypatch.setitem(QUICK_SETTINGS, "safedqn", {})
    monkeypatch.setitem(EXPERIMENTS, "baselines", (row,))


@pytest.mark.usefixtures("tiny_experiment")
def test_the_command_says_what_is_not_comparable(capsys, tmp_path):
    args = ["reproduce", "baselines", "--quick", "--out", str(tmp_path / "runs")]
    assert main(args) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("QUICK: ") and "NOT comparable with the paper's" in printed.out
    assert printed.out.endswith("QUICK: not comparable with the paper's numbers\n")
    assert f"safedsr report {tmp_path / 'runs'}" in printed.out
    assert printed.err.splitlines()[-1].startswith("baselines 100%  safedqn-tiny (1 of 1) 400/400 ")
    assert main(args) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("tiny_experiment")
def test_an_executor_of_sweeps_trains_the_same(capsys, tmp_path, task, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["safedsr", "reproduce", "baselines"])
    monkeypatch.setenv("SAFEDSR_CORES", str(jax.device_count()))  # on as many devices as here
    assert main(["reproduce", "baselines", "--full", "--out", str(tmp_path / "runs"), "--executor", "local"]) == 0
    assert "done safedqn-tiny" in capsys.readouterr().err
    manifest = storage.read_json(tmp_path / "runs" / "safedqn-tiny" / "manifest.json")
    assert manifest["command"] == "safedsr reproduce baselines"  # by which a report knows it
    reproduce([task], tmp_path / "here")
    assert same_policy(tmp_path / "runs" / "safedqn-tiny", tmp_path / "here" / "safedqn-tiny")


def test_flags_of_an_executor_need_one(capsys):
    assert main(["reproduce", "baselines", "--full", "--workers", "2"]) == 2
    assert "add --executor local, ray or slurm" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [[], ["--quick", "--full"]])
def test_the_command_wants_to_know_how_long(capsys, flags):
    assert main(["reproduce", "baselines", *flags]) == 2
    printed = capsys.readouterr()
    assert "--quick about 8 minutes on two cores" in printed.err and "--full" in printed.err
    assert printed.err.count("\n") == 1 and printed.out == ""


@pytest.mark.usefixtures("tiny_experiment")
def test_a_broken_job_is_told_by_the_exit_code(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(Program, "first_bad", lambda self, state: ("learner/q", 0, 1))
    assert main(["reproduce", "baselines", "--full", "--out", str(tmp_path / "runs")]) == 1
    printed = capsys.readouterr()
    assert "safedsr: safedqn-tiny: 'learner/q' is not finite" in printed.err and "QUICK" not in printed.out


def test_ctrl_c_and_the_same_command_again(tmp_path):
    code = (
        "import sys; from safedsr.paper.experiments import ABLATIONS, EXPERIMENTS, RunGroup;"
        "from safedsr.cli import main;"
        f"EXPERIMENTS['baselines'] = (RunGroup('tiny', ('safedqn',), ('SCG.txt',), (), 2, 1_000_000, 0, {TINY!r}),);"
        "sys.exit(main(['reproduce', 'baselines', '--full', '--out', 'runs']))"
    )
    (tmp_path / "SCG.txt").write_text("SCG")
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stderr is not None
    with process:
        assert process.stderr.readline().startswith("baselines 0%  safedqn-tiny (1 of 1) ")
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 1 and "Traceback" not in rest and "the same command continues from there" in rest
    assert list((tmp_path / "runs" / "safedqn-tiny" / "checkpoint").glob("state-*"))
