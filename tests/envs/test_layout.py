import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import World, worlds

from safedsr.envs import episode
from safedsr.envs.episode import Episode, Moment
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.envs.grid.layout import Layout, make_layout, stack_layouts
from safedsr.errors import UserError

OPEN = np.zeros((3, 4), bool)
NO_COSTS = np.zeros((0, 3, 4))
BIG = World(np.zeros((6, 7), bool), np.zeros((1, 6, 7), np.float32), [(0, 0), (1, 0), (2, 0), (3, 0)], (6, 5))


def test_arrays_and_scale():
    layout = make_layout(OPEN, np.ones((2, 3, 4)), [(0, 0), (1, 2)], (3, 1))
    assert layout.walls.dtype == bool and layout.costs.dtype == np.float32
    np.testing.assert_array_equal(layout.starts, [[0, 0], [1, 2]])
    np.testing.assert_array_equal(layout.goal, [3, 1])
    assert layout.num_starts == 2 and layout.scale == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": []}, "no start; mark at least one cell with 'S'"),
        ({"starts": [(1, 0)]}, r"the start \(row 1, column 2\) is in a wall"),
        ({"goal": (1, 2)}, r"the goal \(row 3, column 2\) is in a wall"),
        ({"starts": [(4, 0)]}, r"the start \(row 1, column 5\) is off the map"),
        ({"goal": (-1, 0)}, r"the goal \(row 1, column 0\) is off the map"),
        ({"starts": [(2, 0), (3, 1)]}, r"the start \(row 2, column 4\) is the goal"),
        ({"starts": [(2, 0), (0, 2)]}, "the goal cannot be reached from the start at row 3, column 1"),
        ({"costs": np.zeros((1, 4, 3))}, r"shape \(1, 4, 3\); this map needs \[J, 3, 4\]"),
        ({"costs": np.zeros((3, 4))}, r"shape \(3, 4\); this map needs \[J, 3, 4\]"),
    ],
)
def test_bad_maps(change, message):
    walls = OPEN.copy()
    walls[:, 1] = True
    given = {"walls": walls, "costs": NO_COSTS, "starts": [(2, 0)], "goal": (3, 1), **change}
    with pytest.raises(UserError, match=message):
        make_layout(**given)


def test_a_diagonal_gap_is_no_way():
    with pytest.raises(UserError, match="cannot be reached"):
        make_layout([[False, True], [True, False]], np.zeros((0, 2, 2)), [(0, 0)], (1, 1))


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, 1e39])
def test_bad_costs_are_named_by_place(value):
    costs = np.zeros((2, 3, 4))
    costs[1, 2, 0] = value
    with pytest.raises(UserError, match="in layer 2 at row 3, column 1; costs are finite and at least 0"):
        make_layout(OPEN, costs, [(0, 0)], (3, 1))


def test_stacking_pads_with_wall():
    small = make_layout([[False, False]], np.ones((1, 1, 2)), [(0, 0)], (1, 0))
    stacked = stack_layouts([small, BIG.layout()])
    assert (
        stacked.walls.shape == (2, 6, 7) and stacked.costs.shape == (2, 1, 6, 7) and stacked.starts.shape == (2, 4, 2)
    )
    assert stacked.walls[0].sum() == 6 * 7 - 2
    assert stacked.costs[0].sum() == 2
    np.testing.assert_array_equal(stacked.num_starts, [1, 4])
    np.testing.assert_array_equal(stacked.scale, [2, 7])


def test_stacking_needs_as_many_costs_each():
    other = make_layout(OPEN, np.zeros((2, 3, 4)), [(0, 0)], (3, 1))
    with pytest.raises(UserError, match=r"different numbers of costs \(\[1, 2\]\)"):
        stack_layouts([BIG.layout(), other])
    with pytest.raises(UserError, match="no layouts"):
        stack_layouts([])


@jax.jit
def walk(layout: Layout, key: jax.Array, actions: jax.Array) -> tuple[Episode, Moment]:
    """The steps of one walker; the time limit is short, so that it starts anew several times."""
    environment = make_grid(GridConfig(time_limit=9), len(layout.costs))

    def advance(before, inputs):
        step_key, action = inputs
        after, moment = episode.step_or_restart(environment, step_key, before, action, layout)
        return after, (after, moment)

    start = episode.start(environment, key, layout)
    return jax.lax.scan(advance, start, (jax.random.split(key, len(actions)), actions))[1]


@settings(max_examples=12)
@given(world=worlds(st.just(1), max_height=2, max_width=3), seed=st.integers(0, 99))
def test_a_padded_map_walks_alike(world, seed):
    padded = jax.tree.map(lambda x: x[0], stack_layouts([world.layout(), BIG.layout()]))
    key = jax.random.key(seed)
    actions = jax.random.randint(key, (40,), 0, 4)
    walks = (jax.tree.leaves(walk(layout, key, actions)) for layout in (world.layout(), padded))
    for plain, grown in zip(*walks, strict=True):
        np.testing.assert_array_equal(plain, grown)
