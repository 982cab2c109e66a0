import numpy as np
import pytest
from folders import some_episodes, write_run
from made import made_result
from scipy.stats import kstest, trim_mean

from safedsr.envs.grid.layout import Scene
from safedsr.envs.grid.text import format_scene, parse_scene
from safedsr.errors import UserError
from safedsr.figures.curves import best_labels, curve
from safedsr.figures.heatmaps import count_cells, outcome_cells
from safedsr.figures.scatter import points
from safedsr.figures.select import Group, costless, groups, layouts_of, scenes_of
from safedsr.figures.trajectories import LAST, episodes_of, trail
from safedsr.runs import storage
from safedsr.runs.collect import load_results
from safedsr.runs.maps import scene_of
from safedsr.runs.reference import Level, Reference, key_of

LEVEL = Level(0.25, 1.0, 0.9, reward=0.7, cost=(1.5,))
ORACLE = Reference(500_000, 99.0, 88.0, exploring=LEVEL, greedy=LEVEL._replace(epsilon=0.0))


def group_of(*results) -> Group:
    return Group(results[0].costs, results[0].budgets, list(results))


def test_groups_never_mix_costs_or_budgets():
    plain = [made_result(label, budgets=(5.0,)) for label in ("safedqn", "safedsr", "cpo")]
    strict = made_result("safedsr (budget 2)", budgets=(2.0,))
    square = made_result(costs=("square",))
    free = [made_result(costs=("none",)), made_result("dqn", costs=(), budgets=())]
    found = groups([strict, square, *free, *plain])
    assert [len(group.results) for group in found] == [3, 1, 1]
    assert {(group.costs, group.budgets) for group in found} == {
        (("diamond",), (5.0,)),
        (("diamond",), (2.0,)),
        (("square",), (5.0,)),
    }
    assert found[0].title == "diamond; budget 5"
    assert costless([strict, *free]) == free


def test_maps_in_the_papers_order():
    assert layouts_of(made_result(layout=name) for name in ("two-rooms", "attic", "three-rooms", "one-room")) == [
        "one-room",
        "two-rooms",
        "three-rooms",
        "attic",
    ]


def test_the_map_is_the_one_in_the_run_folder(tmp_path):
    drawn = parse_scene("S..C\n...G", "one-room")  # a file of a user's own with a name that is taken
    run = write_run(tmp_path / "run", {(0, 0): some_episodes(0, 1000)}, seeds=[0])
    config = storage.read_json(run / "config.json")
    config["tasks"][0] |= {"costs": list(drawn.cost_names), "params": {"map": format_scene(drawn)}}
    storage.write_json(run / "config.json", config)
    (own,), usual = load_results([run]), made_result()
    assert format_scene(scene_of(own)) == format_scene(drawn)
    assert scene_of(usual).layout.walls.shape == (11, 11)
    assert key_of(own) != key_of(own._replace(params=usual.params))
    with pytest.raises(UserError, match=r"run has no map for one-room, cost; this picture needs a run on a grid map"):
        scene_of(own._replace(params={}))


def test_every_map_once_and_with_costs_where_there_are_some():
    results = [made_result(costs=costs, label=label) for costs in (("none",), ("diamond",)) for label in "ab"]
    found = scenes_of([*results, made_result(layout="two-rooms", costs=("none",))])
    assert [(scene.name, scene.cost_names) for scene in found] == [("one-room", ("diamond",)), ("two-rooms", ("none",))]
    assert all(isinstance(scene, Scene) for scene in found)


def test_counts_by_algorithm_and_map():
    goals = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    paid = made_result("safedqn", goals=goals, safe_goals=goals[::-1])
    other = made_result("safedsr", "two-rooms", goals=[7] * 10, safe_goals=[1] * 10)
    free = made_result("cpo", costs=("none",), goals=range(10))
    found = count_cells([paid, other, free], group_of(paid, other), {})
    assert [some.title for some in found] == ["goals, no costs", "goals, with costs", "safe goals, with costs"]
    assert all(some.rows == ["safedsr", "safedqn", "cpo"] for some in found)
    assert [some.columns for some in found] == [["one-room"], ["one-room", "two-rooms"], ["one-room", "two-rooms"]]
    middle = trim_mean(goals, 0.25)
    np.testing.assert_allclose(found[0].values, [[np.nan], [np.nan], [4.5]])
    np.testing.assert_allclose(found[1].values, [[np.nan, 7], [middle, np.nan], [np.nan, np.nan]])
    np.testing.assert_allclose(found[2].values, [[np.nan, 1], [middle, np.nan], [np.nan, np.nan]])


def test_the_oracle_is_a_row_of_its_own_where_it_is_known():
    paid, other = made_result(), made_result(layout="two-rooms")
    references = {key_of(paid): ORACLE}
    counts = count_cells([paid, other], group_of(paid, other), references)
    assert [some.rows[-1] for some in counts] == ["oracle", "oracle"]
    np.testing.assert_array_equal(counts[0].values[-1], [99, np.nan])
    np.testing.assert_array_equal(counts[1].values[-1], [88, np.nan])
    reward, cost = outcome_cells(group_of(paid), references)
    assert (reward.values[-1, 0], cost.values[-1, 0]) == (0.7, 1.5)
    assert "oracle" not in outcome_cells(group_of(paid._replace(budgets=(2.0,))), references)[0].rows


