"""Maps and costs by name: the paper's rooms and cost shapes (Figs. 3 and 12), or text files in place of names."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr.envs.grid.layout import LARGEST_COST, Layout, Scene, check_costs, finer, make_layout
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError, unknown
from safedsr.validation import SHOWN, require, typed

ROOM_PITCH, ROOM_HEIGHT = 10, 11  # n rooms are 10·n + 1 cells wide
ROOM_NAMES = ("one-room", "two-rooms", "three-rooms")

Costs = str | Sequence[str] | np.ndarray


def load_scene(layout: str | Path = "one-room", costs: Costs | None = None) -> Scene:
    """A map by name or text file, and its costs by shape, file or array; `None` keeps the map's costs."""
    name = str(layout)
    if (count := _room_count(name)) is not None:
        scene = Scene(name, _rooms(count))
    elif _is_file(name):
        scene = _read_file(name)
    elif name.endswith(".txt") or "/" in name:
        raise UserError(f"no layout file '{name}'; give the path of a text file or a name such as 'two-rooms'")
    else:
        raise unknown("layout", name[:SHOWN], (*ROOM_NAMES, "rooms-N"))
    return scene if costs is None else with_costs(scene, costs)


def with_costs(scene: Scene, costs: Costs) -> Scene:
    """The same map with other costs: some of its own, shapes or files (`diamond,2*square`), or an array.

    An array is [J, H, W], or has n times as many rows and columns.
    """
    names, layers = _read_costs(costs, scene)
    return replace(scene, layout=scene.layout._replace(costs=layers), cost_names=names)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _read_file(path: str) -> Scene:
    try:
        return parse_scene(Path(path).read_text(encoding="utf-8-sig"), Path(path).stem)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read '{path}' as text: {error}") from None


def _room_count(name: str) -> int | None:
    if name in ROOM_NAMES:
        return ROOM_NAMES.index(name) + 1
    match = re.fullmatch(r"rooms-([1-9]\d{0,3})", name)
    return int(match[1]) if match else None


def _rooms(count: int) -> Layout:
    middle, width = ROOM_HEIGHT // 2, ROOM_PITCH * count + 1
    walls = np.zeros((ROOM_HEIGHT, width), bool)
    walls[:, ROOM_PITCH : width - 1 : ROOM_PITCH] = True
    walls[middle - 1 : middle + 2] = False  # doors of three cells
    return make_layout(walls, np.zeros((0, *walls.shape)), [(0, middle)], (width - 1, middle))


class _Room(NamedTuple):
    """For each cell, or each point of a finer raster: where it is seen from the centre of its room, in cells."""

    right: np.ndarray
    down: np.ndarray

    @property
    def away(self) -> np.ndarray:
        """Distance along the axes."""
        return np.abs(self.right) + np.abs(self.down)


Shape = Callable[[_Room], np.ndarray]
CELL_SHAPES: dict[str, Shape] = {
    "none": lambda room: np.zeros(room.right.shape, bool),
    "diamond": lambda room: room.away <= 3,
    "small-diamond": lambda room: room.away <= 2,
    "square": lambda room: (np.abs(room.right) <= 3) & (np.abs(room.down) <= 4),
    "inverse-diamond": lambda room: (room.away > 3) & (room.down != 0),
}
# Shapes whose edges are not those of cells, drawn with FINE × FINE points in each cell.
FINE = 8
FINE_SHAPES: dict[str, Shape] = {
    "offset-diamond": lambda room: CELL_SHAPES["diamond"](_Room(np.floor(room.right), np.floor(room.down))),
    "discs": lambda room: np.minimum(*(np.hypot(room.right, room.down - y) for y in (-1.7, 1.7))) < 1.6,
    "stripes": lambda room: (np.abs(room.right) % 2.0 < 0.4) & (np.abs(room.right) < 3) & (np.abs(room.down) < 3.7),
}
COST_SHAPES = (*CELL_SHAPES, *FINE_SHAPES)


