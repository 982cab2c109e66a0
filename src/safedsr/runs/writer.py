"""Writing run folders: a run is created or resumed under a lock, and written in parts that become valid with a
checkpoint.

During training, tables are written in parts beside the checkpoints. A part newer than the last checkpoint is dropped on
resume, because the resumed run repeats its steps.
"""

import contextlib
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.folder import (
    FORMAT,
    NAMES,
    STATES,
    TABLES,
    is_file,
    load_config,
    part_step,
    parts_of,
    read_manifest,
    read_whole,
)
from safedsr.runs.schema import CONFIG, MANIFEST
from safedsr.runs.storage import Columns
from safedsr.validation import in_file, require

LOCK = ".lock"


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
                for part in parts_of(self.path, name):
                    if part_step(part) > step:
                        part.unlink()
        return found

    def last_step(self) -> int | None:
        """The step of the last checkpoint, or None."""
        states = self._states()
        return part_step(states[-1]) if states else None

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
            require(step == part_step(states[-1]), "step", step, "give the step of the file's name")
        return tensors, step

    def finish(self, trajectories: int = 0) -> None:
        """Merge the parts of each table into one file; keep the last `trajectories` steps of the positions (0: all)."""
        for name in NAMES:
            parts = parts_of(self.path, name)
            if parts:
                table, step = read_whole(self.path, name)
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
        return parts_of(self.path, "state")


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


def load_checkpoint(path: str | Path) -> dict[str, np.ndarray]:
    """The last saved training state of a run, as named arrays."""
    read_manifest(Path(path))
    found = RunWriter(Path(path)).last_state()
    if found is None:
        raise UserError(f"{path} has no checkpoint; train it first")
    return found[0]
