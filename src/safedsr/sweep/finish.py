"""The unit of work of sweeps and experiments: finish a run folder. What is done is skipped, what is begun continues."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from safedsr.engine.progress import Progress, Show
from safedsr.engine.train import STOP_FILE, Stopped, require_same, resume, train
from safedsr.envs.chosen import chosen_from, completed, make_environment
from safedsr.envs.environment import Environment
from safedsr.envs.grid.config import GRID
from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.folder import is_file, read_config
from safedsr.runs.job import Job
from safedsr.runs.pack import READABLE
from safedsr.runs.schema import MANIFEST
from safedsr.runs.writer import LOCK, RunWriter, is_new

PATIENCE = 120.0  # seconds to wait for a process that still saves the same folder
Standing = Literal["new", "begun", "done"]


def standing(job: Job, folder: Path) -> Standing:
    """Whether the run of a job is new, begun or done; raises if its folder contains something else."""
    if not is_file(folder / MANIFEST):
        if not is_new(folder):
            raise UserError(f"{folder} is not empty and is not a run folder; remove it, or choose another --out")
        return "new"
    packed = storage.read_json(folder / MANIFEST, ["format"])["format"] in READABLE
    require_same(job, read_config(folder), folder)
    found = storage.read_table(folder / ("summary" if packed else "episodes"))
    done = found is not None and found[1].get("step") == str(job.train.steps)
    if packed and not done:
        raise UserError(f"{folder} is a packed copy and cannot be continued; remove it, or choose another --out")
    return "done" if done else "begun"


def finish(
    job: Job,
    folder: Path,
    show: Show | None = None,
    until: int | None = None,
    environment: Environment | None = None,
) -> None:
    """Train the run of a job to its end, or at least to the step `until`, from wherever it stands.

    `environment` is that of the job if it is no map.
    """
    found = standing(job, folder)
    if found == "done" or (until is not None and found == "begun" and saved_step(folder) >= until):
        return

    reached = 0

    def counted(p: Progress) -> None:
        nonlocal reached
        reached = p.step
        if until is not None and until <= p.step < p.steps:
            (folder / STOP_FILE).touch()
        if show:
            show(p)

    try:
        if found == "new":
            train(job, folder, counted)
        else:
            resume(folder, asdict(job.train), job, counted, environment)
    except Stopped as stop:
        if until is None or reached < until:
            raise Stopped(f"{stop.args[0].partition(';')[0]}; the same command continues from there") from None


def saved_step(folder: Path) -> int:
    """The step of the last checkpoint of a run folder; 0 if there is none."""
    return RunWriter(folder).last_step() or 0


def wait_until_free(folder: Path, seconds: float = PATIENCE) -> None:
    """Wait while another process has the run folder, such as one that was told to stop and still saves."""
    end = time.monotonic() + seconds
    while is_file(folder / LOCK):
        try:
            with storage.lock(folder / LOCK):
                return
        except UserError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def environment_for(data: Mapping[str, Any], flags: Mapping[str, Any]) -> Environment | None:
    """The environment of a configuration, with the user's functions that the flags name; None for a map."""
    if data["name"] == GRID:
        return None
    return make_environment(completed(chosen_from(**flags), data))
