"""Faults of the disk and of processes, prices of requests, counters, and what is never overwritten."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from folders import some_episodes, write_run
from tiny import tiny_job

from safedsr.agent import load
from safedsr.cli import main
from safedsr.core import capacity, normalizer, replay
from safedsr.core.config import LATEST, EpsilonSchedule
from safedsr.engine.program import Program, clock
from safedsr.engine.train import resume, train
from safedsr.envs.grid.layout import make_layout
from safedsr.errors import DiskError, UserError
from safedsr.report.files import comma_separated, markdown, page
from safedsr.report.tables import report
from safedsr.runs import storage
from safedsr.runs.folder import load_run
from safedsr.runs.writer import create_run, is_new, resume_run

pytestmark = pytest.mark.usefixtures("compile_quickly")
CONFIG = {"algorithm": "safedqn", "environment": {"name": "grid"}, "tasks": [], "train": {}}


def fails_from(number: int, monkeypatch: pytest.MonkeyPatch, error: int = errno.ENOSPC) -> None:
    """The disk is full from the nth write on."""
    real, count = storage.os.fsync, [0]

    def fsync(file: int) -> None:
        count[0] += 1
        if count[0] >= number:
            raise OSError(error, os.strerror(error))
        real(file)

    monkeypatch.setattr(storage.os, "fsync", fsync)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, compile_quickly) -> Path:
    """An undisturbed training, compiled as those that are compared with it."""
    return train(tiny_job("safedqn", trajectories=40), tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_a_disk_that_fails_in_a_training(tmp_path, monkeypatch, whole, error):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        fails_from(21, patch, error)
        with pytest.raises(DiskError, match=f"^cannot write .*: {os.strerror(error)}; the last checkpoint is of step "):
            train(tiny_job("safedqn", trajectories=40), out)
    assert not [path for path in out.rglob("*") if storage.TEMPORARY.fullmatch(path.name)]
    resume(out)
    for name in ("episodes", "curves"):
        one, other = (getattr(load_run(folder), name) for folder in (whole, out))
        assert all(one[key].tobytes() == other[key].tobytes() for key in one)


def test_a_full_disk_is_one_line_and_exit_code_1(tmp_path, monkeypatch, capfd, write_map):
    fails_from(1, monkeypatch)
    line = ["train", "safedqn", "--layout", write_map("SCG"), "--out", str(tmp_path / "run")]
    assert main(line) == 1
    (told,) = capfd.readouterr().err.splitlines()
    assert told.startswith("safedsr: cannot write ") and told.endswith("No space left on device")


def test_a_report_on_a_full_disk(tmp_path, monkeypatch, capfd):
    write_run(tmp_path / "run", {(0, 0): some_episodes(0, 2000)}, seeds=[0], steps=2000)
    fails_from(1, monkeypatch)
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 1
    assert "No space left on device" in capfd.readouterr().err.splitlines()[-1]


def test_a_safetensors_error_is_one_of_the_disk(tmp_path):
    (tmp_path / "x.safetensors").mkdir()
    with pytest.raises(DiskError, match=r"cannot write .*x\.safetensors"):
        storage.write_tensors(tmp_path / "x.safetensors", {"a": np.zeros(3)}, {})


KILLED = """
import os, sys
from pathlib import Path
from safedsr.runs import storage
storage.write_atomic(Path(sys.argv[1]), lambda file: (file.write_text("half"), os.kill(os.getpid(), 9)))
"""


def test_temporary_files_of_a_killed_writer_go_with_the_next_write(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a.txt")], check=False)
    (stray,) = tmp_path.iterdir()
    assert storage.TEMPORARY.fullmatch(stray.name)
    (tmp_path / f".{storage.HOST}-{os.getpid()}-alive.tmp").mkdir()  # of a process that still writes
    storage.write_text(tmp_path / "a.txt", "whole")
    assert sorted(path.name[-9:] for path in tmp_path.iterdir()) == ["a.txt", "alive.tmp"]


@pytest.mark.parametrize("left", [(), ("checkpoint/",), ("checkpoint/", "config.json"), ("checkpoint/", ".tmpAbC123")])
def test_a_killed_creation_is_no_dead_end(tmp_path, left):
    run = tmp_path / "run"
    run.mkdir()
    for name in (".lock", *left):
        (run / name).mkdir() if name.endswith("/") else (run / name).write_text("{")
    assert is_new(run)
    with create_run(run, CONFIG, [0], "cpu") as writer:
        writer.checkpoint({"a": np.zeros(1)}, 100)
    assert not is_new(run)
    with resume_run(run) as (writer, _):
        assert writer.last_step() == 100


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"format": "99"}, "format is '99'"),
        ({"step": "-5"}, "step is '-5'"),
        ({"step": "7"}, "step is 7; give the step of the file's name"),
    ],
)
def test_checkpoints_of_other_formats_and_steps(tmp_path, about, says):
    with create_run(tmp_path / "run", CONFIG, [0], "cpu") as writer:
        state = writer.checkpoints / f"state-{100:012d}.safetensors"
        storage.write_tensors(state, {"a": np.zeros(1)}, {"format": "2", "step": "100", **about})
        with pytest.raises(UserError, match=says):
            writer.restore()


def test_a_policy_is_not_overwritten_in_silence(tmp_path, trained):
    agent = load(trained("safedqn"))
    agent.save(tmp_path / "mine")
    with pytest.raises(UserError, match="holds a policy already"):
        agent.save(tmp_path / "mine")
    agent.save(tmp_path / "mine", overwrite=True)
    with pytest.raises(UserError, match="is a run folder"):
        agent.save(trained("safedqn"), overwrite=True)


def test_a_policy_of_nan_is_refused(tmp_path, trained):
    agent = load(trained("safedqn"))
    agent.with_policy(agent.policy._replace(lam=agent.policy.lam * np.nan)).save(tmp_path / "nan")
    with pytest.raises(UserError, match="is not finite everywhere"):
        load(tmp_path / "nan")


def test_pictures_and_reports_are_drawn_again_but_not_over_others(tmp_path, capfd):
    picture = tmp_path / "map.png"
    assert main(["show", "one-room", "--png", str(picture)]) == 0
    assert main(["show", "two-rooms", "--png", str(picture)]) == 0
    picture.write_bytes(b"mine")
    assert main(["show", "one-room", "--png", str(picture)]) == 2
    assert "this command did not write it" in capfd.readouterr().err and picture.read_bytes() == b"mine"


def test_a_report_shows_good_runs_and_lists_bad_ones(tmp_path, capfd):
    for name in ("good", "bad"):
        write_run(tmp_path / name, {(0, 0): some_episodes(0, 2000)}, seeds=[0], steps=2000)
    (tmp_path / "bad" / "config.json").write_text('{"algorithm": null, "train": [], "tasks": 5, "environment": {}}')
    assert main(["report", str(tmp_path)]) == 0
    shown = capfd.readouterr().out
    assert "safedqn" in shown and "remark: left out: " in shown and "config.json: algorithm is None" in shown


def test_names_are_inert(tmp_path):
    folder = write_run(tmp_path / "run", {(0, 0): some_episodes(0, 2000)}, seeds=[0], steps=2000)
    config = json.loads((folder / "config.json").read_text())
    config.pop("sha256")
    config["tasks"][0] |= {"name": "=HYPERLINK(1)", "costs": ["<script>[/x]`|"]}
    (folder / "config.json").write_text(json.dumps(config))
    found = report([folder])
    assert "<script>" not in page(found) and "<script>" not in markdown(found)
    assert "\\<script\\>" in markdown(found)
    assert not [line for line in comma_separated(found).splitlines() if ",=" in line or ',"=' in line]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"seeds": range(50_000)}, "train about .* seeds at a time"),
        ({"train": {"steps": 10**8, "chunk": 10**8}}, "lower chunk: about .* fits"),
        ({"train": {"steps": 10**9, "trajectories": 10**9}}, "lower trajectories: about .* fits"),
        ({"agent": {"hidden": (10**5, 10**5)}}, "GiB are free; lower buffer_size, the networks or the map"),
        ({"agent": {"update_steps": 10**8}}, "lower update_steps or batch_size"),
    ],
)
def test_every_request_is_priced(monkeypatch, settings, says):
    import dataclasses

    monkeypatch.setattr(capacity, "_available", lambda: 64 * 2**20)
    job = tiny_job("safedqn")
    changes = {"seeds": tuple(settings.get("seeds", job.seeds))}
    changes |= {name: dataclasses.replace(getattr(job, name), **settings.get(name, {})) for name in ("agent", "train")}
    with pytest.raises(UserError, match=says):
        Program(dataclasses.replace(job, **changes)).check_memory()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["oracle", "--subcells", "4000"], "at most about"),
        (["oracle", "--walks", "2000000000"], "walks: at most about"),
        (["evaluate", "RUN", "--episodes", "1000000000000"], "simulate at most about"),
        (["certify", "RUN", "--episodes", "3000000000000"], "simulate at most about"),
        (["train", "safedqn", "--layout", "rooms-900", "--costs", "diamond", "--out", "x"], "'rooms-900' is too large"),
    ],
)
def test_large_requests_of_commands(capfd, trained, tmp_path, monkeypatch, args, says):
    monkeypatch.chdir(tmp_path)
    assert main([str(trained("safedqn")) if arg == "RUN" else arg for arg in args]) == 2
    assert says in capfd.readouterr().err and not (tmp_path / "x").exists()


def test_counters_beyond_the_range_of_int32():
    assert clock(2**40) == LATEST and clock(5) == 5
    size, count = 30, jnp.int32(0)
    for total in (25, 60, replay.HIGH + 90):
        count = replay.counted(jnp.int32(total - 10), 10, size)
        assert int(count) % size == total % size and (int(count) >= size) == (total >= size)
        assert int(count) < replay.HIGH + 2 * size
    running = normalizer.init(())._replace(count=jnp.int32(normalizer.HIGH))
    for _ in range(3):
        running = normalizer.push(running, jnp.float32(1.0))
    assert int(running.count) == normalizer.HIGH + 1
    assert EpsilonSchedule(epsilon_from=None, epsilon_to=None).over(10**12).span == (LATEST, LATEST)
    with pytest.raises(UserError, match="epsilon_to is 1000000000000; give a"):
        EpsilonSchedule(epsilon_to=10**12)


def test_a_run_goes_on_beyond_the_range_of_int32(tmp_path, trained):
    """The last steps of a run of more than 2³¹ steps, from a checkpoint that says that it is there already."""
    import shutil

    out = tmp_path / "run"
    shutil.copytree(trained("safedqn"), out)
    (state,) = (out / "checkpoint").glob("state-*")
    tensors, about = storage.read_tensors(state)
    far = 2**31 // 20 * 20 + 20
    state.unlink()
    storage.write_tensors(state.with_name(f"state-{far:012d}.safetensors"), tensors, {**about, "step": str(far)})
    resume(out, {"steps": far + 40})
    assert load_run(out).curves["step"].max() == far + 40


@pytest.mark.parametrize("serpentine", [False, True])
def test_a_large_map_is_checked_in_two_seconds(serpentine):
    import time

    walls = np.zeros((3001, 3001), bool)
    if serpentine:
        walls[1::2] = True
        walls[1::4, -1] = walls[3::4, 0] = False
    began = time.process_time()
    make_layout(walls, np.zeros((0, 3001, 3001)), [(0, 0)], (3000, 3000))
    assert time.process_time() - began < 2


def test_resume_takes_the_same_line_again(tmp_path, capfd, trained, write_map):
    """One line of a script starts the run, continues it, and finds it done."""
    path = write_map("SCG", "corridor.txt")
    tiny = (
        "--seeds 2 --budget 1 --time-limit 12 --steps 160 --chunk 20 --batch-size 8 --buffer-size 40 --train-start 20 "
        "--train-every 5 --sync-every 20 --hidden 8 --epsilon-end 0.2 --epsilon-from 20 --epsilon-to 100 "
        "--penalty-start 60 --lam-lr 0.0625 --preset paper"
    )
    line = ["train", "safedqn", "--layout", path, *tiny.split(), "--out", str(tmp_path / "run"), "--resume"]
    assert main(line) == 0
    first = storage.read_tensors(tmp_path / "run" / "policy.safetensors")[0]
    assert main(line) == 0
    again = storage.read_tensors(tmp_path / "run" / "policy.safetensors")[0]
    assert all(np.array_equal(first[name], again[name]) for name in first)
    other = write_map("SC.G", "other.txt")
    for name, value in (("--budget", "2"), ("--layout", other), ("--seeds", "3"), ("--time-limit", "13")):
        changed = [value if before == name else word for before, word in zip(["", *line], line, strict=False)]
        capfd.readouterr()
        assert main(changed) == 2
        assert f"{name} is " in capfd.readouterr().err


def test_paths_that_no_system_has(capfd, tmp_path):
    for path in ("a\0b", "x" * 300, "/dev/null/run"):
        assert main(["train", "safedqn", "--costs", "diamond", "--out", path]) in (1, 2)
        assert len(capfd.readouterr().err.splitlines()) == 1
    with pytest.raises(UserError, match="is not a run folder"):
        load_run(Path("a\0b"))
