"""Run folders: all files that a training run writes, and how they are read.

    config.json  manifest.json  episodes.parquet  curves.parquet  progress.csv  checkpoint/  figures/
    policy.safetensors  policy.json  memory.safetensors (SafeDSR: replay memory of its policies)

Seeds and environments are columns of the tables. During training, tables are written in parts beside the checkpoints.
A part newer than the last checkpoint is dropped on resume, because the resumed run repeats its steps.
"""

import contextlib
import platform
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
from safedsr.runs.storage import Columns

FORMAT, READABLE = 2, (1, 2)
TABLES = ("episodes", "curves")
NAMES = (*TABLES, "trajectories")  # stored as arrays: positions have too many axes for a table


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
        self.checkpoints = path / "checkpoint"

    def append(self, name: str, table: Columns, step: int) -> None:
        """Write rows recorded up to `step`; they become valid with the checkpoint of that step."""
        storage.write_tensors(self.checkpoints / f"{name}-{step:012d}.safetensors", table, {"step": str(step)})

    def checkpoint(self, tensors: Mapping[str, np.ndarray], step: int) -> None:
        """Save the training state of `step`, then delete the previous one."""
        older = self._states()
        storage.write_tensors(self._state(step), tensors, {"step": str(step), "format": str(FORMAT)})
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
        for name in NAMES:
            for part in _parts(self.path, name):
                if _part_step(part) > step:
                    part.unlink()
        return found

    def last_step(self) -> int | None:
        """The step of the last checkpoint, or None."""
        states = self._states()
        return int(states[-1].stem.rpartition("-")[2]) if states else None

    def note(self, name: str, value: Any) -> None:
        """Add a value to a list in the manifest."""
        manifest = read_manifest(self.path)
        self.write_json("manifest.json", {**manifest, name: [*manifest.get(name, []), value]})

    def last_state(self) -> tuple[dict[str, np.ndarray], int] | None:
        """The last checkpoint and its step, or None."""
        states = self._states()
        if not states:
            return None
        tensors, about = storage.read_tensors(states[-1])
        return tensors, int(about["step"])

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
                for part in parts:
                    part.unlink()

    def write_json(self, name: str, data: Any) -> None:
        """Write a JSON file into the folder."""
        storage.write_json(self.path / name, data)

    def _state(self, step: int) -> Path:
        return self.checkpoints / f"state-{step:012d}.safetensors"

    def _states(self) -> list[Path]:
        return sorted(self.checkpoints.glob("state-*.safetensors"))


@contextlib.contextmanager
def create_run(path: str | Path, config: dict[str, Any], seeds: list[int], device: str) -> Iterator[RunWriter]:
    """Create and lock a new run folder; a folder that is not empty is refused."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {path}: {error.strerror}") from None
    _require_empty(path)
    with storage.lock(path / ".lock"):
        _require_empty(path)  # again: another process may have written to it before the lock
        (path / "checkpoint").mkdir()
        writer = RunWriter(path)
        writer.write_json("config.json", config)
        # The manifest is written last: a folder with a manifest is a valid run folder.
        writer.write_json("manifest.json", _manifest(seeds, device))
        yield writer


def _require_empty(path: Path) -> None:
    if any(entry.name != ".lock" for entry in path.iterdir()):
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
    with storage.lock(path / ".lock"):
        for stray in [*path.glob(".*.tmp"), *path.glob("*/.*.tmp")]:  # left by a process that was killed
            stray.unlink()
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
    return table


def load_run(path: str | Path) -> Run:
    """Configuration and tables of a run folder; it may still be in training."""
    path = Path(path)
    manifest = read_manifest(path)
    try:
        tables = {name: _read_whole(path, name)[0] for name in TABLES}
    except storage.MissingFile:  # the training process merged its parts during the reading
        tables = {name: _read_whole(path, name)[0] for name in TABLES}
    tables["episodes"] = upgrade_episodes(tables["episodes"])
    return Run(path, read_config(path), manifest, **tables)


def load_config(path: Path) -> dict[str, Any]:
    """The configuration of a run folder."""
    read_manifest(path)
    return read_config(path)


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of a full or packed run folder, in the current format."""
    return _with_tasks(upgrade_config(storage.read_json(path / "config.json", ["algorithm", "train"])), path)


def _with_tasks(config: dict[str, Any], path: Path) -> dict[str, Any]:
    if missing := [name for name in ("environment", "tasks") if name not in config]:
        raise UserError(f"{path / 'config.json'} is damaged: it lacks {', '.join(missing)}")
    return config


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run folder; raises if this version cannot read the folder."""
    if not (path / "manifest.json").is_file():
        what = "no such folder" if not path.is_dir() else "no manifest.json in it"
        raise UserError(f"{path} is not a run folder ({what}); give the folder of 'safedsr train --out'")
    manifest = storage.read_json(path / "manifest.json", ["format"])
    found = manifest["format"]
    if str(found).startswith("packed"):
        raise UserError(f"{path} is packed, for tables and figures only; to resume or to load a policy, train again")
    if found not in READABLE:
        raise UserError(f"{path} has run format {found}; this version reads up to {FORMAT}; use the one that wrote it")
    return storage.read_json(path / "manifest.json", ["seeds"])


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
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": versions,
        "device": device,
        "seeds": seeds,
    }


def _commit() -> str | None:
    here = Path(__file__).parent
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def _parts(path: Path, name: str) -> list[Path]:
    return sorted((path / "checkpoint").glob(f"{name}-*.safetensors"))


def _part_step(part: Path) -> int:
    return int(part.stem.rpartition("-")[2])


def _read_whole(path: Path, name: str) -> tuple[Columns, int]:
    """A table with the parts written after it, and its last step."""
    parts = _parts(path, name)  # listed before reading the table, because a writer may merge them into it
    whole = storage.read_table(path / name)
    if whole and "step" not in whole[1]:
        raise UserError(f"the table '{name}' in {path} was not written by safedsr")
    tables, step = ([whole[0]], int(whole[1]["step"])) if whole else ([], 0)
    for part in parts:
        if _part_step(part) > step:
            tables.append(storage.read_tensors(part)[0])
            step = _part_step(part)
    return storage.concatenate(tables), step
