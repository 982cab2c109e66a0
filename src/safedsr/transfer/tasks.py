"""The tasks: a reward for each kind of shape, uniform between -1 and 1, as in SFT-CoP's file of tasks."""

from pathlib import Path

import numpy as np

from safedsr.envs.twins.four_room import KINDS
from safedsr.errors import UserError

TASKS = 128  # in a row, in each trial
SET = 19  # the number of our set of tasks; other sets serve to choose settings


def generated(trial: int, tasks: int = TASKS, number: int = SET) -> np.ndarray:
    """The tasks of a trial [tasks, 3]; trials are counted from 1."""
    return np.random.default_rng((number, trial)).uniform(-1, 1, (TASKS, KINDS)).astype(np.float32)[:tasks]


def from_file(path: Path, trial: int, tasks: int = TASKS) -> np.ndarray:
    """The tasks of a trial in a file such as SFT-CoP's shapes_weights.csv: 128 lines of three numbers a trial."""
    try:
        rows = np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read tasks from {path}: {error}; give a csv file with three numbers a line") from None
    mine = rows[TASKS * (trial - 1) :][:tasks]
    if rows.shape[1] != KINDS or len(mine) < tasks or not np.isfinite(mine).all():
        raise UserError(
            f"{path} has {rows.shape[0]} lines of {rows.shape[1]} numbers; trial {trial} needs lines "
            f"{TASKS * (trial - 1) + 1} to {TASKS * (trial - 1) + tasks}, each of {KINDS} finite numbers"
        )
    return mine.astype(np.float32)