def test_the_oracle_walks_as_long_as_most_do():
    short, *usual = made_result("cpo", steps=1000), made_result(), made_result("safedqn")
    references = {key_of(usual[0]): ORACLE, key_of(short): ORACLE._replace(goal_count=1.0)}
    assert count_cells([short, *usual], group_of(short, *usual), references)[0].values[-1, 0] == 99


def test_outcomes_by_algorithm_and_map():
    one = made_result("safedqn", reward=[-10, 0, 0.5, 1], cost=[0, 10, 20, 400])
    reward, cost = outcome_cells(group_of(one), {})
    assert (reward.values.item(), cost.values.item()) == (0.25, 15)


def test_points_of_the_trade_off():
    values = np.random.default_rng(0).normal(size=10)
    one = made_result("safedqn", goals=[1] * 10, reward=values, cost=values + 5)
    group = group_of(one, made_result("cpo", "two-rooms"))
    (point,) = points(group, "one-room", 0)
    expected = (np.percentile(values, 25), trim_mean(values, 0.25), np.percentile(values, 75))
    assert point.label == "safedqn"
    np.testing.assert_allclose(point.reward, expected)
    np.testing.assert_allclose(point.cost, np.add(expected, 5))


@pytest.mark.parametrize("spacing", [200, 2000])
def test_a_curve_is_averaged_as_the_paper_does_and_has_the_quartiles_of_its_seeds(spacing):
    """20 000 steps of window are 100 points of a full folder and 10 of a packed one."""
    window, points = 20_000 // spacing, 130
    seeds = np.random.default_rng(1).random((8, points))
    found = curve(made_result(goals=[1] * 8, series={"safe": seeds}, spacing=spacing), "safe")
    first = np.arange(points) + 1 - window
    own = np.stack([seeds[:, max(a, 0) : a + window].mean(1) for a in first], 1)
    np.testing.assert_allclose(found.low, np.percentile(own, 25, axis=0))
    np.testing.assert_allclose(found.high, np.percentile(own, 75, axis=0))
    np.testing.assert_allclose(found.middle, trim_mean(own, 0.25, axis=0))
    middle = trim_mean(seeds, 0.25, axis=0)
    np.testing.assert_allclose(found.line, [middle[max(a, 0) : a + window].mean() for a in first])


def test_a_curve_begins_when_the_first_seed_has_an_episode():
    series = [[np.nan, np.nan, 1.0, 1.0], [np.nan, 3.0, 3.0, 3.0]]
    found = curve(made_result(goals=[1, 2], series={"cost": series}), "cost")
    np.testing.assert_allclose(found.low, [np.nan, 3, 1.5, 1.5])
    np.testing.assert_allclose(found.line, [np.nan, 3, 2.5, (3 + 2 + 2) / 3])


def test_a_run_without_a_point_in_time_has_an_empty_curve():
    found = curve(made_result(series={"safe": np.zeros((4, 0))}), "safe")
    assert [len(values) for values in found[1:]] == [0] * 5


def test_the_best_by_safe_goals_relative_to_the_best_on_each_map():
    easy = {"safedsr": 100, "cpo": 1000, "ipo": 900, "p3o": 850}
    hard = {"safedsr": 10, "cpo": 0, "ipo": 0}  # p3o was not run there
    results = [made_result(label, goals=[n] * 4) for label, n in easy.items()]
    results += [made_result(label, "two-rooms", goals=[n] * 4) for label, n in hard.items()]
    group = group_of(*results)
    assert best_labels(group, 2) == ["safedsr", "cpo"]
    assert best_labels(group, 3) == ["safedsr", "cpo", "ipo"]
    assert best_labels(group) == ["safedsr", "cpo", "ipo", "p3o"]


def test_walks_are_those_of_the_last_steps_of_the_best_seed():
    episode = np.array([[1.01, 1.0], [2.0, 1.0], [np.nan, np.nan]])
    positions = np.concatenate([np.full((3, 2), 9.0), np.full((1, 2), np.nan), np.tile(episode, (LAST // 2, 1))])
    one = made_result(goals=[5, 9, 8, 9], safe_goals=[3, 4, 4, 0], positions=positions)
    found = trail(one)
    assert (found.seed, found.goals, found.safe_goals) == (1, 9, 4)  # seeds 1 and 2 tie: goals decide
    assert np.isfinite(found.positions[:, 0]).sum() == LAST
    assert np.nanmax(found.positions) == 2
    walks = episodes_of(found.positions)
    assert len(walks) == LAST // 2
    np.testing.assert_array_equal(walks[0], episode[:2])
    np.testing.assert_array_equal(walks[-1], episode[:2])


def test_rounded_walks_are_spread_over_what_was_rounded_away():
    exact = np.random.default_rng(0).uniform(0, 10, (5000, 2))
    rounded = np.rint(exact * 8) / 8
    found = trail(made_result(positions=rounded)).positions
    assert np.abs(found - rounded).max() <= 1 / 16
    assert kstest((found.ravel() * 8 + 0.5) % 1, "uniform").pvalue > 0.01
    np.testing.assert_array_equal(trail(made_result(positions=exact)).positions, exact)


def test_a_walk_that_goes_on_is_drawn_too():
    positions = np.array([[0, 0], [1, 0], [np.nan, np.nan], [np.nan, np.nan], [5, 5], [np.nan, np.nan], [0, 1], [0, 2]])
    assert [walk.tolist() for walk in episodes_of(positions)] == [[[0, 0], [1, 0]], [[0, 1], [0, 2]]]
    assert episodes_of(positions[:1]) == []
