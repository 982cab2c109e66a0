import itertools

import jax
import numpy as np
import pytest

from safedsr.envs.grid import physics
from safedsr.envs.grid.catalog import COST_SHAPES, load_scene, with_costs
from safedsr.envs.grid.layout import finer, stack_layouts
from safedsr.envs.grid.text import format_scene, parse_scene
from safedsr.errors import UserError

THREE_ROOMS = """\
..........#.........#..........
..........#.........#..........
.....C....#....C....#....C.....
....CCC...#...CCC...#...CCC....
...CCCCC.....CCCCC.....CCCCC...
S.CCCCCCC...CCCCCCC...CCCCCCC.G
...CCCCC.....CCCCC.....CCCCC...
....CCC...#...CCC...#...CCC....
.....C....#....C....#....C.....
..........#.........#..........
..........#.........#..........
"""


def drawing(layout: str, costs: str) -> list[str]:
    """The map of a scene without its legend."""
    return format_scene(load_scene(layout, costs)).split("\n\n")[0].splitlines()


def test_three_rooms_are_drawn_as_in_the_reference():
    assert "\n".join(drawing("three-rooms", "diamond")) + "\n" == THREE_ROOMS


@pytest.mark.parametrize(
    ("costs", "room"),
    [
        ("none", ["..........."] * 5 + ["S.........G"] + ["..........."] * 5),
        (
            "small-diamond",
            ["..........."] * 3
            + [".....C.....", "....CCC....", "S..CCCCC..G", "....CCC....", ".....C....."]
            + ["..........."] * 3,
        ),
        (
            "square",
            ["..........."] + ["..CCCCCCC.."] * 4 + ["S.CCCCCCC.G"] + ["..CCCCCCC.."] * 4 + ["..........."],
        ),
        (
            "inverse-diamond",
            [
                *["CCCCCCCCCCC", "CCCCCCCCCCC", "CCCCC.CCCCC", "CCCC...CCCC", "CCC.....CCC"],
                "S.........G",
                *["CCC.....CCC", "CCCC...CCCC", "CCCCC.CCCCC", "CCCCCCCCCCC", "CCCCCCCCCCC"],
            ],
        ),
    ],
)
def test_cost_shapes_in_one_room(costs, room):
    assert drawing("one-room", costs) == room


def test_shapes_leave_doors_free_and_never_cover_walls():
    scene = load_scene("two-rooms", ",".join(COST_SHAPES))
    assert scene.cost_names == tuple(COST_SHAPES)
    layout, fine = scene.layout, scene.layout.raster
    assert fine == 8 and not layout.costs[:, :, 10 * fine : 11 * fine].any()
    assert not layout.costs[:, layout.walls.repeat(fine, 0).repeat(fine, 1)].any()


def test_fine_shapes_lie_where_they_are_said_to():
    """Half a cell off: the diamond's area, its centre moved by half a cell. Discs: the area of circles."""
    middle = (np.indices((88, 88)) + 0.5) / 8 - 5.5
    for name, area, centre in (("offset-diamond", 25, 0.5), ("discs", 2 * np.pi * 1.6**2, 0.0)):
        drawn = load_scene("one-room", name).layout.costs[0] > 0
        assert drawn.sum() / 64 == pytest.approx(area, rel=0.02)
        np.testing.assert_allclose(middle[:, drawn].mean(1), centre, atol=1e-6)
    stripes = load_scene("one-room", "stripes").layout.costs[0, 44] > 0
    widths = [len(list(run)) / 8 for cost, run in itertools.groupby(stripes) if cost]
    assert len(widths) == 3 and max(widths) < 1


def test_a_finer_raster_is_the_same_map():
    """Each cell of the diamond as 3 × 3 equal values: the same costs at every position, also as text and stacked."""
    coarse = load_scene("one-room", "diamond")
    fine = with_costs(coarse, finer(coarse.layout.costs, 3))
    places = jax.random.uniform(jax.random.key(0), (500, 2)) * 11
    both = [jax.vmap(physics.cost_at, (0, None))(places, scene.layout) for scene in (coarse, fine)]
    np.testing.assert_array_equal(both[0], both[1])
    again = parse_scene(format_scene(fine))
    np.testing.assert_array_equal(again.layout.costs, fine.layout.costs)
    stacked = stack_layouts([fine.layout, load_scene("two-rooms", "offset-diamond").layout])
    assert stacked.costs.shape == (2, 1, 11 * 24, 21 * 24)
    first = jax.tree.map(lambda x: x[0], stacked)
    np.testing.assert_array_equal(jax.vmap(physics.cost_at, (0, None))(places, first), both[0])
    with pytest.raises(UserError, match="n times as many rows"):
        with_costs(coarse, np.zeros((1, 22, 33)))
    with pytest.raises(UserError, match="n times as many rows"):
        parse_scene("S.G\n\ncost a\n. . . . . .\n")


