"""The tasks: a reward for each kind of shape, uniform between -1 and 1, as in SFT-CoP's file of tasks."""

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from safedsr.envs.twins.four_room import KINDS
from safedsr.errors import UserError

TASKS = 128  # in a row, in each trial
SET = 19  # the number of our set of tasks; other sets serve to choose settings
SFTCOP = "cd5e1d804ea10c29ee4e167b49684998ea2491cb3ab9b023b458f2034bd35615"
"""`digest` of SFT-CoP's utils/shapes_weights.csv, commit c0de240."""


def generated(trial: int, tasks: int = TASKS, number: int = SET) -> np.ndarray:
    """The tasks of a trial [tasks, 3]; trials are counted from 1."""
    return np.random.default_rng((number, trial)).uniform(-1, 1, (TASKS, KINDS)).astype(np.float32)[:tasks]


def from_file(path: Path, trial: int, tasks: int = TASKS) -> np.ndarray:
    """The tasks of a trial in a file such as SFT-CoP's shapes_weights.csv: 128 lines of three numbers a trial."""
    rows = _read(path)
    first = TASKS * (trial - 1)
    mine = rows[first:][:tasks]
    if rows.shape[1] != KINDS or len(mine) < tasks:
        raise UserError(
            f"{path} has {rows.shape[0]} lines of {rows.shape[1]} numbers; trial {trial} needs lines "
            f"{first + 1} to {first + tasks}, each of {KINDS} numbers"
        )
    for n, k in np.argwhere(~(np.abs(mine) <= 1))[:1]:
        raise UserError(f"{path}, line {first + n + 1}: a reward is {mine[n, k]}; give numbers between -1 and 1")
    return mine


def are_ours(tasks: np.ndarray, trials: Sequence[int], rounded: float) -> bool:
    """Whether tasks [trials, tasks, 3] are those of our own set, up to rounding."""
    return all(
        np.allclose(found, generated(trial)[: len(found)], atol=rounded)
        for found, trial in zip(tasks, trials, strict=True)
    )


def is_sftcops(path: Path) -> bool:
    """Whether a file holds the tasks of SFT-CoP's file."""
    return digest(_read(path)) == SFTCOP


def digest(tasks: np.ndarray) -> str:
    """SHA-256 of rewards of shapes, as float32."""
    return hashlib.sha256(np.ascontiguousarray(tasks, np.float32).tobytes()).hexdigest()


def _read(path: Path) -> np.ndarray:
    """All lines of a file of tasks."""
    advice = "give a csv file with three numbers a line"
    try:
        text = path.read_text(encoding="utf-8-sig")
        if any(line.split("#")[0].strip() for line in text.splitlines()):
            return np.loadtxt(io.StringIO(text), np.float32, delimiter=",", ndmin=2)
    except OSError as error:
        raise UserError(f"cannot read tasks from {path}: {error.strerror}; {advice}") from None
    except ValueError as error:
        raise UserError(f"cannot read tasks from {path}: {str(error).rstrip('.')}; {advice}") from None
    raise UserError(f"cannot read tasks from {path}: it has no numbers; {advice}")
