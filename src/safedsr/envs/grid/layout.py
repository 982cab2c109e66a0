"""Maps as arrays (Sec. 5.1).

A `Layout` holds arrays only and is a traced argument of compiled programs: a new map or cost needs no recompilation.
A `Scene` is a layout with its name and the names of its costs. This module uses NumPy, not JAX.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from safedsr.errors import UserError

FINEST = 32  # cost values along the side of a cell
LARGEST_COST = 1e9  # of a step: squares of sums of costs are still finite in float32
LONGEST_SIDE = 2**17  # cells: float32 still tells places in a cell apart


class Layout(NamedTuple):
    """A map as arrays. Cells are (column, row), row 0 at the top; padding to the right and below is wall.

    Costs may have a finer raster than walls: n × n values for each cell.
    """

    walls: Any  # [H, W] bool
    costs: Any  # [J, H·n, W·n] float32
    starts: Any  # [S, 2] int32; all after the first `num_starts` are padding
    num_starts: Any  # [] int32
    goal: Any  # [2] int32
    scale: Any  # [] float32, α⁻¹ = max(width, height): observation = position / scale

    @property
    def raster(self) -> int:
        """n, the number of cost values along the side of a cell."""
        return self.costs.shape[-1] // self.walls.shape[-1]


@dataclass(frozen=True, eq=False)
class Scene:
    """A layout, its name and the names of its costs."""

    name: str
    layout: Layout
    cost_names: tuple[str, ...] = ()


def make_layout(walls: Any, costs: Any, starts: Sequence[tuple[int, int]], goal: tuple[int, int]) -> Layout:
    """A checked `Layout` from arrays; cells are (column, row)."""
    walls = np.asarray(walls, bool)
    if walls.ndim != 2 or not walls.size or max(walls.shape) > LONGEST_SIDE:
        raise UserError(f"the map has shape {list(walls.shape)}; give at most {LONGEST_SIDE} rows and columns")
    height, width = walls.shape
    layout = Layout(
        walls=walls,
        costs=check_costs(costs, walls.shape),
        # Sorted row by row, as in a text file, so that a random number selects the same start after saving and loading.
        starts=np.array(sorted(starts, key=lambda cell: cell[::-1]), np.int32).reshape(-1, 2),
        num_starts=np.int32(len(starts)),
        goal=np.array(goal, np.int32),
        scale=np.float32(max(width, height)),
    )
    _check_ways(layout)
    return layout


def stack_layouts(layouts: Sequence[Layout]) -> Layout:
    """Several maps as one `Layout` with a leading axis; smaller ones are padded with wall."""
    if not layouts:
        raise UserError("no layouts to stack")
    counts = {layout.costs.shape[0] for layout in layouts}
    if len(counts) > 1:
        raise UserError(
            f"layouts with different numbers of costs ({sorted(counts)}) do not stack; add empty layers with 'none'"
        )
    height, width = (max(layout.walls.shape[axis] for layout in layouts) for axis in (0, 1))
    raster = math.lcm(*(layout.raster for layout in layouts))
    most_starts = max(len(layout.starts) for layout in layouts)

    def pad(layout: Layout) -> Layout:
        return layout._replace(
            walls=_grow(layout.walls, (height, width), True),
            costs=_grow(finer(layout.costs, raster // layout.raster), (*counts, raster * height, raster * width), 0),
            starts=_grow(layout.starts, (most_starts, 2), 0),
        )

    return Layout(*(np.stack(field) for field in zip(*map(pad, layouts), strict=True)))


def finer(layers: np.ndarray, times: int) -> np.ndarray:
    """The same layers [J, H, W] on a raster that is finer by this factor."""
    return layers if times == 1 else layers.repeat(times, 1).repeat(times, 2)


def coarsest(layers: np.ndarray, times: int) -> np.ndarray:
    """The layers with one value for each cell of `times` × `times` values, if these are equal; else as they are."""
    coarse = layers[:, ::times, ::times]
    return coarse if np.array_equal(finer(coarse, times), layers) else layers


def _grow(array: np.ndarray, shape: tuple[int, ...], fill: int) -> np.ndarray:
    grown = np.full(shape, fill, array.dtype)
    grown[tuple(slice(size) for size in array.shape)] = array
    return grown


def check_costs(costs: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The cost layers as float32, one or n × n values for a cell; an error names the first place of an invalid cost."""
    with np.errstate(over="ignore"):  # too large a number becomes infinite, which is caught below
        costs = np.asarray(costs, np.float32)
    times = costs.shape[-1] // shape[1] if costs.ndim == 3 else 0
    if not 1 <= times <= FINEST or costs.shape[1:] != (times * shape[0], times * shape[1]):
        raise UserError(
            f"cost layers have shape {costs.shape}; this map needs [J, {shape[0]}, {shape[1]}], or n times as "
            f"many rows and columns, with n from 1 to {FINEST}"
        )
    for layer, row, column in np.argwhere(~((costs >= 0) & (costs <= LARGEST_COST)))[:1]:
        raise UserError(
            f"cost {costs[layer, row, column]} in layer {layer + 1} at row {row + 1}, column {column + 1}; "
            f"costs are finite and at least 0, and at most {LARGEST_COST:g}: scale costs and budgets together"
        )
    return costs


def _check_ways(layout: Layout) -> None:
    if not len(layout.starts):
        raise UserError("no start; mark at least one cell with 'S'")
    height, width = layout.walls.shape
    for what, cells in (("goal", layout.goal[None]), ("start", layout.starts)):
        off = ((cells < 0) | (cells >= (width, height))).any(1)
        for column, row in cells[off][:1]:
            raise UserError(f"the {what} (row {row + 1}, column {column + 1}) is off the map")
        for column, row in cells[layout.walls[cells[:, 1], cells[:, 0]]][:1]:
            raise UserError(f"the {what} (row {row + 1}, column {column + 1}) is in a wall")
    from scipy.ndimage import label

    areas: Any = label(~layout.walls)[0]  # type: ignore[index]  # connected by the four moves
    columns, rows = layout.starts.T
    for n in np.flatnonzero((layout.starts == layout.goal).all(1))[:1]:
        raise UserError(f"the start (row {rows[n] + 1}, column {columns[n] + 1}) is the goal")
    for n in np.flatnonzero(areas[rows, columns] != areas[layout.goal[1], layout.goal[0]])[:1]:
        raise UserError(f"the goal cannot be reached from the start at row {rows[n] + 1}, column {columns[n] + 1}")
