"""What an unfinished run of tasks in a row keeps on the disk, and how it goes on from there."""

import contextlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.transfer import learner
from safedsr.transfer.config import PART
from safedsr.transfer.summary import NEEDED, ROUNDED, SHAPES, read_rows
from safedsr.transfer.tables import CHUNK
from safedsr.transfer.traveller import Tools, Traveller

WORK = ".work"  # states of unfinished runs
SAVED_EVERY = 16  # tasks


class Place(NamedTuple):
    """The files of one agent, and what it learns."""

    table: Path
    state: Path
    about: dict[str, str]  # saved with the state
    agent: str
    trials: tuple[int, ...]
    tasks: np.ndarray  # [trials, tasks, kinds]
    steps: int

    @property
    def whole(self) -> int:
        """The number of rows of the complete table."""
        return self.tasks.shape[0] * self.tasks.shape[1]


def resume(place: Place, tools: Tools) -> tuple[Traveller | None, list[dict[str, Any]]]:
    """The state and the rows to go on from; no state before the first task, and none after the last one."""
    if not place.state.is_file():
        return None, _rows_without_state(place)
    anew = f"to begin anew, delete {place.state} and {place.table}"
    try:
        tensors, found = storage.read_tensors(place.state)
        count = storage.whole_number(found, "rows", place.state)
    except UserError as error:
        raise UserError(f"{error}; {anew}") from None
    if {key: found.get(key) for key in place.about} != place.about:
        raise UserError(f"{place.state} is of other tasks, trials or settings; choose another --out, or {anew}")
    if not place.table.is_file():
        raise UserError(f"{place.state} is there, but not its table {place.table.name}; {anew}")
    rows = read_rows(place.table, anew)
    if not fits(rows, place) or len(rows) < count:
        raise UserError(
            f"{place.table} has {len(rows)} rows, and the saved state needs its first {count} as they were written, "
            f"all trials of each task; {anew}"
        )
    if len(rows) == place.whole:
        return None, rows
    return _restored(tensors, place, tools, anew), rows[:count]


def _rows_without_state(place: Place) -> list[dict[str, Any]]:
    """All rows of a complete table; none if there is no table, or if it was left before the first save."""
    if not place.table.is_file():
        return []
    rows = read_rows(place.table, "choose another --out, or delete it to begin anew")
    if not fits(rows, place):
        raise UserError(
            f"{place.table} is of other tasks, trials or settings, or lacks rows; choose another --out, or delete it "
            "to begin anew"
        )
    if len(rows) == place.whole:
        return rows
    if len(rows) > SAVED_EVERY * len(place.trials):
        raise UserError(
            f"{place.table} is there, but no state to go on from; choose another --out, or delete it to begin anew"
        )
    return []


def fits(rows: list[dict[str, str]], place: Place) -> bool:
    """Whether the rows are those of all trials in the first task, then in the second one, and so on."""
    width = len(place.trials)
    if len(rows) % width or len(rows) > place.whole:
        return False
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        return all(
            _is_row(row, place, trial=n % width, task=n // width) and row["agent"] == place.agent
            for n, row in enumerate(rows)
        )
    return False


def _is_row(row: dict[str, str], place: Place, trial: int, task: int) -> bool:
    shapes = np.array(row[SHAPES].split(), float)
    return (
        (int(row["trial"]), int(row["task"])) == (place.trials[trial], task + 1)
        and all(math.isfinite(float(row[name])) for name in NEEDED[1:])
        and np.allclose(shapes, place.tasks[trial, task], atol=ROUNDED)
        and len(row["reward_every_1000"].split()) == place.steps // min(place.steps, PART)
    )


def save(place: Place, state: Traveller, rows: int) -> None:
    """Save the state after so many rows; of the memory and the tables, only the states in use."""
    used = min(-(-int(state.memory.count.max()) // CHUNK) * CHUNK, state.table.shape[1])
    small = state._replace(
        key=jax.random.key_data(state.key),
        table=state.table[:, :used],
        memory=state.memory._replace(keys=state.memory.keys[:, :used], steps=state.memory.steps[:, :used]),
        library=state.library._replace(tables=state.library.tables[:, :, :used]),
    )
    tensors = {f"{n:03d}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(small))}
    storage.make_folder(place.state.parent)
    storage.write_tensors(place.state, tensors, {**place.about, "rows": str(rows)})


def _restored(tensors: dict[str, np.ndarray], place: Place, tools: Tools, anew: str) -> Traveller:
    """The state that was saved; states that were not in use then are as at the start."""
    start = learner.init_trials(jnp.asarray(place.trials), tools)
    start = start._replace(key=jax.random.key_data(start.key))
    leaves, shape = jax.tree.flatten(start)
    found = [tensors[name] for name in sorted(tensors)]
    if len(found) != len(leaves) or not all(map(_within, found, leaves)):
        raise UserError(f"{place.state} is of another version of safedsr; {anew}")
    state = jax.tree.unflatten(
        shape, [leaf.at[tuple(map(slice, new.shape))].set(new) for new, leaf in zip(found, leaves, strict=True)]
    )
    return state._replace(key=jax.random.wrap_key_data(state.key))


def _within(new: np.ndarray, leaf: jax.Array) -> bool:
    return new.dtype == leaf.dtype and new.ndim == leaf.ndim and all(map(int.__le__, new.shape, leaf.shape))


def finish(place: Place, rows: int) -> None:
    """Of a complete run, keep only what it learnt and with which settings."""
    storage.make_folder(place.state.parent)
    storage.write_tensors(place.state, {}, {**place.about, "rows": str(rows)})
