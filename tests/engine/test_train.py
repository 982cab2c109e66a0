"""Whole trainings: whatever interrupts one, going on gives bit for bit what it would have given."""

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from stairs import make_stairs, stairs_job
from tiny import tiny_agent, tiny_job

from safedsr.engine import program as program_module
from safedsr.engine import train as train_module
from safedsr.engine.program import Program
from safedsr.engine.train import STOP_FILE, NotFinite, Stopped, resume, train
from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.folder import load_run, load_trajectories
from safedsr.runs.metrics import goal_count
from safedsr.runs.writer import resume_run

pytestmark = pytest.mark.usefixtures("compile_quickly")
LOSSES = {"safedqn": ["q_loss"], "safedsr": ["feature_loss", "successor_loss"]}
TRAIN = """
import os, signal, sys, time
from pathlib import Path
from tiny import tiny_job
from safedsr.engine.train import Stopped, resume, train

out, what, *moment = sys.argv[1:]

def show(progress):
    print(progress.step, flush=True)
    time.sleep(0 if moment else 0.05)
    if what == "wait" and progress.step == 40 or progress.step == 160 and not moment:
        sys.stdin.readline()

def replace(self, target, put=Path.replace):
    for when in ("before", "after"):
        if moment == [when, Path(target).name]:
            os.kill(os.getpid(), signal.SIGKILL)
        if when == "before":
            put(self, target)

Path.replace = replace
try:
    if what != "resume":
        train(tiny_job("safedqn", trajectories=40), out, show)
    else:
        resume(out, show=show)
except Stopped as stopped:
    print(stopped)
"""


def start(out, what, *moment):
    """A process that trains, or resumes, and says so after every chunk; it may wait after step 40, and does at the end.

    At a moment, such as "before state-000000000080.safetensors" is put in its place, it kills itself.
    """
    args = [sys.executable, "-c", TRAIN, str(out), what, *moment]
    pipe = subprocess.PIPE
    return subprocess.Popen(args, cwd=Path(__file__).parents[1], stdin=pipe, stdout=pipe, text=True)


def last_state(folder):
    (path,) = (folder / "checkpoint").glob("state-*.safetensors")
    arrays, about = storage.read_tensors(path)
    return arrays, int(about["step"])


def contents(folder):
    """All numbers of a finished run, by name."""
    run = load_run(folder)
    tables = {
        "state": last_state(folder)[0],
        "policy": storage.read_tensors(folder / "policy.safetensors")[0],
        "episodes": run.episodes,
        "curves": run.curves,
        "trajectories": load_trajectories(folder),
    }
    return {f"{table} {name}": array for table, arrays in tables.items() for name, array in arrays.items()}


def assert_same_run(one, other):
    found, expected = contents(one), contents(other)
    assert found.keys() == expected.keys() and len(found) > 30
    for name in expected:
        assert found[name].dtype == expected[name].dtype, name
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    for name in ("config.json", "policy.json"):
        assert storage.read_json(one / name) == storage.read_json(other / name)


def train_until(step, job, folder):
    """Train until a stop file appears after that step."""

    def show(progress):
        if progress.step == step:
            (folder / STOP_FILE).touch()

    with pytest.raises(Stopped, match=f"stopped at step {step} of {job.train.steps}, all saved in {folder}"):
        train(job, folder, show)
    return folder


def assert_trajectories_agree_with_episodes(folder):
    walked, run = load_trajectories(folder), load_run(folder)
    assert walked["position"].shape == (40, 1, 2, 2) and walked["done"].shape == (40, 1, 2)
    np.testing.assert_array_equal(walked["step"], np.arange(121, 161))
    for index, seed in enumerate(run.seeds):
        ends = run.episodes["end_step"][(run.episodes["seed"] == seed) & (run.episodes["end_step"] > 120)]
        assert len(ends) >= 3
        np.testing.assert_array_equal(walked["step"][walked["done"][:, 0, index]], ends)
    length = np.abs(np.diff(walked["position"], axis=0)).sum(-1)
    assert (length[~walked["done"][:-1]] < 0.976).all()  # at most one step, unless a new episode began
    assert ((walked["position"] >= 0) & (walked["position"] < 3)).all()


def assert_tables_tell_the_run(run, losses):
    for episodes in run.by_seed():
        np.testing.assert_array_equal(np.cumsum(episodes.length), episodes.end_step)
        assert (episodes.length[~episodes.success] == 12).all() and goal_count(episodes) > 0
        np.testing.assert_allclose(episodes.ret, episodes.success - 0.01 * episodes.length, atol=1e-5)
    curves = run.curves
    assert curves.keys() == {"environment", "seed", "step", "lam_0", *losses}
    for seed in run.seeds:
        rows = curves["seed"] == seed
        np.testing.assert_array_equal(curves["step"][rows], np.arange(20, 161, 20))
        for loss in losses:
            np.testing.assert_array_equal(np.isnan(curves[loss][rows]), [True] + [False] * 7)
    assert not curves["lam_0"][curves["step"] <= 60].any() and curves["lam_0"].any()


