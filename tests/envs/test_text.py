import numpy as np
import pytest
from hypothesis import given, settings
from strategies import scenes

from safedsr.envs.grid.layout import Scene, make_layout
from safedsr.envs.grid.text import format_scene, parse_scene
from safedsr.errors import UserError


def assert_same(found: Scene, expected: Scene) -> None:
    assert found.cost_names == expected.cost_names
    for name, a, b in zip(expected.layout._fields, found.layout, expected.layout, strict=True):
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)


@settings(max_examples=300)
@given(scene=scenes())
def test_text_round_trip_is_exact(scene):
    text = format_scene(scene)
    again = parse_scene(text, "again")
    assert_same(again, scene)
    assert format_scene(again) == text


def test_letters_and_layers():
    scene = parse_scene(
        "S.AAB.G\n#######\n\nA = fire 1\nB = fire 1, water 2.5\n\ncost noise\n" + ". . 0.5 . . . 7\n" * 2
    )
    assert scene.cost_names == ("noise", "fire", "water")
    noise, fire, water = scene.layout.costs
    np.testing.assert_array_equal(noise, [[0, 0, 0.5, 0, 0, 0, 7]] * 2)
    np.testing.assert_array_equal(fire[0], [0, 0, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(water[0], [0, 0, 0, 0, 2.5, 0, 0])
    np.testing.assert_array_equal(scene.layout.walls, [[False] * 7, [True] * 7])


def test_c_costs_one_unless_the_legend_says_otherwise():
    plain = parse_scene("SCG")
    assert plain.cost_names == ("cost",) and plain.layout.costs[0, 0, 1] == 1
    other = parse_scene("SCG\n\nC = fire 3")
    assert other.cost_names == ("fire",) and other.layout.costs[0, 0, 1] == 3


def test_a_legend_value_may_be_left_out():
    assert parse_scene("SAG\n\nA = fire").layout.costs.tolist() == [[[0, 1, 0]]]


def test_line_ends_and_blank_lines_do_not_matter():
    text = "S.A\n..G\n\nA = fire 2\n\ncost mud\n1 . .\n. . 2\n"
    loose = "\n\n" + text.replace("\n\n", "\n  \n\n") + "\n\n"
    assert_same(parse_scene(loose), parse_scene(text))
    assert_same(parse_scene(text.replace("\n", "\r\n")), parse_scene(text))


def test_costs_on_start_and_goal_are_written_as_layers():
    layout = make_layout(np.zeros((1, 3), bool), [[[1, 0, 0.25]]], [(0, 0)], (2, 0))
    assert format_scene(Scene("edge", layout, ("toll",))) == "S.G\n\ncost toll\n1 . 0.25\n"


def test_several_kinds_of_cost_are_written_as_letters():
    costs = [[[0, 1, 1, 0]], [[0, 0, 0.5, 0]]]
    layout = make_layout(np.zeros((1, 4), bool), costs, [(0, 0)], (3, 0))
    text = format_scene(Scene("kinds", layout, ("fire", "water")))
    assert text == "SACG\n\nC = fire 1, water 0.5\nA = fire 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m: the map is empty"),
        ("\n \n", "m: the map is empty"),
        ("S.G\n..\n", "m: row 2 has 2 cells, row 1 has 3; make them equal"),
        ("S.G\n.x.\n", r"m: unknown letter 'x' at row 2, column 2; known: # \. G S \(a legend line"),
        ("SAB\n..G\n\nA = fire 1", r"m: unknown letter 'B' at row 1, column 3; known: # \. A G S"),
        ("S..", "m: 0 goals; mark exactly one cell with 'G'"),
        ("GSG", "m: 2 goals; mark exactly one cell with 'G'"),
        ("..G", "m: no start; mark at least one cell with 'S'"),
        ("S#G", "m: the goal cannot be reached from the start at row 1, column 1"),
        ("SAG\n\nA = fire one", "m: legend of 'A': 'one' is not a number"),
        ("SAG\n\nA = fire -1", "m: legend of 'A': the cost 'fire' is '-1'; give a number from 0 to 1e"),
        ("SAG\n\nA = fire nan", "m: legend of 'A': the cost 'fire' is 'nan'; give a number from 0 to 1e"),
        ("SAG\n\nA = fire 1e39", "m: legend of 'A': the cost 'fire' is '1e39'; give a number from 0 to 1e"),
        ("SAG\n\nA = fire 1\nA = water 1", "m: the legend explains 'A' twice"),
        ("SAG\n\nA = fire 1, fire 2", "m: legend of 'A': cost 'fire' is given twice"),
        ("SAG\n\nA = fire 1,", "m: legend of 'A': '' is no name for a cost"),
        ("SAG\n\nS = fire 1", "m: 'S' has a fixed meaning; choose another letter"),
        ("SAG\n\nfire 1", "m: cannot read 'fire 1'; after the map come lines such as"),
        ("SAG\n\nAB = fire 1", "m: cannot read 'AB = fire 1'"),
        ("S.G\n\ncost mud\n. .", r"m: cost layer 'mud' is 1 rows of \[2\] values; the map is 1 rows of 3"),
        ("S.G\n\ncost mud\n. . .\n. . .", r"m: cost layer 'mud' is 2 rows of \[3\] values; the map is 1 rows of 3"),
        ("S.G\n\ncost mud", r"m: cost layer 'mud' is 0 rows"),
        ("S.G\n...\n\ncost mud\n. . .\n. 1x .", "m: cost 'mud', row 2: '1x' is not a number"),
        ("S.G\n\ncost mud\n. 1 .\n\ncost mud\n. 1 .", "m: cost 'mud' has two layers"),
        ("S.G\n\ncost mud\n. 1e39 .", "m: cost inf in layer 1 at row 1, column 2"),
        ("S.G\n\ncost mud\n. . .\n\ncost ice\n. -2 .", "m: cost -2.0 in layer 2 at row 1, column 2"),
        ("S.G\n\ncost \n. 1 .", "m: cost layer: '' is no name for a cost"),
        ("S.G\n\ncost mud, ice\n. 1 .", "m: cost layer: 'mud, ice' is no name for a cost; give one without commas"),
    ],
)
def test_bad_text_is_named_by_place(text, message):
    with pytest.raises(UserError, match=f"^{message}"):
        parse_scene(text, "m")
