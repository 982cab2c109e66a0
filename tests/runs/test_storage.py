import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from safedsr.errors import UserError
from safedsr.runs import storage

HOLD = """
import sys, time
from pathlib import Path
from safedsr.runs.storage import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
TABLE = {
    "seed": np.array([0, 0, 1], np.int64),
    "environment": np.array([0, 1, 0], np.int32),
    "cost_0": np.array([0.1, 2.5, 1e30], np.float32),
    "success": np.array([True, False, True]),
}


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_same_table(found: storage.Columns, expected: storage.Columns) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].dtype == expected[name].dtype, name
        np.testing.assert_array_equal(found[name], expected[name])


def test_a_writer_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    storage.write_json(path, {"a": 1})

    def write(file):
        file.write_text("half a fi")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        storage.write_atomic(path, write)
    assert storage.read_json(path) == {"a": 1}
    assert names(tmp_path) == ["a.json"]


def test_a_writer_never_shows_half_a_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write(file):
        file.write_text("new")
        assert tmp_path in file.parents and path.read_text() == "old"

    storage.write_atomic(path, write)
    assert path.read_text() == "new" and names(tmp_path) == ["a.txt"]


def test_json_round_trip_and_what_json_cannot_say(tmp_path):
    path = tmp_path / "a.json"
    data = {"λ": [1, 2.5, None, True], "name": "zwölf"}
    storage.write_json(path, data)
    assert storage.read_json(path) == data and "zwölf" in path.read_text(encoding="utf-8")
    with pytest.raises(ValueError):
        storage.write_json(path, {"bad": float("nan")})
    assert storage.read_json(path) == data


def test_tensors_keep_shape_type_and_words(tmp_path):
    tensors = {
        "scalar": np.array(3.5, np.float32),
        "turned": np.arange(6, dtype=np.int32).reshape(2, 3).T,
        "none": np.zeros((0, 2), bool),
        "keys": np.array([1, 2**32 - 1], np.uint32),
    }
    storage.write_tensors(tmp_path / "t.safetensors", tensors, {"step": "7"})
    found, about = storage.read_tensors(tmp_path / "t.safetensors")
    assert about == {"step": "7"}
    for name, tensor in tensors.items():
        assert found[name].shape == tensor.shape, name
    assert_same_table(found, tensors)


@pytest.mark.parametrize("rows", [3, 0])
def test_parquet_and_safetensors_tables_read_alike(tmp_path, monkeypatch, rows):
    table = {name: column[:rows] for name, column in TABLE.items()}
    assert storage.write_table(tmp_path / "with", table, {"step": "7"}).suffix == ".parquet"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        assert storage.write_table(tmp_path / "without", table, {"step": "7"}).suffix == ".safetensors"
    for stem in ("with", "without"):
        found = storage.read_table(tmp_path / stem)
        assert found is not None
        assert_same_table(found[0], table)
        assert found[1]["step"] == "7"
    assert storage.read_table(tmp_path / "nowhere") is None


@pytest.mark.parametrize("first", ["parquet", "safetensors"])
def test_a_table_that_changes_format_is_read_in_its_newer_form(tmp_path, monkeypatch, first):
    """A run may be resumed where pyarrow is missing, or no longer is."""
    formats = ["parquet", "safetensors"] if first == "parquet" else ["safetensors", "parquet"]
    for number, suffix in enumerate(formats):
        with monkeypatch.context() as patch:
            if suffix == "safetensors":
                patch.setitem(sys.modules, "pyarrow", None)
            storage.write_table(tmp_path / "t", {"x": np.full(number + 1, number)}, {})
    found = storage.read_table(tmp_path / "t")
    assert found is not None
    np.testing.assert_array_equal(found[0]["x"], [1, 1])
    assert names(tmp_path) == [f"t.{formats[1]}"]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    storage.write_table(tmp_path / "t", TABLE, {})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"t.parquet needs pyarrow to be read; pip install 'safedsr\[parquet\]'"):
        storage.read_table(tmp_path / "t")


@pytest.mark.parametrize("content", [b"", b"\x00\xff half", b'{"a": '])
def test_damaged_files_are_named(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"bad\.json is damaged"):
        storage.read_json(path)
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"bad\.safetensors is damaged"):
        storage.read_tensors(path)
    (tmp_path / "table.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"table\.parquet is damaged"):
        storage.read_table(tmp_path / "table")


def test_cut_off_files_are_named(tmp_path):
    storage.write_tensors(tmp_path / "t.safetensors", TABLE, {})
    storage.write_table(tmp_path / "u", TABLE, {})
    for path in (tmp_path / "t.safetensors", tmp_path / "u.parquet"):
        path.write_bytes(path.read_bytes()[:-5])
        with pytest.raises(UserError, match=rf"{path.name} is damaged"):
            storage.read_table(path.with_suffix(""))


def test_missing_files_are_told_apart_from_damaged_ones(tmp_path):
    with pytest.raises(storage.MissingFile, match=r"a\.json is missing"):
        storage.read_json(tmp_path / "a.json")
    with pytest.raises(storage.MissingFile, match=r"a\.safetensors is missing"):
        storage.read_tensors(tmp_path / "a.safetensors")


def test_concatenate():
    found = storage.concatenate([TABLE, {name: column[:1] for name, column in TABLE.items()}])
    np.testing.assert_array_equal(found["seed"], [0, 0, 1, 0])
    assert found["success"].dtype == bool
    assert storage.concatenate([]) == {}


def test_a_lock_keeps_others_out_until_its_process_dies(tmp_path):
    path = tmp_path / ".lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="is in use by another process"), storage.lock(path):
            pytest.fail("two processes hold the lock")
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    with storage.lock(path):
        second = subprocess.run([sys.executable, "-c", HOLD, str(path)], capture_output=True, text=True)
    assert second.returncode == 1 and f"{tmp_path} is in use by another process" in second.stderr


def test_unclaimed_files_are_those_that_nobody_has_or_makes(tmp_path):
    paths = [tmp_path / f"{n}.json" for n in range(4)]
    paths[0].write_text("done")
    with storage.lock(paths[1].with_suffix(".lock")):  # another process is at it
        for path in storage.unclaimed(paths):
            assert list(storage.unclaimed([path])) == []
            path.write_text("mine")
    assert [path.exists() for path in paths] == [True, False, True, True]
    assert paths[0].read_text() == "done" and paths[2].read_text() == "mine"
    assert list(storage.unclaimed(paths)) == [paths[1]]