@pytest.mark.parametrize("name", LOSSES)
def test_half_and_then_the_rest_is_the_whole(name, trained, tmp_path):
    train(tiny_job(name, steps=80, trajectories=40), tmp_path)
    assert load_run(tmp_path).episodes["end_step"].max() <= 80
    resume(tmp_path, {"steps": 160})
    assert_same_run(tmp_path, trained(name))
    assert_trajectories_agree_with_episodes(tmp_path)
    assert_tables_tell_the_run(load_run(tmp_path), LOSSES[name])


def test_chunks_end_at_the_same_steps_however_a_run_was_cut():
    """With a phase that ends within a chunk."""

    def stops(*lengths):
        step, found = 0, []
        for steps in lengths:
            program = Program(tiny_job("safedqn", steps=steps, chunk=40))
            while step < steps:
                step = program.next_stop(step)
                found.append(step)
        return found

    assert stops(160) == stops(80, 120, 160) == [20, 40, 80, 120, 160]


def test_a_stop_file_ends_the_run_after_the_chunk(trained, tmp_path):
    """Also in a run that would not have saved for an hour."""
    job = tiny_job("safedqn", trajectories=40)
    train_until(60, dataclasses.replace(job, train=dataclasses.replace(job.train, checkpoint_seconds=3600)), tmp_path)
    assert last_state(tmp_path)[1] == 60 and not (tmp_path / "policy.json").exists()
    np.testing.assert_array_equal(load_run(tmp_path).curves["step"], [20, 20, 40, 40, 60, 60])
    assert len(list((tmp_path / "checkpoint").iterdir())) == 3  # episodes, curves and the state
    resume(tmp_path, {"checkpoint_seconds": 0})
    assert not (tmp_path / STOP_FILE).exists()
    assert_same_run(tmp_path, trained("safedqn"))


def test_ctrl_c_ends_the_run_after_the_chunk(trained, tmp_path):
    expected = trained("safedqn")
    process = start(tmp_path / "run", "wait")
    assert process.stdin is not None and process.stdout is not None
    with process:
        while process.stdout.readline() != "40\n":
            pass
        process.send_signal(signal.SIGINT)
        last = process.communicate("go on\n")[0]
    assert process.returncode == 0 and last_state(tmp_path / "run")[1] == 40
    assert last == f"stopped at step 40 of 160, all saved in {tmp_path / 'run'}; go on with --resume\n"
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", expected)


def test_ctrl_c_at_the_worst_moment(tmp_path, monkeypatch):
    """It arrives when the loop has just decided not to save: what is said to be saved is saved."""
    job = tiny_job("safedqn")
    job = dataclasses.replace(job, train=dataclasses.replace(job.train, checkpoint_seconds=3600))
    moments = iter(range(100))

    def since(moment):
        if next(moments) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    monkeypatch.setattr(train_module, "_since", since)
    with pytest.raises(Stopped, match="all saved") as stopped:
        train(job, tmp_path)
    assert str(stopped.value).startswith(f"stopped at step {last_state(tmp_path)[1]} of 160")


