"""Run folders: all files that a training run writes, and how they are read; `writer` writes them.

    config.json  manifest.json  episodes.parquet  curves.parquet  progress.csv  checkpoint/  figures/
    policy.safetensors  policy.json  memory.safetensors (SafeDSR: replay memory of its policies)

Seeds and environments are columns of the tables. During training, tables are written in parts beside the checkpoints.
A part newer than the last checkpoint is dropped on resume, because the resumed run repeats its steps.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
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
STATES = "checkpoint"
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


def load_trajectories(path: str | Path) -> Columns:
    """Saved positions of a run: step [n], position [n, E, S, 2] in cells, done [n, E, S]."""
    read_manifest(Path(path))
    table, _ = read_whole(Path(path), "trajectories")
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
        tables = {name: read_whole(path, name)[0] for name in TABLES}
    except storage.MissingFile:  # the training process merged its parts during the reading
        tables = {name: read_whole(path, name)[0] for name in TABLES}
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


def parts_of(path: Path, name: str) -> list[Path]:
    """The files of a table or of states, in the order of their steps."""
    found = (path / STATES).glob(f"{name}-*.safetensors")
    return sorted((part for part in found if re.fullmatch(rf"{name}-\d{{12,18}}", part.stem)), key=part_step)


def part_step(part: Path) -> int:
    return int(part.stem.rpartition("-")[2])


def read_whole(path: Path, name: str) -> tuple[Columns, int]:
    """A table with the parts written after it, and its last step."""
    parts = parts_of(path, name)  # listed before reading the table, because a writer may merge them into it
    whole = storage.read_table(path / name)
    if whole and "step" not in whole[1]:
        raise UserError(f"the table '{name}' in {path} was not written by safedsr")
    tables, step = ([whole[0]], storage.whole_number(whole[1], "step", path / name)) if whole else ([], 0)
    for part in parts:
        if part_step(part) > step:
            tables.append(storage.read_tensors(part)[0])
            step = part_step(part)
    with in_file(path / name):
        table = upgrade_episodes(storage.concatenate(tables))
    return (storage.check_table(table, COLUMNS[name], f"{path / name}") if table else table), step