def _draw_shape(name: str, scene: Scene) -> np.ndarray:
    walls = scene.layout.walls
    height, width = walls.shape
    if name == "none":
        return np.zeros((height, width), np.float32)
    if height != ROOM_HEIGHT or width % ROOM_PITCH != 1 or width == 1:
        raise UserError(
            f"cost shape '{name}' is drawn for rooms (11 rows, 10·n + 1 columns) and '{scene.name}' has {height} rows "
            f"and {width} columns; give the costs as a text file of this map"
        )
    raster = FINE if name in FINE_SHAPES else 1
    columns, rows = np.meshgrid(*((np.arange(size * raster) + 0.5) / raster for size in (width, height)))  # positions
    column = np.floor(columns)
    between = (column % ROOM_PITCH == 0) & (column > 0) & (column < width - 1)
    centre = np.minimum(column // ROOM_PITCH, (width - 2) // ROOM_PITCH) * ROOM_PITCH + ROOM_PITCH // 2 + 0.5
    room = _Room(columns - centre, rows - height / 2)
    drawn = {**CELL_SHAPES, **FINE_SHAPES}[name](room)
    return (drawn & ~between & ~finer(walls[None], raster)[0]).astype(np.float32)


def _read_costs(costs: Costs, scene: Scene) -> tuple[tuple[str, ...], np.ndarray]:
    shape = scene.layout.walls.shape
    if isinstance(costs, np.ndarray):
        if costs.dtype.kind not in "biuf":
            raise UserError(f"cost layers are {costs.dtype}; give numbers")
        given = costs[None] if costs.ndim == 2 else costs
        return tuple(f"cost-{j}" for j in range(len(given))), check_costs(given, shape)
    names: list[str] = []
    layers: list[np.ndarray] = []
    for item in costs.split(",") if isinstance(costs, str) else typed(list[str], costs, "costs"):
        found, drawn = _read_cost(item.strip(), scene)
        names.extend(found)
        layers.append(drawn)
    names = [f"none-{i + 1}" if name == "none" and name in names[:i] else name for i, name in enumerate(names)]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"cost '{name}' is given {names.count(name)} times; give each cost a name of its own")
    rasters = [layer.shape[-1] // shape[1] for layer in layers]
    fine = [finer(layer, math.lcm(*rasters) // raster) for layer, raster in zip(layers, rasters, strict=True)]
    return tuple(names), np.concatenate([np.zeros((0, *np.multiply(shape, math.lcm(*rasters))), np.float32), *fine])


def _read_cost(item: str, scene: Scene) -> tuple[tuple[str, ...], np.ndarray]:
    """One item of a list of costs: a shape or a file, or a number times one of these."""
    if factor := re.fullmatch(r"(\d+(?:\.\d+)?)\*([^*]+)", item):
        names, layers = _read_cost(factor[2], scene)
        times = float(factor[1])
        require(times <= LARGEST_COST, "the factor of a cost", factor[1], f"give at most {LARGEST_COST:g}")
        scaled = check_costs(np.float32(times) * layers, scene.layout.walls.shape)
        return tuple(f"{factor[1]}*{name}" for name in names), scaled
    if item in scene.cost_names:
        return (item,), scene.layout.costs[scene.cost_names.index(item)][None]
    if item in COST_SHAPES:
        return (item,), _draw_shape(item, scene)[None]
    if _is_file(item):
        drawn, shape = _read_file(item), scene.layout.walls.shape
        if drawn.layout.walls.shape != shape:
            sizes = " × ".join(map(str, drawn.layout.walls.shape)), " × ".join(map(str, shape))
            raise UserError(f"the costs in '{item}' are for a map of {sizes[0]} cells; this one has {sizes[1]}")
        return drawn.cost_names, drawn.layout.costs
    if item.endswith(".txt") or "/" in item:
        raise UserError(f"no cost file '{item}'; give the path of a text file or a shape such as 'diamond'")
    raise unknown("cost shape", item[:SHOWN], (*COST_SHAPES, *scene.cost_names))
