"""Run folders: all files that a training run writes, and how they are read.

    config.json  manifest.json  episodes.parquet  curves.parquet  progress.csv  checkpoint/  figures/
    policy.safetensors  policy.json  memory.safetensors (SafeDSR: replay memory of its policies)

Seeds and environments are columns of the tables. During training, tables are written in parts beside the checkpoints.
A part newer than the last checkpoint is dropped on resume, because the resumed run repeats its steps.
"""

import contextlib
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.format1 import upgrade_config, upgrade_episodes
from safedsr.runs.metrics import Episodes
from safedsr.runs.schema import CONFIG, MANIFEST, check_config, check_manifest
from safedsr.runs.storage import Columns
from safedsr.validation import in_file, require

FORMAT, READABLE = 2, (1, 2)
TABLES = ("episodes", "curves")
NAMES = (*TABLES, "trajectories")  # stored as arrays: positions have too many axes for a table
LOCK, STATES = ".lock", "checkpoint"
PLACE = {"environment": "iu", "seed": "iu"}  # columns of all tables, and their types
COLUMNS = {
    "episodes": {**PLACE, "end_step": "iu", "length": "iu", "return": "f", "success": "b"},
    "curves": {**PLACE, "step": "iu"},
    "trajectories": {"step": "iu", "position": "f", "done": "b"},
}


@dataclass(frozen=True, eq=False)
class Run:
    """The content of a run folder, in the current format."""

    path: Path
    config: dict[str, Any]
    manifest: dict[str, Any]
    episodes: Columns
    curves: Columns

    @property
    def seeds(self) -> list[int]:
        """The seeds that were trained."""
        return list(self.manifest["seeds"])

    def by_seed(self, task: int = 0) -> list[Episodes]:
        """The episodes of each seed in one of the run's tasks."""
        table = self.episodes
        if not table:
            return []
        costs = [table[f"cost_{j}"] for j in range(sum(name.startswith("cost_") for name in table))]
        here = table["environment"] == task
        cost = np.stack(costs, 1) if costs else np.zeros((len(here), 0))
        return [
            Episodes(
                end_step=table["end_step"][rows],
                length=table["length"][rows],
                ret=table["return"][rows],
                cost=cost[rows],
                success=table["success"][rows],
            )
            for rows in (here & (table["seed"] == seed) for seed in self.seeds)
        ]


