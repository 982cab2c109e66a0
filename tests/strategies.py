"""Random maps for property tests."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from safedsr.envs.grid.layout import Layout, Scene, make_layout

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}( [a-z0-9]{1,3})?", fullmatch=True)
VALUES = st.floats(0, 100, width=32) | st.sampled_from([1.0, 0.1, 2.5, 1e-30, 1e9])


class World(NamedTuple):
    """A map in plain NumPy, before it becomes a `Layout`."""

    walls: np.ndarray  # [H, W] bool
    costs: np.ndarray  # [J, H, W] float32
    starts: list[tuple[int, int]]  # (column, row) in reading order
    goal: tuple[int, int]

    def layout(self) -> Layout:
        return make_layout(self.walls, self.costs, self.starts, self.goal)


@st.composite
def worlds(draw: Any, num_costs: st.SearchStrategy[int], max_height: int = 5, max_width: int = 6) -> World:
    """Any map whose goal can be reached: walls at random, then a way from each start to the goal."""
    height, width = draw(st.integers(1, max_height)), draw(st.integers(2, max_width))
    cells = [(column, row) for row in range(height) for column in range(width)]
    goal, *starts = draw(st.lists(st.sampled_from(cells), min_size=2, max_size=4, unique=True))
    walls = np.array(draw(st.lists(st.booleans(), min_size=len(cells), max_size=len(cells)))).reshape(height, width)
    for column, row in starts:
        walls[row, min(column, goal[0]) : max(column, goal[0]) + 1] = False
        walls[min(row, goal[1]) : max(row, goal[1]) + 1, goal[0]] = False
    count = draw(num_costs)
    flat = np.zeros((count, len(cells)), np.float32)
    for layer in flat:
        value = draw(VALUES)
        several = draw(st.booleans())
        for cell in draw(st.sets(st.integers(0, len(cells) - 1), max_size=8)):
            layer[cell] = draw(VALUES) if several else value
    return World(walls, flat.reshape(count, height, width), sorted(starts, key=lambda cell: cell[::-1]), goal)


@st.composite
def scenes(draw: Any) -> Scene:
    """Any map with up to three named cost layers, which may overlap and may be empty."""
    world = draw(worlds(st.integers(0, 3)))
    names = draw(st.lists(NAMES | st.just("cost"), min_size=len(world.costs), max_size=len(world.costs), unique=True))
    return Scene("drawn", world.layout(), tuple(names))
