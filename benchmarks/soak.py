"""Faults on purpose: kill -9, signals, full disks, two writers, readers and a jumping clock. Prints a table.

    python benchmarks/soak.py [--share 0.2] [--only train]

A trial passes if the command ends with the promised exit code and without a traceback, if the same line of a script
starts or continues the run, if the final numbers are those of an undisturbed run, and if no temporary file stays.
"""

import argparse
import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.folder import load_run
from safedsr.runs.writer import create_run, resume_run

CLI = [sys.executable, "-m", "safedsr.cli"]
TINY = [
    *("--costs", "diamond", "--time-limit", "60", "--steps", "4000", "--chunk", "100", "--checkpoint-seconds", "0"),
    *(
        "--batch-size",
        "8",
        "--buffer-size",
        "400",
        "--train-start",
        "100",
        "--train-every",
        "10",
        "--sync-every",
        "100",
    ),
]
COMPILED = ["train", "safedqn", *TINY, "--hidden", "8", "--seeds", "2"]
PLUS = [
    "train",
    "safedsr-plus",
    *TINY,
    "--kept",
    "4",
    "--trunk",
    "8",
    "--head",
    "4",
    "--points",
    "16",
    "--phi-batch",
    "4",
]
COST = "def left(obs, action, next_obs, reward, info):\n    return float(action == 0)\n"
CLOCK = """
import random, sys, time
real, shift = time.time, random.Random(0)
time.time = lambda: real() + shift.choice((-3e7, -100, 0, 100, 3e7))
from safedsr.cli import main
sys.exit(main(sys.argv[1:]))
"""
WRITER = """
import sys
from pathlib import Path
import numpy as np
from safedsr.runs.writer import resume_run
with resume_run(Path(sys.argv[1])) as (writer, _):
    found = writer.restore()
    step = found[1] if found else 0
    print("ready", flush=True)
    while True:
        step += 100
        table = {"environment": np.zeros(9, np.int32), "seed": np.zeros(9, np.int64), "step": np.full(9, step)}
        writer.append("curves", table, step)
        writer.checkpoint({"weight": np.full(20_000, step, np.float32)}, step)
        print(step, flush=True)
        if step % 1000 == 0:
            writer.finish()
"""
CONFIG = {"algorithm": "safedqn", "environment": {"name": "grid"}, "tasks": [], "train": {}}


class Row(NamedTuple):
    """A line of the table."""

    what: str
    trials: int
    faults: int  # kills, signals or errors that really happened
    failed: list[str]
    seconds: float