class RunWriter:
    """Writes a run folder that this process has locked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / STATES

    def append(self, name: str, table: Columns, step: int) -> None:
        """Write rows recorded up to `step`; they become valid with the checkpoint of that step."""
        storage.write_tensors(self.checkpoints / f"{name}-{step:012d}.safetensors", table, {"step": str(step)})

    def checkpoint(self, tensors: Mapping[str, np.ndarray], step: int) -> None:
        """Save the training state of `step`, then delete the previous one."""
        older = self._states()
        storage.write_tensors(self._state(step), tensors, {"step": str(step), "format": str(FORMAT)})
        with storage.disk(self.checkpoints):
            for path in older:
                if path != self._state(step):
                    path.unlink()

    def restore(self) -> tuple[dict[str, np.ndarray], int] | None:
        """The last checkpoint and its step, or None; deletes rows that were recorded after it."""
        found = self.last_state()
        if found is None and any(storage.read_table(self.path / name) for name in TABLES):
            raise UserError(
                f"{self.path} has results but no checkpoint and cannot be resumed; train into another folder"
            )
        step = found[1] if found else 0
        with storage.disk(self.checkpoints):
            for name in NAMES:
                for part in _parts(self.path, name):
                    if _part_step(part) > step:
                        part.unlink()
        return found

    def last_step(self) -> int | None:
        """The step of the last checkpoint, or None."""
        states = self._states()
        return _part_step(states[-1]) if states else None

    def note(self, name: str, value: Any) -> None:
        """Add a value to a list in the manifest."""
        manifest = read_manifest(self.path)
        self.write_json(MANIFEST, {**manifest, name: [*manifest.get(name, []), value]})

    def last_state(self) -> tuple[dict[str, np.ndarray], int] | None:
        """The last checkpoint and its step, or None."""
        states = self._states()
        if not states:
            return None
        tensors, about = storage.read_tensors(states[-1])
        step, found = storage.whole_number(about, "step", states[-1]), about.get("format")
        with in_file(states[-1]):
            require(found == str(FORMAT), "format", found, f"this version continues checkpoints of format {FORMAT}")
            require(step == _part_step(states[-1]), "step", step, "give the step of the file's name")
        return tensors, step

    def finish(self, trajectories: int = 0) -> None:
        """Merge the parts of each table into one file; keep the last `trajectories` steps of the positions (0: all)."""
        for name in NAMES:
            parts = _parts(self.path, name)
            if parts:
                table, step = _read_whole(self.path, name)
                if name in TABLES:
                    # A stable sort: the rows of a seed stay in the order of time.
                    order = np.lexsort((table["seed"], table["environment"]))
                    table = {column: values[order] for column, values in table.items()}
                    storage.write_table(self.path / name, table, {"step": str(step)})
                else:
                    table = {column: values[-trajectories:] for column, values in table.items()}
                    storage.write_tensors(self.path / f"{name}.safetensors", table, {"step": str(step)})
                with storage.disk(self.checkpoints):
                    for part in parts:
                        part.unlink()

    def write_json(self, name: str, data: Any) -> None:
        """Write a JSON file with a checksum into the folder."""
        storage.write_json(self.path / name, data, signed=True)

    def _state(self, step: int) -> Path:
        return self.checkpoints / f"state-{step:012d}.safetensors"

    def _states(self) -> list[Path]:
        return _parts(self.path, "state")


@contextlib.contextmanager
def create_run(path: str | Path, config: dict[str, Any], seeds: list[int], device: str) -> Iterator[RunWriter]:
    """Create and lock a new run folder; a folder that is not empty is refused.

    What a process left that was killed while it created the folder is no hindrance.
    """
    path = storage.make_folder(Path(path))
    _require_new(path)
    manifest = _manifest(seeds, device)  # before the lock, which the process of git would hold for a moment
    with storage.lock(path / LOCK):
        _require_new(path)  # again: another process may have written to it before the lock
        with storage.disk(path):
            storage.sweep(path, locked=True)
            shutil.rmtree(path / STATES, ignore_errors=True)
            (path / STATES).mkdir()
        writer = RunWriter(path)
        writer.write_json(CONFIG, config)
        # The manifest is written last: a folder with a manifest is a valid run folder.
        writer.write_json(MANIFEST, manifest)
        yield writer


def is_new(path: Path) -> bool:
    """Whether a run can be created here: no such folder, an empty one, or one whose creation was not finished."""
    if not path.exists():
        return True
    if not path.is_dir():
        return False
    entries = [entry for entry in path.iterdir() if not storage.TEMPORARY.fullmatch(entry.name)]
    states = path / STATES
    empty = not states.is_dir() or all(storage.TEMPORARY.fullmatch(entry.name) for entry in states.iterdir())
    return empty and {entry.name for entry in entries} <= {LOCK, CONFIG, STATES}


def _require_new(path: Path) -> None:
    if not is_new(path):
        if is_file(path / LOCK):
            with storage.lock(path / LOCK):  # raises if another process trains in it
                pass
        raise UserError(f"{path} is not empty; choose another folder, or --resume to continue the run in it")


@contextlib.contextmanager
def resume_run(path: str | Path) -> Iterator[tuple[RunWriter, dict[str, Any]]]:
    """Lock an existing run folder to continue it; gives its writer and its configuration."""
    path = Path(path)
    found = read_manifest(path)["format"]
    if found != FORMAT:
        raise UserError(
            f"{path} has run format {found}, which this version can read but not resume; train again, or resume with "
            f"the version of safedsr that wrote it (commit {read_manifest(path).get('commit') or 'unknown'})"
        )
    with storage.lock(path / LOCK):
        with storage.disk(path):
            (path / STATES).mkdir(exist_ok=True)
            for folder in (path, path / STATES):
                storage.sweep(folder, locked=True)
        yield RunWriter(path), load_config(path)


def load_checkpoint(path: str | Path) -> dict[str, np.ndarray]:
    """The last saved training state of a run, as named arrays."""
    read_manifest(Path(path))
    found = RunWriter(Path(path)).last_state()
    if found is None:
        raise UserError(f"{path} has no checkpoint; train it first")
    return found[0]


def load_trajectories(path: str | Path) -> Columns:
    """Saved positions of a run: step [n], position [n, E, S, 2] in cells, done [n, E, S]."""
    read_manifest(Path(path))
    table, _ = _read_whole(Path(path), "trajectories")
    if not table:
        raise UserError(f"{path} kept no trajectories; train with --trajectories 100000")
    shape = table["position"].shape
    require(len(shape) == 4 and shape[3] == 2, f"the positions in {path}", shape, "give [steps, tasks, seeds, 2]")
    require(table["done"].shape == shape[:3], f"'done' in {path}", table["done"].shape, f"give {list(shape[:3])}")
    return table


def load_run(path: str | Path) -> Run:
    """Configuration and tables of a run folder; it may still be in training."""
    path = Path(path)
    manifest = read_manifest(path)
    try:
        tables = {name: _read_whole(path, name)[0] for name in TABLES}
    except storage.MissingFile:  # the training process merged its parts during the reading
        tables = {name: _read_whole(path, name)[0] for name in TABLES}
    config = read_config(path)
    _require_fitting(tables["episodes"], config, path)
    most = config["train"].get("steps", 2**40)
    for name, column in (("episodes", "end_step"), ("curves", "step")):
        last = int(tables[name].get(column, np.zeros(0, int)).max(initial=0))
        with in_file(path / name):
            require(last <= most, column, last, f"the run has {most} steps")
    return Run(path, config, manifest, **tables)


def _require_fitting(episodes: Columns, config: Mapping[str, Any], path: Path) -> None:
    """Raise unless a table of episodes has the costs of its configuration and steps that grow."""
    counts = {len(task["costs"]) for task in config["tasks"]}
    found = sorted(name for name in episodes if name.startswith("cost_"))
    with in_file(path / "episodes"):
        fits = counts <= {len(found)} and set(found) == {f"cost_{j}" for j in range(len(found))}
        require(not episodes or fits, "the columns of costs", found, f"config.json has {sorted(counts)} costs")
        for name in ("end_step", "length") if episodes else ():
            require(bool((episodes[name] >= 1).all()), name, "below 1", "steps are counted from 1")


def load_config(path: Path) -> dict[str, Any]:
    """The configuration of a run folder."""
    read_manifest(path)
    return read_config(path)


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of a full or packed run folder, in the current format."""
    file = path / CONFIG
    found = storage.read_json(file, ["algorithm", "train"])
    with in_file(file):
        return check_config(upgrade_config(found))


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run folder; raises if this version cannot read the folder."""
    if not is_file(path / MANIFEST):
        what = "no such folder" if not path.is_dir() else "no manifest.json in it"
        raise UserError(f"{path} is not a run folder ({what}); give the folder of 'safedsr train --out'")
    manifest = storage.read_json(path / MANIFEST, ["format"])
    found = manifest["format"]
    if str(found).startswith("packed"):
        raise UserError(f"{path} is packed, for tables and figures only; to resume or to load a policy, train again")
    if found not in READABLE:
        raise UserError(f"{path} has run format {found}; this version reads up to {FORMAT}; use the one that wrote it")
    return check_manifest(manifest, path)


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or with a character 0
        return False


def _manifest(seeds: list[int], device: str) -> dict[str, Any]:
    packages = ("safedsr", "jax", "jaxlib", "numpy", "equinox", "optax")
    versions = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "format": FORMAT,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": versions,
        "device": device,
        "seeds": seeds,
    }


def commit() -> str | None:
    """The commit of the sources, if they lie in a Git repository."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def _parts(path: Path, name: str) -> list[Path]:
    """The files of a table or of states, in the order of their steps."""
    found = (path / STATES).glob(f"{name}-*.safetensors")
    return sorted((part for part in found if re.fullmatch(rf"{name}-\d{{12,18}}", part.stem)), key=_part_step)


def _part_step(part: Path) -> int:
    return int(part.stem.rpartition("-")[2])


def _read_whole(path: Path, name: str) -> tuple[Columns, int]:
    """A table with the parts written after it, and its last step."""
    parts = _parts(path, name)  # listed before reading the table, because a writer may merge them into it
    whole = storage.read_table(path / name)
    if whole and "step" not in whole[1]:
        raise UserError(f"the table '{name}' in {path} was not written by safedsr")
    tables, step = ([whole[0]], storage.whole_number(whole[1], "step", path / name)) if whole else ([], 0)
    for part in parts:
        if _part_step(part) > step:
            tables.append(storage.read_tensors(part)[0])
            step = _part_step(part)
    with in_file(path / name):
        table = upgrade_episodes(storage.concatenate(tables))
    return (storage.check_table(table, COLUMNS[name], f"{path / name}") if table else table), step
