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
from safedsr.transfer.arms import Agent
from safedsr.transfer.config import PART
from safedsr.transfer.summary import NEEDED, ROUNDED, SHAPES, read_rows
from safedsr.types import PyTree

WORK = ".work"  # states of unfinished runs


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


def resume(place: Place, agent: Agent) -> tuple[PyTree | None, list[dict[str, Any]]]:
    """The state and the rows to go on from; no state before the first task, and none after the last one."""
    if not place.state.is_file():
        return None, _rows_without_state(place, agent.save_every)
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
    return _restored(tensors, place, agent, anew), rows[:count]


def _rows_without_state(place: Place, save_every: int) -> list[dict[str, Any]]:
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
    if len(rows) > save_every * len(place.trials):
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


def save(place: Place, state: PyTree, rows: int) -> None:
    """Save the state after so many rows."""
    tensors = {f"{n:03d}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(_plain(state)))}
    storage.make_folder(place.state.parent)
    storage.write_tensors(place.state, tensors, {**place.about, "rows": str(rows)})


def _restored(tensors: dict[str, np.ndarray], place: Place, agent: Agent, anew: str) -> PyTree:
    """The state that was saved; what was not in use then is as at the start."""
    start = agent.init(jnp.asarray(place.trials))
    leaves, shape = jax.tree.flatten(_plain(start))
    found = [tensors[name] for name in sorted(tensors)]
    if len(found) != len(leaves) or not all(map(_within, found, leaves)):
        raise UserError(f"{place.state} is of another version of safedsr; {anew}")
    state = jax.tree.unflatten(
        shape, [leaf.at[tuple(map(slice, new.shape))].set(new) for new, leaf in zip(found, leaves, strict=True)]
    )
    return jax.tree.map(lambda x, like: jax.random.wrap_key_data(x) if _is_key(like) else x, state, start)


def _plain(state: PyTree) -> PyTree:
    """The state with integers in place of random keys."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, state)


def _is_key(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _within(new: np.ndarray, leaf: jax.Array) -> bool:
    return new.dtype == leaf.dtype and new.ndim == leaf.ndim and all(map(int.__le__, new.shape, leaf.shape))


def finish(place: Place, rows: int) -> None:
    """Of a complete run, keep only what it learnt and with which settings."""
    storage.make_folder(place.state.parent)
    storage.write_tensors(place.state, {}, {**place.about, "rows": str(rows)})
