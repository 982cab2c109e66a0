"""Conversion between ASCII text and `Scene`, exact in both directions.

Each cell is one character: `#` wall, `.` free, `S` start, `G` goal, `C` a cost of 1. After an empty line follows a
legend of other letters, or whole cost layers::

    S.AAB.G

    A = fire 1
    B = fire 1, water 2.5

    cost noise
    . . 0.5 0.5 . . .

A cost layer may have n times as many rows and columns as the map: n × n values for each cell.
"""

import math
import re

import numpy as np

from safedsr.envs.grid.layout import FINEST, LARGEST_COST, Scene, finer, make_layout
from safedsr.errors import UserError
from safedsr.validation import check_name, require, shown

WALL, FREE, START, GOAL, COST = "#.SGC"
_LETTERS = "CABDEFHIJKLMNOPQRTUVWXYZabcdefghijklmnopqrstuvwxyz"


def parse_scene(text: str, name: str = "map") -> Scene:
    """The `Scene` of a text; error messages name rows and columns, counted from 1."""
    check_name(name, "the map's name")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    blocks = [block.split("\n") for block in re.split(r"\n\s*\n", text.strip("\n")) if block.strip()]
    if not blocks:
        raise UserError(f"{name}: the map is empty")
    rows = [line.rstrip() for line in blocks[0]]
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise UserError(f"{name}: row {number} has {len(row)} cells, row 1 has {len(rows[0])}; make them equal")
    if not rows[0]:
        raise UserError(f"{name}: the map is empty")
    cells = np.array(rows).view("U1").reshape(len(rows), -1)

    legend: dict[str, dict[str, float]] = {}
    layers: dict[str, np.ndarray] = {}
    for block in blocks[1:]:
        if block[0].startswith("cost "):
            title = _check_title(block[0].removeprefix("cost ").strip(), f"{name}: cost layer")
            if title in layers:
                raise UserError(f"{name}: cost '{title}' has two layers")
            layers[title] = _parse_layer(block[1:], title, cells.shape, name)
        else:
            for line in block:
                letter, values = _parse_legend(line, name)
                if letter in legend:
                    raise UserError(f"{name}: the legend explains '{letter}' twice")
                legend[letter] = values
    if COST not in legend and any(COST in row for row in rows):
        legend = {COST: {"cost": 1.0}, **legend}

    known = {WALL, FREE, START, GOAL, *legend}
    codes = cells.view(np.uint32)
    for row, column in np.argwhere(~np.isin(codes, [ord(letter) for letter in known]))[:1]:
        raise UserError(
            f"{name}: unknown letter {str(cells[row, column])!a} at row {row + 1}, column {column + 1}; "
            f"known: {' '.join(sorted(known))} (a legend line 'X = name 1' adds one)"
        )
    raster = math.lcm(*(layer.shape[1] // cells.shape[1] for layer in layers.values()))
    width = raster * cells.shape[1]
    layers = {title: finer(layer[None], width // layer.shape[1])[0] for title, layer in layers.items()}
    drawn = finer(cells[None], raster)[0]
    for letter, values in legend.items():
        for title, value in values.items():
            layer = layers.setdefault(title, np.zeros(drawn.shape))
            layer[drawn == letter] += value
    goals = _find(cells, GOAL)
    if len(goals) != 1:
        raise UserError(f"{name}: {len(goals)} goals; mark exactly one cell with '{GOAL}'")
    try:
        layout = make_layout(
            cells == WALL,
            np.stack(list(layers.values())) if layers else np.zeros((0, *cells.shape)),
            _find(cells, START),
            goals[0],
        )
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return Scene(name, layout, tuple(layers))


def format_scene(scene: Scene) -> str:
    """The text of a scene; `parse_scene` converts it back to exactly the same arrays."""
    layout = scene.layout
    cells = np.where(layout.walls, WALL, FREE)
    for column, row in layout.starts[: layout.num_starts]:
        cells[row, column] = START
    cells[layout.goal[1], layout.goal[0]] = GOAL

    legend = _choose_letters(scene, cells == FREE)
    if legend is None:
        layers = (_format_layer(name, layer) for name, layer in zip(scene.cost_names, layout.costs, strict=True))
        return "\n\n".join([_join(cells), *layers]) + "\n"
    for letter, kind in legend.items():
        cells[(layout.costs == kind[:, None, None]).all(0) & (cells == FREE)] = letter
    lines = [f"{letter} = {_format_kind(scene.cost_names, kind)}" for letter, kind in legend.items()]
    if not lines or lines == ["C = cost 1"]:
        return _join(cells) + "\n"
    return _join(cells) + "\n\n" + "\n".join(lines) + "\n"


def _choose_letters(scene: Scene, free: np.ndarray) -> dict[str, np.ndarray] | None:
    """A letter for each combination of costs, or None if letters cannot represent the cost layers."""
    costs = scene.layout.costs
    if scene.layout.raster > 1:
        return None
    shown = costs.any(0)
    kinds = np.unique(costs[:, shown], axis=1).T  # [kinds, J]
    kinds = sorted(kinds, key=lambda kind: (np.nonzero(kind)[0][0], *-kind))
    read_back = dict.fromkeys(
        name for kind in kinds for name, value in zip(scene.cost_names, kind, strict=True) if value
    )
    if (shown & ~free).any() or len(kinds) > len(_LETTERS) or tuple(read_back) != scene.cost_names:
        return None
    return dict(zip(_LETTERS, kinds, strict=False))


def _join(cells: np.ndarray) -> str:
    return "\n".join("".join(row) for row in cells)


def _number(value: float) -> str:
    return np.format_float_positional(np.float32(value), trim="-")


def _format_kind(names: tuple[str, ...], kind: np.ndarray) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in zip(names, kind, strict=True) if value)


def _format_layer(name: str, layer: np.ndarray) -> str:
    return f"cost {name}\n" + "\n".join(" ".join(_number(v) if v else FREE for v in row) for row in layer)


def _find(cells: np.ndarray, letter: str) -> list[tuple[int, int]]:
    return [(column, row) for row, column in np.argwhere(cells == letter).tolist()]


def _parse_number(word: str, place: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise UserError(f"{place}: {shown(word)} is not a number") from None


def _check_title(title: str, place: str) -> str:
    if not title or "," in title:  # a comma separates the costs of a letter
        raise UserError(f"{place}: '{title}' is no name for a cost; give one without commas")
    return check_name(title, f"{place}: the name of a cost")


def _parse_legend(line: str, name: str) -> tuple[str, dict[str, float]]:
    letter, equals, entries = (part.strip() for part in line.partition("="))
    if not equals or len(letter) != 1 or not entries:
        raise UserError(f"{name}: cannot read '{line.strip()}'; after the map come lines such as 'A = fire 1, water 2'")
    if letter in (WALL, FREE, START, GOAL):
        raise UserError(f"{name}: '{letter}' has a fixed meaning; choose another letter")
    values = {}
    for entry in entries.split(","):
        title, _, value = entry.strip().rpartition(" ")
        title, value = (title, value) if title else (value, "1")
        title = _check_title(title.strip(), f"{name}: legend of '{letter}'")
        if title in values:
            raise UserError(f"{name}: legend of '{letter}': cost '{title}' is given twice")
        found = values[title] = _parse_number(value, f"{name}: legend of '{letter}'")
        need = f"give a number from 0 to {LARGEST_COST:g}"
        require(0 <= found <= LARGEST_COST, f"{name}: legend of '{letter}': the cost '{title}'", value, need)
    return letter, values


def _parse_layer(lines: list[str], title: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    rows = [
        [0.0 if word == FREE else _parse_number(word, f"{name}: cost '{title}', row {number}") for word in line.split()]
        for number, line in enumerate(lines, 1)
    ]
    widths = {len(row) for row in rows}
    times = len(rows) // shape[0]
    if not 1 <= times <= FINEST or len(rows) != times * shape[0] or widths != {times * shape[1]}:
        raise UserError(
            f"{name}: cost layer '{title}' is {len(rows)} rows of {sorted(widths)} values; the map is "
            f"{shape[0]} rows of {shape[1]}: give one value for each cell, or n times as many rows and columns "
            f"(n up to {FINEST})"
        )
    return np.array(rows)