class Soak:
    """Runs trials in a temporary folder."""

    def __init__(self, home: Path, share: float, seed: int) -> None:
        self.home, self.share, self.luck = home, share, random.Random(seed)
        cache = {"JAX_COMPILATION_CACHE_DIR": str(home / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        self.environ = {**os.environ, **cache, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
        (home / "cost.py").write_text(COST)
        self.host = [
            *("train", "safedqn", "--env", "CartPole-v1", "--cost-fn", f"{home / 'cost.py'}:left", "--budget", "5"),
            *(word for word in TINY if word not in ("--costs", "diamond", "--time-limit", "60")),
            *("--time-limit", "60", "--hidden", "8"),
        ]

    def count(self, whole: int) -> int:
        """The number of trials."""
        return max(1, round(whole * self.share))

    def start(self, args: list[str], **more: object) -> subprocess.Popen[str]:
        """A command in the background."""
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "env": self.environ}
        return subprocess.Popen([*CLI, *args], **{**pipes, **more})  # type: ignore[call-overload]

    def finish(self, args: list[str], **more: object) -> tuple[int, str]:
        """The exit code and the last line of a command."""
        process = self.start(args, **more)
        _, told = process.communicate()
        if "Traceback" in told:
            return 99, told.strip().splitlines()[-1]
        return process.returncode, (told.strip().splitlines() or [""])[-1]

    def killed(self, args: list[str], number: int, seconds: float) -> bool:
        """Start a command and send it a signal after some time; whether it was still running."""
        process = self.start(args)
        try:
            process.wait(seconds)
            alive = False
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            alive = True
        _, told = process.communicate()
        if "Traceback" in told:
            raise AssertionError(told.strip().splitlines()[-1])
        return alive


def numbers(folder: Path) -> dict[str, bytes]:
    """All tables and the policy of a run folder, by their values."""
    run = load_run(folder)
    tables = {f"{name}/{key}": x for name in ("episodes", "curves") for key, x in getattr(run, name).items()}
    tables |= storage.read_tensors(folder / "policy.safetensors")[0]
    return {name: np.asarray(x).tobytes() for name, x in tables.items()}


def leftovers(folder: Path) -> list[str]:
    """Temporary files below a folder."""
    return [path.name for path in folder.rglob("*") if storage.TEMPORARY.fullmatch(path.name)]


Trial = Callable[[Soak, Path], int]  # -> faults that happened; raises AssertionError if something was not as promised


def kill_training(args: Callable[[Soak], list[str]], number: int, *, identical: bool = True) -> Trial:
    """Kill a training again and again; the same line with --resume starts and continues it."""

    def trial(soak: Soak, folder: Path) -> int:
        line, faults = [*args(soak), "--out", str(folder / "run"), "--resume"], 0
        typical = undisturbed(soak, args(soak))[1]
        for _ in range(4):
            faults += soak.killed(line, number, soak.luck.uniform(0.3, 1.0) * typical)
        code, told = soak.finish(line)
        assert code == 0, told
        assert not leftovers(folder), leftovers(folder)
        if identical:
            assert numbers(folder / "run") == undisturbed(soak, args(soak))[0], "other numbers"
        return faults

    return trial


_undisturbed: dict[str, tuple[dict[str, bytes], float]] = {}


def undisturbed(soak: Soak, args: list[str]) -> tuple[dict[str, bytes], float]:
    """The numbers and the seconds of an undisturbed run."""
    key = " ".join(args)
    if key not in _undisturbed:
        for n in range(2):  # the first one compiles
            out, began = soak.home / f"undisturbed-{len(_undisturbed)}-{n}", time.monotonic()
            code, told = soak.finish([*args, "--out", str(out)])
            assert code == 0, told
        _undisturbed[key] = numbers(out), time.monotonic() - began
    return _undisturbed[key]


def kill_writer(soak: Soak, folder: Path) -> int:
    """Kill a process that does nothing but save; what it said to be saved must be there."""
    run = folder / "run"
    with create_run(run, CONFIG, [0], "cpu"):
        pass
    last = 0
    for _ in range(10):
        args = [sys.executable, "-c", WRITER, str(run)]
        process = subprocess.Popen(args, stdout=subprocess.PIPE, text=True, env=soak.environ)
        assert process.stdout
        process.stdout.readline()
        time.sleep(soak.luck.uniform(0, 0.08))
        process.kill()
        steps = [int(line) for line in process.communicate()[0].splitlines() if line.strip().isdigit()]
        last = max([last, *steps])
        with resume_run(run) as (writer, _):
            found = writer.restore()
            step = found[1] if found else 0
            assert step >= last, f"saved {last}, found {step}"
            assert found is None or (found[0]["weight"] == step).all()
            assert not leftovers(run), leftovers(run)
        table = load_run(run).curves
        assert len(table.get("step", ())) == 9 * step // 100, "rows are lost or doubled"
        last = step
    return 10


def kill_creation(soak: Soak, folder: Path) -> int:
    """Kill a process while it creates a run folder; the next one creates it."""
    code = (
        "import sys\nfrom safedsr.runs.writer import create_run\nprint('ready', flush=True)\n"
        f"with create_run(sys.argv[1], {CONFIG!r}, [0], 'cpu'): pass"
    )
    for n in range(10):
        run = folder / f"run-{n}"
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True, env=soak.environ
        )
        assert process.stdout
        process.stdout.readline()
        time.sleep(soak.luck.uniform(0, 0.02))
        process.kill()
        process.communicate()
        if not (run / "manifest.json").exists():
            with create_run(run, CONFIG, [0], "cpu"):
                pass
        with resume_run(run):
            assert not leftovers(run)
    return 10


def small_disk(limit: Callable[[int], None]) -> Trial:
    """Train on a disk on which files cannot become large; then continue without that limit."""

    def trial(soak: Soak, folder: Path) -> int:
        line = [*COMPILED, "--out", str(folder / "run"), "--resume"]
        size = soak.luck.choice((1_000, 3_000, 6_000, 9_000))
        code, told = soak.finish(line, preexec_fn=lambda: limit(size))
        assert code == 1 and told.startswith("safedsr: cannot write"), (code, told)
        code, told = soak.finish(line)
        assert code == 0, told
        assert numbers(folder / "run") == undisturbed(soak, COMPILED)[0], "other numbers"
        assert not leftovers(folder), leftovers(folder)
        return 1

    return trial


def file_limit(size: int) -> None:
    """No file of this process may be larger."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def full_tmpfs(soak: Soak, folder: Path) -> int:
    """Train on a tmpfs of some kilobytes that is full after a while; then make it larger."""
    disk = folder / "disk"
    disk.mkdir()
    size = soak.luck.choice((100, 160, 240))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk)], check=True)
    try:
        line = [*COMPILED, "--out", str(disk / "run"), "--resume"]
        code, told = soak.finish(line)
        assert code == 1 and told.startswith("safedsr: cannot write"), (code, told)
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        code, told = soak.finish(line)
        assert code == 0, told
        assert numbers(disk / "run") == undisturbed(soak, COMPILED)[0], "other numbers"
        assert not leftovers(disk), leftovers(disk)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)  # a file of it may still be mapped here
    return 1


def gone(soak: Soak, folder: Path) -> int:
    """Remove the run folder while a training runs."""
    import shutil

    run, typical = folder / "run", undisturbed(soak, COMPILED)[1]
    process = soak.start([*COMPILED, "--out", str(run), "--steps", "400000"])
    for _ in range(200):
        if list(run.glob("checkpoint/state-*")):
            break
        time.sleep(typical / 20)
    shutil.rmtree(run, ignore_errors=True)
    _, told = process.communicate(timeout=120)
    last = (told.strip().splitlines() or [""])[-1]
    assert process.returncode == 1 and "Traceback" not in told and last.startswith("safedsr: cannot write"), last
    return 1


def two_writers(soak: Soak, folder: Path) -> int:
    """Two processes with the same line: one trains, the other is refused, and both can be repeated."""
    line = [*COMPILED, "--out", str(folder / "run"), "--resume"]
    both = [soak.start(line), soak.start(line)]
    found = [(process.communicate()[1].strip().splitlines() or [""])[-1] for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 0], [0, 2]), (codes, found)
    assert codes == [0, 0] or any("is in use by another process" in told for told in found), found
    assert numbers(folder / "run") == undisturbed(soak, COMPILED)[0], "other numbers"
    return codes.count(2)


def readers(soak: Soak, folder: Path) -> int:
    """Read the tables again and again while a training writes and merges them."""
    run, stop, errors, reads = folder / "run", threading.Event(), [], [0]

    def read() -> None:
        while not stop.is_set():
            try:
                load_run(run)
                reads[0] += 1
            except UserError as error:
                if "is not a run folder" not in str(error):
                    errors.append(str(error))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        code, told = soak.finish([*COMPILED, "--out", str(run)])
    finally:
        stop.set()
        thread.join()
    assert code == 0 and not errors, (told, errors[:1])
    assert numbers(run) == undisturbed(soak, COMPILED)[0], "other numbers"
    return reads[0]


def jumping_clock(soak: Soak, folder: Path) -> int:
    """Train with a clock that jumps by a year, forwards and backwards."""
    args = [sys.executable, "-c", CLOCK, *COMPILED, "--out", str(folder / "run")]
    done = subprocess.run(args, env=soak.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]
    assert numbers(folder / "run") == undisturbed(soak, COMPILED)[0], "other numbers"
    return 1


def kill_adapt(soak: Soak, folder: Path) -> int:
    """Kill an adaptation at a random moment; the same line then does it, and the certificate is the same."""
    run = soak.home / "plus"
    if not run.exists():
        assert soak.finish([*PLUS, "--out", str(run)])[0] == 0
    line = ["adapt", str(run), "--costs", "square", "--level", "penalty", "--episodes", "50"]
    if not (soak.home / "adapted").exists():
        for name in ("adapted-first", "adapted"):  # the first one compiles
            began = time.monotonic()
            assert soak.finish([*line, "--out", str(soak.home / name)])[0] == 0
        soak.luck.typical = time.monotonic() - began  # type: ignore[attr-defined]
    typical, faults = soak.luck.typical, 0  # type: ignore[attr-defined]
    line = [*line, "--out", str(folder / "adapted")]
    for part in (1.0, 0.9):
        if not (folder / "adapted" / "policy.json").exists():
            faults += soak.killed(line, signal.SIGKILL, soak.luck.uniform(0.5, part) * typical)
    if not (folder / "adapted" / "policy.json").exists():
        code, told = soak.finish(line)
        assert code == 0, told
    one, other = (storage.read_tensors(path / "adapted" / "policy.safetensors")[0] for path in (soak.home, folder))
    assert all(np.array_equal(one[name], other[name]) for name in one), "other numbers"
    assert not leftovers(folder), leftovers(folder)
    return faults


def kill_reproduce(soak: Soak, folder: Path) -> int:
    """Kill an experiment at random moments; the same line continues it to the same numbers."""
    line = ["reproduce", "baselines", "--quick", "--algos", "safedqn", "--layouts", "one-room", "--seeds", "1", "--out"]
    whole = soak.home / "reproduced"
    if not whole.exists():
        for _ in range(2):
            began = time.monotonic()
            assert soak.finish([*line, str(whole)])[0] == 0
        soak.luck.whole = 4 + time.monotonic() - began  # type: ignore[attr-defined]
    faults = 0
    for _ in range(3):
        seconds = soak.luck.uniform(0.3, 1.0) * soak.luck.whole  # type: ignore[attr-defined]
        faults += soak.killed([*line, str(folder / "out")], signal.SIGKILL, seconds)
    code, told = soak.finish([*line, str(folder / "out")])
    assert code == 0, told
    for path in whole.glob("*/policy.json"):
        name = path.parent.name
        assert numbers(folder / "out" / name) == numbers(whole / name), "other numbers"
    assert not leftovers(folder), leftovers(folder)
    return faults


def can_mount() -> bool:
    """Whether this user may mount a tmpfs."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False)
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return done.returncode == 0


def trials() -> dict[str, tuple[int, Trial]]:
    """The name of each row, its number of trials and what a trial does."""
    found: dict[str, tuple[int, Trial]] = {
        "writer alone: kill -9 while it saves (10 a trial)": (30, kill_writer),
        "creation of a folder: kill -9 (10 a trial)": (10, kill_creation),
        "train, compiled: kill -9": (10, kill_training(lambda soak: COMPILED, signal.SIGKILL)),
        "train, compiled: SIGTERM": (3, kill_training(lambda soak: COMPILED, signal.SIGTERM)),
        "train, compiled: SIGHUP": (2, kill_training(lambda soak: COMPILED, signal.SIGHUP)),
        "train, host (Gymnasium): kill -9": (4, kill_training(lambda soak: soak.host, signal.SIGKILL, identical=False)),
        "adapt: kill -9": (5, kill_adapt),
        "reproduce: kill -9": (3, kill_reproduce),
        "train: files limited (EFBIG)": (4, small_disk(file_limit)),
        "train: run folder removed": (2, gone),
        "train: two writers": (4, two_writers),
        "train: readers in a loop": (3, readers),
        "train: clock jumps by a year": (2, jumping_clock),
    }
    if can_mount():
        found["train: tmpfs full (ENOSPC)"] = (4, full_tmpfs)
    else:
        print("no tmpfs: this user may not mount one", file=sys.stderr)
    return found


@contextlib.contextmanager
def fresh(home: Path) -> Iterator[Path]:
    """A folder for one trial."""
    with tempfile.TemporaryDirectory(dir=home) as folder:
        yield Path(folder)


def run_row(soak: Soak, what: str, count: int, trial: Trial) -> Row:
    """All trials of a row."""
    began, failed, faults = time.monotonic(), [], 0
    for _ in range(count):
        with fresh(soak.home) as folder:
            try:
                faults += trial(soak, folder)
            except (AssertionError, UserError, OSError, subprocess.SubprocessError) as error:
                failed.append(f"{type(error).__name__}: {error}")
    return Row(what, count, faults, failed, time.monotonic() - began)


def main() -> None:
    """Run all trials and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="share of the trials")
    parser.add_argument("--only", nargs="*", default=[], help="rows whose names contain one of these words")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bad = 0
    print("| what | trials | faults | failed | seconds |\n|---|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as home:
        soak = Soak(Path(home), options.share, options.seed)
        for what, (count, trial) in trials().items():
            if options.only and not any(word in what for word in options.only):
                continue
            row = run_row(soak, what, soak.count(count), trial)
            bad += len(row.failed)
            print(f"| {row.what} | {row.trials} | {row.faults} | {len(row.failed)} | {row.seconds:.0f} |", flush=True)
            for reason in row.failed[:3]:
                print(f"  {what}: {reason[:300]}", file=sys.stderr, flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
