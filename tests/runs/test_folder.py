import sys

import numpy as np
import pytest

from safedsr.errors import UserError
from safedsr.runs import folder as runs
from safedsr.runs import storage
from safedsr.runs.folder import load_run
from safedsr.runs.writer import RunWriter, create_run, resume_run

CONFIG = {"algorithm": "safedsr", "note": "zwölf", "train": {}, "environment": {"name": "grid"}, "tasks": []}


def rows(*end_steps: int, seed: int = 0, environment: int = 0, costs: int = 1) -> storage.Columns:
    count = len(end_steps)
    return {
        "seed": np.full(count, seed),
        "environment": np.full(count, environment, np.int32),
        "end_step": np.array(end_steps, np.int64),
        "length": np.full(count, 10, np.int32),
        "return": np.full(count, 0.5, np.float32),
        "success": np.full(count, True),
        **{f"cost_{j}": np.full(count, j, np.float32) for j in range(costs)},
    }


def curve(step: int) -> storage.Columns:
    where = {"environment": np.zeros(1, np.int32), "seed": np.zeros(1, np.int64)}
    return {**where, "step": np.array([step]), "lam_0": np.array([0.5], np.float32)}


def write(path, *steps: int, seeds=(0,), finish: bool = False) -> None:
    """A run with a part of each table and a checkpoint at each of `steps`."""
    with create_run(path, CONFIG, list(seeds), "cpu") as writer:
        for step in steps:
            writer.append("episodes", rows(step - 5, step), step)
            writer.append("curves", curve(step), step)
            writer.checkpoint({"weight": np.full(3, step, np.float32)}, step)
        if finish:
            writer.finish()


