"""Maps and costs by name: the paper's rooms and cost shapes (Figs. 3 and 12), or text files in place of names."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr.envs.grid.layout import Layout, Scene, check_costs, make_layout
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError, unknown

ROOM_PITCH, ROOM_HEIGHT = 10, 11  # n rooms are 10·n + 1 cells wide
ROOM_NAMES = ("one-room", "two-rooms", "three-rooms")

Costs = str | Sequence[str] | np.ndarray


def load_scene(layout: str | Path = "one-room", costs: Costs | None = None) -> Scene:
    """A map by name or text file, and its costs by shape, file or array; `None` keeps the map's costs."""
    name = str(layout)
    if (count := _room_count(name)) is not None:
        scene = Scene(name, _rooms(count))
    elif Path(name).is_file():
        scene = _read_file(name)
    elif name.endswith(".txt") or "/" in name:
        raise UserError(f"no layout file '{name}'; give the path of a text file or a name such as 'two-rooms'")
    else:
        raise unknown("layout", name, (*ROOM_NAMES, "rooms-N"))
    return scene if costs is None else with_costs(scene, costs)


def with_costs(scene: Scene, costs: Costs) -> Scene:
    """The same map with other costs: some of its own, shapes or files (`diamond,2*square`), or an array [J, H, W]."""
    names, layers = _read_costs(costs, scene)
    return replace(scene, layout=scene.layout._replace(costs=layers), cost_names=names)


def _read_file(path: str) -> Scene:
    try:
        return parse_scene(Path(path).read_text(encoding="utf-8"), Path(path).stem)
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
    """For each cell: its distances from the centre of its room, and whether it is inside a room (not in a door)."""

    across: np.ndarray
    down: np.ndarray
    inside: np.ndarray


COST_SHAPES: dict[str, Callable[[_Room], np.ndarray]] = {
    "none": lambda room: np.zeros_like(room.inside),
    "diamond": lambda room: room.across + room.down <= 3,
    "small-diamond": lambda room: room.across + room.down <= 2,
    "square": lambda room: (room.across <= 3) & (room.down <= 4),
    "inverse-diamond": lambda room: (room.across + room.down > 3) & (room.down > 0),
}


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
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    between = (columns % ROOM_PITCH == 0) & (columns > 0) & (columns < width - 1)
    centre = np.minimum(columns // ROOM_PITCH, (width - 2) // ROOM_PITCH) * ROOM_PITCH + ROOM_PITCH // 2
    room = _Room(np.abs(columns - centre), np.abs(rows - height // 2), ~between)
    return (COST_SHAPES[name](room) & room.inside & ~walls).astype(np.float32)


def _read_costs(costs: Costs, scene: Scene) -> tuple[tuple[str, ...], np.ndarray]:
    shape = scene.layout.walls.shape
    if isinstance(costs, np.ndarray):
        layers = costs[None] if costs.ndim == 2 else costs
        return tuple(f"cost-{j}" for j in range(len(layers))), check_costs(layers, shape)
    names: list[str] = []
    layers = [np.zeros((0, *shape), np.float32)]
    for item in costs.split(",") if isinstance(costs, str) else costs:
        found, drawn = _read_cost(item.strip(), scene)
        names.extend(found)
        layers.append(drawn)
    names = [f"none-{i + 1}" if name == "none" and name in names[:i] else name for i, name in enumerate(names)]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"cost '{name}' is given {names.count(name)} times; give each cost a name of its own")
    return tuple(names), np.concatenate(layers)


def _read_cost(item: str, scene: Scene) -> tuple[tuple[str, ...], np.ndarray]:
    """One item of a list of costs: a shape or a file, or a number times one of these."""
    if factor := re.fullmatch(r"(\d+(?:\.\d+)?)\*(.+)", item):
        names, layers = _read_cost(factor[2], scene)
        return tuple(f"{factor[1]}*{name}" for name in names), np.float32(factor[1]) * layers
    if item in scene.cost_names:
        return (item,), scene.layout.costs[scene.cost_names.index(item)][None]
    if item in COST_SHAPES:
        return (item,), _draw_shape(item, scene)[None]
    if Path(item).is_file():
        drawn, shape = _read_file(item), scene.layout.walls.shape
        if drawn.layout.walls.shape != shape:
            sizes = " × ".join(map(str, drawn.layout.walls.shape)), " × ".join(map(str, shape))
            raise UserError(f"the costs in '{item}' are for a map of {sizes[0]} cells; this one has {sizes[1]}")
        return drawn.cost_names, drawn.layout.costs
    if item.endswith(".txt") or "/" in item:
        raise UserError(f"no cost file '{item}'; give the path of a text file or a shape such as 'diamond'")
    raise unknown("cost shape", item, (*COST_SHAPES, *scene.cost_names))