def test_a_second_ctrl_c_ends_it_at_once(tmp_path):
    def show(progress):
        if progress.step == 40:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_job("safedqn"), tmp_path, show)
    assert last_state(tmp_path)[1] == 20 and signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("draw", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_kill_at_any_moment(draw, trained, tmp_path):
    """Within 0.1 s of the first chunk, twice; whichever moments these are, the run is neither done nor lost."""
    expected, pause = trained("safedqn"), random.Random(draw)
    for what in ("train", "resume"):
        process = start(tmp_path / "run", what)
        assert process.stdout is not None
        with process:
            assert int(process.stdout.readline()) < 160
            time.sleep(pause.uniform(0, 0.1))
            process.kill()
        assert process.returncode == -signal.SIGKILL and not (tmp_path / "run" / "policy.json").exists()
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", expected)


def test_kill_between_the_files_of_a_save(trained, tmp_path):
    """With rows and no state that knows them, a state half in its place, two states, and tables half merged."""
    folder, expected = tmp_path / "run", trained("safedqn")
    for what, when, name, saved in (
        ("train", "after", "episodes-000000000060.safetensors", [40]),
        ("resume", "before", "state-000000000080.safetensors", [60]),
        ("resume", "after", "state-000000000120.safetensors", [100, 120]),
        ("resume", "after", "episodes.parquet", [160]),
        ("resume", "before", "curves.parquet", [160]),
    ):
        with start(folder, what, when, name) as process:
            process.communicate()
        assert process.returncode == -signal.SIGKILL, f"{when} {name} did not come"
        states = sorted((folder / "checkpoint").glob("state-*"))
        assert [int(path.stem.partition("-")[2]) for path in states] == saved
    resume(folder)
    assert_same_run(folder, expected)


def test_what_a_kill_leaves_half_written_is_ignored(trained, tmp_path):
    train_until(80, tiny_job("safedqn", trajectories=40), tmp_path)
    folder = tmp_path / "checkpoint"
    with resume_run(tmp_path) as (writer, _):
        rows = {name: column[:1] for name, column in load_run(tmp_path).episodes.items()}
        writer.append("episodes", rows, 90)
    assert len(list(folder.glob("episodes-*"))) == 5
    (folder / ".state-000000000100.safetensors.4711.tmp").write_bytes(b"half a fi")
    resume(tmp_path)
    assert_same_run(tmp_path, trained("safedqn"))
    assert not list(folder.glob("*.tmp"))


def test_a_run_killed_before_its_first_checkpoint(trained, tmp_path):
    job = tiny_job("safedqn", trajectories=40)

    def show(progress):
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        train(job, tmp_path, show)
    assert not list((tmp_path / "checkpoint").iterdir())
    resume(tmp_path)
    assert_same_run(tmp_path, trained("safedqn"))


def test_numbers_that_are_not_finite_stop_the_run(trained, tmp_path, monkeypatch):
    advance = Program.advance

    def poisoned(self, state, step, count):
        state, records, losses = advance(self, state, step, count)
        if step == 60:
            state = eqx.tree_at(
                lambda s: s.agent.learner.q.layers[1].bias, state, replace_fn=lambda x: x.at[0, 1, 2].set(jnp.inf)
            )
        return state, records, losses

    with monkeypatch.context() as patch:
        patch.setattr(Program, "advance", poisoned)
        with pytest.raises(NotFinite) as error:
            train(tiny_job("safedqn", seeds=(0, 1), trajectories=40), tmp_path)
    place = "'agent/learner/q/layers/1/bias' is not finite at step 80, seed 1 in corridor, cost; "
    assert str(error.value).startswith(place)
    assert last_state(tmp_path)[1] == 60
    resume(tmp_path)
    assert_same_run(tmp_path, trained("safedqn"))


def test_progress_tells_what_happened(tmp_path):
    seen = []
    train(tiny_job("dqn", "S..G", seeds=(0, 1, 2)), tmp_path, seen.append)
    run = load_run(tmp_path)
    assert [p.step for p in seen] == list(range(20, 161, 20))
    assert all((p.steps, p.count, p.lanes, p.lam) == (160, 20, 3, 0.0) for p in seen)
    assert all(p.safe_goal_rate == p.goal_rate for p in seen)  # no costs
    last = run.episodes["end_step"] > 140
    assert seen[-1].goal_rate == pytest.approx(run.episodes["success"][last].mean())
    assert "lam_0" not in run.curves and "cost_0" not in run.episodes


def test_a_map_in_company_is_learnt_as_alone(tmp_path):
    """Walks are the same step for step; sums may be taken in another order, so networks agree to rounding."""
    train(tiny_job("safedqn", "S.C\nC.G", "SCG", steps=100), tmp_path / "all")
    train(tiny_job("safedqn", "SCG", steps=100), tmp_path / "one")
    for together, alone in zip(
        load_run(tmp_path / "all").by_seed(1), load_run(tmp_path / "one").by_seed(), strict=True
    ):
        for field, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(field, other, rtol=1e-6)
        assert len(alone.length) >= 9
    several, single = last_state(tmp_path / "all")[0], last_state(tmp_path / "one")[0]
    assert several.keys() == single.keys()
    for leaf, array in single.items():
        np.testing.assert_allclose(several[leaf][1], array[0], rtol=1e-3, atol=1e-5, err_msg=leaf)


def test_features_that_are_kept_count_for_the_lanes_at_work():
    """One lane after the other on a processor: φ(s, a) and φ(s′, ·) of 40 remembered steps, 6 numbers each, twice."""
    few, many = (Program(tiny_job("safedsr", seeds=tuple(range(count)))) for count in (1, 4))
    kept = 2 * 40 * 5 * 6 * 4
    state = (many.bytes_needed() - few.bytes_needed()) / 3
    assert few.bytes_needed() == state + kept


def test_too_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(program_module, "_free_memory", lambda devices: 10_000)
    with pytest.raises(UserError, match=r"^2 seeds in 1 tasks need about .* GiB .* are free; train about \d seeds"):
        train(tiny_job("safedqn"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_in_use(trained, tmp_path):
    (tmp_path / "run").mkdir()
    with storage.lock(tmp_path / "run" / ".lock"):
        with pytest.raises(UserError, match="run is in use by another process"):
            train(tiny_job("safedqn"), tmp_path / "run")
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    folder = trained("safedqn")
    with storage.lock(folder / ".lock"), pytest.raises(UserError, match="is in use by another process"):
        resume(folder)
    with pytest.raises(UserError, match="is not empty; choose another folder, or --resume"):
        train(tiny_job("safedqn"), folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that stopped after 40 of its steps."""
    return train_until(40, tiny_job("safedqn"), tmp_path_factory.mktemp("stopped") / "run")


@pytest.fixture
def paused(stopped, tmp_path):
    """A copy of that run."""
    return shutil.copytree(stopped, tmp_path / "run")


@pytest.mark.parametrize(
    ("section", "field", "value", "message"),
    [
        ("agent", "batchsize", 8, "unknown setting of SafeDqnConfig 'batchsize'; did you mean 'batch_size'?"),
        ("environment", "gravity", 9.81, "unknown setting of GridConfig 'gravity'"),
        ("agent", "gamma", 2, "gamma is 2; give a value of at least 0 and below 1"),
        ("agent", "gamma", "much", "gamma is 'much'; give a finite number"),
        (
            "agent",
            "hidden",
            [9],
            "does not fit these settings: 'agent/learner/q/layers/0/weight' is float32[1, 2, 8, 2]",
        ),
    ],
)
def test_a_config_that_was_tampered_with(paused, section, field, value, message):
    config = storage.read_json(paused / "config.json")
    config[section][field] = value
    storage.write_json(paused / "config.json", config)
    with pytest.raises(UserError) as error:
        resume(paused)
    assert message in str(error.value)
    assert last_state(paused)[1] == 40


def test_a_config_that_lacks_something(paused):
    config = storage.read_json(paused / "config.json")
    del config["seeds"]
    storage.write_json(paused / "config.json", config)
    with pytest.raises(UserError, match="the configuration lacks seeds"):
        resume(paused)


def test_going_on_with_another_job_is_refused(paused):
    for job, difference in (
        (tiny_job("safedqn", gamma=0.5), "gamma is 0.5 here and 0.99 there"),
        (tiny_job("safedqn", seeds=(0,)), r"seeds is \[0\] here and \[0, 1\] there"),
        (tiny_job("safedqn", "SC..G"), "the map is another"),
    ):
        with pytest.raises(UserError, match=f"holds a run with other settings: {difference}; remove it"):
            resume(paused, expect=job)
    assert last_state(paused)[1] == 40


def test_going_on_for_longer_or_shorter(paused):
    with pytest.raises(UserError, match=r"steps is 70; give a multiple of the chunk \(20\)"):
        resume(paused, {"steps": 70})
    resume(paused, {"steps": 60}, expect=tiny_job("safedqn"))
    assert last_state(paused)[1] == 60
    with pytest.raises(UserError, match="run has 60 steps already; steps is 40: give more steps"):
        resume(paused, {"steps": 40})
    assert storage.read_json(paused / "config.json")["train"]["steps"] == 60
    episodes = load_run(paused).episodes
    resume(paused)  # nothing is left to do
    assert all(np.array_equal(column, episodes[name]) for name, column in load_run(paused).episodes.items())


def test_progress_without_goals_tells_the_return(tmp_path):
    job, seen = stairs_job("safedqn", tiny_agent("safedqn"), 2, 160), []
    job = dataclasses.replace(job, environment=make_stairs(2, success=False))
    train(job, tmp_path / "run", seen.append)
    table = load_run(tmp_path / "run").episodes
    last = table["end_step"] > 160 - seen[-1].count
    assert table["success"].all() and seen[-1].goal_rate == 1.0
    assert seen[-1].ret == pytest.approx(table["return"][last].mean(), rel=1e-5) and seen[-1].cost is None
    train(dataclasses.replace(job, budget_kind="discounted-mean"), tmp_path / "mean", seen.append)
    means = load_run(tmp_path / "mean").episodes
    assert seen[-1].cost == pytest.approx([means[f"cost_{j}"][last].mean() for j in range(2)], rel=1e-5)
    np.testing.assert_array_equal(means["length"], table["length"])  # the walks are the same, as λ stays 0
    assert (means["cost_1"] < table["cost_1"])[table["cost_1"] > 0].all()
