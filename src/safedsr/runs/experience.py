"""What a SafeDSR policy takes along of its past, so that it can adapt without its replay buffer.

Remembered steps, in an order in which every prefix is spread as evenly over cells and actions as they allow: the first
few thousand are the set that weights are fitted on, all of them are what M can go on learning from. Costs are left
out, since the map says them, and so are rewards, which the grid says: ten bytes a step.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core import replay
from safedsr.envs.grid import physics as grid
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout
from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.types import PyTree, Transition

MOST_STEPS = 25_000
FIT_STEPS = 4_096
FILE, FORMAT = "memory.safetensors", "1"


class Past(NamedTuple):
    """Remembered steps, packed, and the Gram matrix of the first `FIT_STEPS` of them."""

    place: np.ndarray  # [n, 4] uint16: x, y, x′, y′ in fractions of a cell
    action: np.ndarray  # [n] uint8
    terminated: np.ndarray  # [n] uint8
    gram: np.ndarray  # [d, d] float64: ΦᵀΦ


def make_past(rows: np.ndarray, phi: PyTree, layout: Layout) -> Past:
    """What to keep of all rows [N, 7 + J] that a trainer remembers; slots that were never filled are zero."""
    packed = _pack(replay.unpack(rows[rows[:, :2].any(1)]), layout)  # type: ignore[arg-type]  # rows of NumPy do as well
    row, column = _cells(packed, layout)
    stratum = (row * layout.walls.shape[1] + column) * grid.NUM_ACTIONS + packed[:, 4]
    packed = packed[spread(stratum)[:MOST_STEPS]]
    place, action, terminated = packed[:, :4], packed[:, 4], packed[:, 5]
    past = Past(place.astype(np.uint16), action.astype(np.uint8), terminated.astype(np.uint8), np.zeros((0, 0)))
    known = fit_features(past, phi, layout)
    return past._replace(gram=known.T @ known)


def _pack(t: Transition, layout: Layout) -> np.ndarray:
    """Whole numbers [n, 6]: place, action, terminated; each step once."""
    place = np.concatenate([t.obs, t.next_obs], 1) * np.float32(layout.scale)
    ended = np.asarray(t.terminated) == 1
    # A step is shorter than a cell. One that is not belongs to a cut episode: s′ is where the next one started.
    whole = (np.abs(place[:, 2:] - place[:, :2]).max(1) < 1) | ended
    # Rounded down to a fraction of which a cell has a whole number: no position leaves its cell.
    fine = np.floor(place * _per_cell(layout)).astype(np.int64)
    packed = np.column_stack([fine, t.action, ended])[whole]
    return np.unique(packed, axis=0)  # the reservoir repeats steps of the ring


def _cells(place: np.ndarray, layout: Layout) -> np.ndarray:
    """Rows and columns [2, n] of the cells that steps began in."""
    return place[:, 1::-1].T // _per_cell(layout)


def _per_cell(layout: Layout) -> int:
    return 2**16 // int(layout.scale)


def spread(strata: np.ndarray, seed: int = 0) -> np.ndarray:
    """An order of rows in which each prefix takes from all strata as equally as they allow, and at random within."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    _, first, counts = np.unique(strata[order], return_index=True, return_counts=True)
    nth = np.arange(len(order)) - np.repeat(first, counts)  # of its stratum
    return order[np.lexsort((rng.random(len(order)), nth))]


def visits(past: Past, layout: Layout) -> np.ndarray:
    """How many remembered steps began in each cell [H, W]."""
    counts = np.zeros(layout.walls.shape, np.int64)
    np.add.at(counts, tuple(_cells(past.place, layout)), 1)
    return counts


def steps(past: Past, layout: Layout, config: GridConfig, most: int | None = None) -> Transition:
    """The first `most` remembered steps (all, if not given) with the costs that `layout` puts on them."""
    obs, next_obs = _observations(past, layout, most)
    terminated = past.terminated[:most].astype(np.float32)
    t = Transition(
        obs=jnp.asarray(obs),
        action=jnp.asarray(past.action[:most], jnp.int32),
        reward=jnp.asarray(config.step_reward + config.goal_reward * terminated, jnp.float32),
        cost=jnp.zeros((len(terminated), 0)),
        next_obs=jnp.asarray(next_obs),
        terminated=jnp.asarray(terminated),
    )
    return _relabel_all(t, layout)


def _observations(past: Past, layout: Layout, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    place = (past.place[:most] + np.float32(0.5)) / np.float32(_per_cell(layout)) / layout.scale
    return place[:, :2], place[:, 2:]


def relabel(t: Transition, layout: Layout) -> Transition:
    """What a remembered step would have cost on this map: the cost of the cell it ended in."""
    return t._replace(cost=grid.lookup(layout.costs, end(t, layout)))


def end(t: Transition, layout: Layout) -> Array:
    """Where a step ended, (x, y) in cells; at the goal s′ may be the next episode's start (terminal="restart")."""
    return jnp.where(t.terminated == 1, layout.goal + 0.5, grid.position(t.next_obs, layout))


_relabel_all = jax.jit(jax.vmap(relabel, (0, None)))


def fit_features(past: Past, phi: PyTree, layout: Layout) -> np.ndarray:
    """Φ [n, d] of the steps that weights are fitted on."""
    obs, _ = _observations(past, layout, FIT_STEPS)
    return features_of(phi, obs, past.action[:FIT_STEPS])


def features_of(phi: PyTree, obs: Array | np.ndarray, action: Array | np.ndarray) -> np.ndarray:
    """φ(s, a) [n, d] of n observations and actions, as precise as it gets."""
    with jax.default_matmul_precision("float32"):
        return np.asarray(_features(phi, jnp.asarray(obs, jnp.float32), jnp.asarray(action, jnp.int32)), np.float64)


_features = jax.jit(jax.vmap(lambda phi, obs, action: phi.features(obs, action), (None, 0, 0)))


def write_pasts(folder: Path, pasts: Mapping[tuple[int, int], Past]) -> None:
    """The pasts of all policies of a folder, by environment and place of the seed."""
    tensors = {
        f"{environment}/{index}/{name}": array
        for (environment, index), past in pasts.items()
        for name, array in past._asdict().items()
    }
    storage.write_tensors(folder / FILE, tensors, {"memory": FORMAT})


def read_pasts(folder: Path) -> dict[tuple[int, int], Past]:
    """What `write_pasts` wrote; empty where the policies have no past."""
    if not (folder / FILE).is_file():
        return {}
    tensors, about = storage.read_tensors(folder / FILE)
    if about.get("memory") != FORMAT:
        raise UserError(f"{folder / FILE} was not written by this version of safedsr; remove it to act without it")
    lanes = sorted({tuple(map(int, name.split("/")[:2])) for name in tensors})
    return {(e, s): Past(*(tensors[f"{e}/{s}/{name}"] for name in Past._fields)) for e, s in lanes}