def snapshot(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_run_says_how_it_was_made(tmp_path):
    write(tmp_path / "deep" / "run", seeds=(3, 1))
    run = load_run(tmp_path / "deep" / "run")
    assert run.config == CONFIG and run.seeds == [3, 1]
    assert run.manifest["format"] == runs.FORMAT and run.manifest["device"] == "cpu"
    assert {"safedsr", "jax", "numpy"} <= run.manifest["versions"].keys()
    assert run.episodes == run.curves == {} and run.by_seed() == []


@pytest.mark.parametrize("finish", [False, True])
def test_tables_read_alike_before_and_after_the_merge(tmp_path, finish):
    write(tmp_path / "run", 100, 200, finish=finish)
    run = load_run(tmp_path / "run")
    np.testing.assert_array_equal(run.episodes["end_step"], [95, 100, 195, 200])
    np.testing.assert_array_equal(run.curves["step"], [100, 200])
    assert run.episodes["success"].dtype == bool and run.episodes["cost_0"].dtype == np.float32
    parts = [path.name for path in (tmp_path / "run" / "checkpoint").iterdir()]
    assert ("episodes-000000000100.safetensors" in parts) is not finish
    assert (tmp_path / "run" / "episodes.parquet").exists() is finish


def test_only_the_last_checkpoint_is_kept(tmp_path):
    write(tmp_path / "run", 100, 200)
    states = [path.name for path in (tmp_path / "run" / "checkpoint").glob("state-*")]
    assert states == ["state-000000000200.safetensors"]


def test_restore_forgets_what_came_after_the_checkpoint(tmp_path):
    write(tmp_path / "run", 100, 200)
    with resume_run(tmp_path / "run") as (writer, config):
        writer.append("episodes", rows(290, 300), 300)
        writer.append("curves", curve(300), 300)
        writer.append("trajectories", {"position": np.zeros((1, 1, 1, 2))}, 300)
        assert len(load_run(tmp_path / "run").episodes["seed"]) == 6
        restored = writer.restore()
        assert config == CONFIG and restored is not None
        np.testing.assert_array_equal(restored[0]["weight"], [200, 200, 200])
        assert restored[1] == 200
    run = load_run(tmp_path / "run")
    np.testing.assert_array_equal(run.episodes["end_step"], [95, 100, 195, 200])
    np.testing.assert_array_equal(run.curves["step"], [100, 200])
    with pytest.raises(UserError, match="kept no trajectories"):
        runs.load_trajectories(tmp_path / "run")


def test_restore_before_the_first_checkpoint(tmp_path):
    with create_run(tmp_path / "run", CONFIG, [0], "cpu") as writer:
        writer.append("episodes", rows(50), 50)
        assert writer.restore() is None
    assert load_run(tmp_path / "run").episodes == {}


@pytest.mark.parametrize("change", [None, "pyarrow went", "pyarrow came"])
def test_a_finished_run_can_be_made_longer(tmp_path, monkeypatch, change):
    with monkeypatch.context() as patch:
        if change == "pyarrow came":
            patch.setitem(sys.modules, "pyarrow", None)
        write(tmp_path / "run", 100, finish=True)
    with resume_run(tmp_path / "run") as (writer, _):
        assert writer.restore() is not None
        writer.append("episodes", rows(195, 200), 200)
        writer.checkpoint({"weight": np.zeros(1)}, 200)
        if change == "pyarrow went":
            monkeypatch.setitem(sys.modules, "pyarrow", None)
            with pytest.raises(UserError, match=r"episodes.parquet needs pyarrow"):
                writer.finish()
            monkeypatch.undo()
        writer.finish()
    np.testing.assert_array_equal(load_run(tmp_path / "run").episodes["end_step"], [95, 100, 195, 200])


def test_a_merge_that_was_cut_short_counts_nothing_twice(tmp_path, monkeypatch):
    write(tmp_path / "run", 100, 200)
    before = load_run(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", lambda *args, **kwargs: None)
        RunWriter(tmp_path / "run").finish()
    assert (tmp_path / "run" / "checkpoint" / "episodes-000000000200.safetensors").exists()
    after = load_run(tmp_path / "run")
    for name, column in before.episodes.items():
        np.testing.assert_array_equal(after.episodes[name], column)


@pytest.mark.parametrize("moment", ["before the table is looked for", "after it"])
def test_reading_while_the_parts_are_merged(tmp_path, monkeypatch, moment):
    write(tmp_path / "run", 100, 200)
    read_table = storage.read_table
    writer = RunWriter(tmp_path / "run")

    def read_while_merging(stem):
        if moment == "before the table is looked for":
            monkeypatch.undo()
            writer.finish()
            return read_table(stem)
        found = read_table(stem)
        monkeypatch.undo()
        writer.finish()
        return found

    monkeypatch.setattr(storage, "read_table", read_while_merging)
    np.testing.assert_array_equal(load_run(tmp_path / "run").episodes["end_step"], [95, 100, 195, 200])


def test_a_folder_with_anything_in_it_is_not_touched(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with (
        pytest.raises(UserError, match="is not empty; choose another folder, or --resume"),
        create_run(tmp_path, CONFIG, [0], "cpu"),
    ):
        pytest.fail("the folder was taken")
    assert (tmp_path / "letter.txt").read_text() == "dear" and not (tmp_path / "manifest.json").exists()
    with (
        pytest.raises(UserError, match=r"cannot make the folder .*letter.txt: File exists"),
        create_run(tmp_path / "letter.txt", CONFIG, [0], "cpu"),
    ):
        pytest.fail("a file was taken for a folder")


def test_an_empty_folder_will_do(tmp_path):
    with create_run(tmp_path, CONFIG, [0], "cpu"):
        pass
    assert load_run(tmp_path).seeds == [0]


def test_one_writer_at_a_time(tmp_path):
    with (
        create_run(tmp_path / "run", CONFIG, [0], "cpu"),
        pytest.raises(UserError, match="in use by another process"),
        resume_run(tmp_path / "run"),
    ):
        pytest.fail("two writers")
    with resume_run(tmp_path / "run") as (writer, _):
        assert writer.path == tmp_path / "run"


@pytest.mark.parametrize("found", [3, None, "1"])
def test_other_formats_are_refused_and_left_alone(tmp_path, found):
    write(tmp_path / "run", 100)
    manifest = storage.read_json(tmp_path / "run" / "manifest.json")
    storage.write_json(tmp_path / "run" / "manifest.json", {**manifest, "format": found})
    before = snapshot(tmp_path / "run")
    with pytest.raises(UserError, match=f"has run format {found}; this version reads up to 2"):
        load_run(tmp_path / "run")
    with pytest.raises(UserError, match="has run format"), resume_run(tmp_path / "run"):
        pytest.fail("a strange run was resumed")
    assert snapshot(tmp_path / "run") == before


def test_what_is_no_run_folder(tmp_path):
    with pytest.raises(UserError, match=r"nowhere is not a run folder \(no such folder\)"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"is not a run folder \(no manifest.json in it\)"):
        load_run(tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "episodes.parquet"])
def test_damage_names_the_file(tmp_path, name):
    write(tmp_path / "run", 100, finish=True)
    (tmp_path / "run" / name).write_bytes(b"{ nonsense")
    with pytest.raises(UserError, match=f"{name} is damaged"):
        load_run(tmp_path / "run")


def test_a_damaged_checkpoint_is_named(tmp_path):
    write(tmp_path / "run", 100)
    state = tmp_path / "run" / "checkpoint" / "state-000000000100.safetensors"
    state.write_bytes(state.read_bytes()[:-4])
    with resume_run(tmp_path / "run") as (writer, _), pytest.raises(UserError, match=f"{state.name} is damaged"):
        writer.restore()


def test_episodes_by_seed_and_environment(tmp_path):
    with create_run(tmp_path / "run", CONFIG, [7, 2, 9], "cpu") as writer:
        tables = [rows(20, seed=2), rows(30, 60, seed=7), rows(40, seed=2, environment=1), rows(90, seed=2)]
        writer.append("episodes", storage.concatenate(tables), 100)
    run = load_run(tmp_path / "run")
    assert [list(episodes.end_step) for episodes in run.by_seed()] == [[30, 60], [20, 90], []]
    assert [list(episodes.end_step) for episodes in run.by_seed(1)] == [[], [40], []]
    first = run.by_seed()[0]
    assert first.cost.shape == (2, 1) and first.success.all() and list(first.ret) == [0.5, 0.5]


@pytest.mark.parametrize("costs", [0, 2, 12])
def test_costs_stay_in_order(tmp_path, costs):
    with create_run(tmp_path / "run", CONFIG, [0], "cpu") as writer:
        writer.append("episodes", rows(10, costs=costs), 10)
        writer.finish()
    np.testing.assert_array_equal(load_run(tmp_path / "run").by_seed()[0].cost, [np.arange(costs)])