def test_rooms_n():
    for count, name in enumerate(("one-room", "two-rooms", "three-rooms"), 1):
        assert format_scene(load_scene(f"rooms-{count}", "diamond")) == format_scene(load_scene(name, "diamond"))
    layout = load_scene("rooms-5").layout
    assert layout.walls.shape == (11, 51) and layout.scale == 51
    np.testing.assert_array_equal(np.nonzero(layout.walls.any(0))[0], [10, 20, 30, 40])
    np.testing.assert_array_equal(np.nonzero(~layout.walls[:, 30])[0], [4, 5, 6])
    np.testing.assert_array_equal(layout.starts, [[0, 5]])
    np.testing.assert_array_equal(layout.goal, [50, 5])


def test_costs_come_from_shapes_files_and_arrays(write_map):
    text = format_scene(load_scene("one-room", "square")).replace("= square 1", "= mud 3")
    path = write_map(text)
    both = load_scene("one-room", f"diamond, {path}")
    assert both.cost_names == ("diamond", "mud")
    assert both.layout.costs.shape == (2, 11, 11) and both.layout.costs[1].max() == 3
    assert load_scene("one-room", ["diamond", path]).cost_names == both.cost_names
    array = with_costs(both, both.layout.costs[1].astype(np.float64))
    assert array.cost_names == ("cost-0",) and array.layout.costs.dtype == np.float32
    np.testing.assert_array_equal(array.layout.costs[0], both.layout.costs[1])


def test_a_number_times_a_cost():
    scene = load_scene("one-room", "2*diamond,0.5*square")
    assert scene.cost_names == ("2*diamond", "0.5*square")
    np.testing.assert_array_equal(scene.layout.costs[0], 2 * load_scene("one-room", "diamond").layout.costs[0])
    np.testing.assert_array_equal(scene.layout.costs[1], load_scene("one-room", "square").layout.costs[0] / 2)
    again = parse_scene(format_scene(scene), scene.name)
    assert again.cost_names == scene.cost_names
    np.testing.assert_array_equal(again.layout.costs, scene.layout.costs)


def test_a_map_file_keeps_its_costs_unless_others_are_given(write_map):
    path = write_map("S.AG\n\nA = fire 2", "yard.txt")
    scene = load_scene(path)
    assert (scene.name, scene.cost_names) == ("yard", ("fire",))
    assert load_scene(path, "none").cost_names == ("none",)


def test_changing_costs_leaves_the_first_scene_alone():
    scene = load_scene("one-room", "diamond")
    with_costs(scene, "square")
    assert scene.cost_names == ("diamond",) and scene.layout.costs.sum() == 25


@pytest.mark.parametrize(
    ("layout", "costs", "message"),
    [
        ("two-rom", None, "unknown layout 'two-rom'; did you mean 'two-rooms'?"),
        ("rooms-0", None, "unknown layout 'rooms-0'; did you mean 'rooms-N'?"),
        ("qqq", None, "unknown layout 'qqq'; known: one-room, rooms-N, three-rooms, two-rooms"),
        ("missing.txt", None, "no layout file 'missing.txt'"),
        ("some/where", None, "no layout file 'some/where'"),
        ("one-room", "dimond", "unknown cost shape 'dimond'; did you mean 'diamond'?"),
        ("one-room", "diamond,diamond", "cost 'diamond' is given 2 times"),
        ("one-room", np.zeros((2, 3)), "cost layers have shape (1, 2, 3); this map needs [J, 11, 11]"),
        ("one-room", -np.ones((11, 11)), "cost -1.0 in layer 1 at row 1, column 1"),
        ("one-room", np.full((1, 11, 11), 1e39), "cost inf in layer 1 at row 1, column 1"),
    ],
)
def test_bad_names_and_costs(layout, costs, message):
    with pytest.raises(UserError) as error:
        load_scene(layout, costs)
    assert message in str(error.value)


def test_shapes_need_rooms(write_map):
    path = write_map("S.G", "hall.txt")
    with pytest.raises(
        UserError, match=r"cost shape 'diamond' is drawn for rooms .* and 'hall' has 1 rows and 3 columns"
    ):
        load_scene(path, "diamond")


def test_cost_files_must_fit_the_map(write_map):
    path = write_map("SCG")
    with pytest.raises(UserError, match=r"the costs in '.*' are for a map of 1 × 3 cells; this one has 11 × 11"):
        load_scene("one-room", path)
    with pytest.raises(UserError, match="cost 'cost' is given 2 times"):
        load_scene(path, [path, path])


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "noise.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"cannot read '.*noise.txt' as text"):
        load_scene(path)


def test_a_damaged_file_names_the_place(write_map):
    with pytest.raises(UserError, match="yard: row 2 has 2 cells"):
        load_scene(write_map("S.G\n..", "yard.txt"))


def test_the_reference_drawing_reads_back():
    drawn, named = parse_scene(THREE_ROOMS).layout, load_scene("three-rooms", "diamond").layout
    for a, b in zip(drawn, named, strict=True):
        np.testing.assert_array_equal(a, b)
