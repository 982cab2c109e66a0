import numpy as np
import pytest
from folders import Place, some_episodes, write_run
from made import made_result

from safedsr.agents.onpolicy.config import PRESETS
from safedsr.core.config import MultiplierConfig
from safedsr.runs import metrics, storage
from safedsr.runs.collect import load_results
from safedsr.runs.metrics import Episodes
from safedsr.runs.results import best_seed, smooth, trend


def known(ends, ret, cost, reached) -> Episodes:
    ends = np.array(ends)
    return Episodes(ends, np.ones(len(ends)), np.array(ret), np.array(cost, np.float32), np.array(reached, bool))


def write_known(path, **options):
    """Two seeds whose numbers one can count by hand."""
    first = known([300, 700, 900], [1.0, 3.0, 0.5], [[2], [5.5], [5]], [1, 1, 1])
    second = known([400, 1000], [-1.0, -2.0], [[0], [9]], [1, 0])
    return write_run(path, {(0, 0): first, (0, 1): second}, **{"steps": 1000, **options})


def test_counts_and_series_of_known_episodes(tmp_path):
    remarks: list[str] = []
    (found,) = load_results([write_known(tmp_path / "run")], remarks)
    assert remarks == []
    assert found.layout == "one-room" and found.costs == ("diamond",) and found.budgets == (5.0,)
    assert found.seeds == (0, 1) and found.steps == 1000 and found.environment == "one-room, diamond"
    expected = {
        "goal count": [3, 1],
        "safe goal count": [2, 1],
        "half-budget safe goal count": [1, 1],
        "last reward": [0.5, -2.0],
        "last cost diamond": [5, 9],
    }
    assert {name: values.tolist() for name, values in found.counts.items()} == expected
    np.testing.assert_array_equal(found.points, [200, 400, 600, 800, 1000])
    nan = np.nan
    np.testing.assert_allclose(found.series["reward"][0], [nan, 1.5, 2.5, 1.75, 0.5])
    np.testing.assert_allclose(found.series["cost"][1], [nan, 0, 3, 6, 9])
    np.testing.assert_allclose(found.series["safe"][0], [nan, 0.75, 0.25, 0.5, 1])
    np.testing.assert_allclose(found.series["goal"][1], [nan, 1, 2 / 3, 1 / 3, 0], rtol=1e-6)
    assert found.positions is None


def test_several_costs(tmp_path):
    place = Place(costs=("diamond", "square"), budgets=(5.0, 2.0))
    episodes = known([200, 400], [0, 0], [[5, 2], [1, 3]], [1, 1])
    (found,) = load_results([write_run(tmp_path / "run", {(0, 0): episodes}, [place], seeds=[0], steps=400)])
    assert found.counts["last cost square"].tolist() == [3] and found.counts["last cost diamond"].tolist() == [1]
    assert found.counts["safe goal count"].tolist() == [1]
    np.testing.assert_array_equal(found.series["cost"], [[7, 4]])
    assert found.label == "safedqn (budget 5,2, 400 steps)"


def test_trend_is_that_of_the_episodes(tmp_path):
    runs = {(0, seed): some_episodes(seed, 60_000) for seed in range(5)}
    (found,) = load_results([write_run(tmp_path / "run", runs, seeds=range(5), steps=60_000)])
    series = np.stack([metrics.interpolate(e.end_step, e.ret.astype(np.float64), 60_000) for e in runs.values()])
    expected = metrics.window_mean(metrics.over_seeds(series))
    np.testing.assert_allclose(trend(found, "reward"), expected, atol=1e-6)
    np.testing.assert_allclose(trend(found._replace(middle=None), "reward"), expected, atol=1e-6)
    each = np.stack([metrics.window_mean(values) for values in found.series["cost"]])
    np.testing.assert_allclose(smooth(found, found.series["cost"]), each)


def test_smoothing_knows_the_grid():
    grid = np.arange(2_000, 60_001, 2_000)
    coarse = made_result()._replace(points=grid)
    found = smooth(coarse, grid.astype(float))
    assert found[-1] == pytest.approx(np.mean(grid[-10:])) and found[4] == pytest.approx(np.mean(grid[:5]))


def test_the_best_seed_has_most_safe_goals_then_most_goals():
    counts = {"safe goal count": np.array([3, 7, 7, 1]), "goal count": np.array([99, 8, 9, 99])}
    assert best_seed(counts) == 2


def test_positions_of_the_best_seed_break_where_episodes_end(tmp_path):
    walks = np.zeros((4, 1, 2, 2), np.float32)
    walks[:, 0, 0] = [[1, 5], [0, 5], [2, 5], [3, 5]]  # seed 0, the best, ends an episode at its second step
    (found,) = load_results([write_known(tmp_path / "run", positions=walks)])
    assert found.positions is not None
    np.testing.assert_array_equal(found.positions, [[1, 5], [0, 5], [np.nan, np.nan], [2, 5], [3, 5]])


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({"steps": 500_000}, "safedqn"),
        ({"steps": 20_000}, "safedqn (20k steps)"),
        ({"steps": 2_500_000}, "safedqn (2.5M steps)"),
        ({"steps": 500_000, "settings": {"gamma": 0.9}}, "safedqn (gamma=0.9)"),
        ({"steps": 500_000, "settings": {"multiplier": MultiplierConfig("sign", aim=(2.0,))}}, "safedqn (sign, aim=2)"),
        (
            {"steps": 500_000, "settings": {"gamma": 0.9, "batch_size": 64, "hidden": (8, 8)}},
            "safedqn (gamma=0.9, batch_size=64, hidden=8,8)",
        ),
        ({"steps": 500_000, "algorithm": "safedsr", "settings": {"terminal": "absorb"}}, "safedsr (absorb)"),
        ({"steps": 500_000, "algorithm": "cpo", "settings": PRESETS["paper"]}, "cpo (paper)"),
        (
            {"steps": 500_000, "algorithm": "cpo", "settings": {**PRESETS["paper"], "clip": 0.5}},
            "cpo (paper, clip=0.5)",
        ),
        ({"steps": 500_000, "algorithm": "cpo", "settings": {"cpo_sign": "climb"}}, "cpo (climb)"),
        ({"steps": 500_000, "matmul": "tensorfloat32"}, "safedqn (tensorfloat32)"),
        ({"steps": 500_000, "places": [Place(budgets=(10.0,))]}, "safedqn (budget 10)"),
    ],
)
def test_labels_say_what_differs(tmp_path, options, label):
    (found,) = load_results([write_known(tmp_path / "run", **options)])
    assert found.label == label


def test_folders_are_searched_and_read_once(tmp_path):
    write_known(tmp_path / "b" / "deep")
    write_known(tmp_path / "a", algorithm="safedsr")
    remarks: list[str] = []
    found = load_results([tmp_path, tmp_path / "a", tmp_path / "a" / ".." / "b"], remarks)
    assert [result.algorithm for result in found] == ["safedsr", "safedqn"] and remarks == []


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path):
    write_known(tmp_path / "good")
    (tmp_path / "empty").mkdir()
    for name, file, text in (
        ("strange", "manifest.json", '{"format": 7, "seeds": []}'),
        ("broken", "config.json", "{ nonsense"),
        ("bare", "config.json", '{"algorithm": "safedqn"}'),
        ("idle", "config.json", '{"algorithm": "safedqn", "train": {}}'),
        ("odd", "config.json", '{"algorithm": "safedqn", "environment": {}, "tasks": [{}], "train": {}}'),
        ("older", "config.json", '{"algorithm": "safedqn", "environments": [{}], "train": {}}'),
        ("cut", "episodes.parquet", "PAR1"),
    ):
        (write_known(tmp_path / name) / file).write_text(text)
    write_run(tmp_path / "young", {(0, 0): some_episodes(0, 0)}, seeds=[0])
    names = ("empty", "nowhere", "strange", "broken", "bare", "idle", "odd", "older", "cut", "young", "good")
    remarks: list[str] = []
    found = load_results([tmp_path / name for name in names], remarks)
    assert [result.path.name for result in found] == ["good"]
    assert len(remarks) == 10 and all(remark.startswith("left out: ") for remark in remarks)
    for name, what in {
        "empty": "no run folder (no manifest.json in or below it)",
        "nowhere": "no run folder (no such folder)",
        "strange": "has run format 7",
        "broken": "config.json is damaged",
        "bare": "lacks train",
        "idle": "the configuration lacks environment, tasks",
        "odd": "environment lacks name",
        "older": "tasks[0] lacks budgets, costs, name",
        "cut": "episodes.parquet is damaged",
        "young": "has no finished episode",
    }.items():
        assert [remark for remark in remarks if f"/{name}" in remark and what in remark], name


def test_a_run_that_goes_on_is_read_as_far_as_it_is(tmp_path):
    remarks: list[str] = []
    write_known(tmp_path / "run", steps=500_000, done=1000, finish=False)
    (found,) = load_results([tmp_path / "run"], remarks)
    assert found.steps == 1000 and found.label == "safedqn (1000 steps)" and len(found.points) == 5
    assert found.counts["goal count"].tolist() == [3, 1]
    assert remarks == [f"{tmp_path / 'run'}: only 1000 of its 500000 steps are done"]


def test_seeds_without_an_episode_are_left_out_and_named(tmp_path):
    places = [Place(), Place("two-rooms")]
    write_known(tmp_path / "run", places=places, seeds=[0, 1, 5, 6])
    remarks: list[str] = []
    (found,) = load_results([tmp_path / "run"], remarks)
    assert found.seeds == (0, 1) and found.counts["goal count"].tolist() == [3, 1]
    assert [remark.partition(": ")[2] for remark in remarks] == [
        "no finished episode in one-room, diamond of seeds 5–6: left out",
        "no finished episode in two-rooms, diamond of seeds 0, 1, 5, 6: left out",
    ]


def test_results_that_would_share_a_cell_are_told_apart(tmp_path):
    for i, (name, seed) in enumerate((("a", 0), ("b", 7), ("c", 0), ("deep/c", 0))):
        write_run(tmp_path / name, {(0, seed): some_episodes(i, 1000)}, seeds=[seed])
    remarks: list[str] = []
    found = load_results([tmp_path / name for name in ("a", "b", "c", "deep")], remarks)
    labels = [result.label for result in found]
    assert labels == ["safedqn", "safedqn (seed 7)", "safedqn (c)", f"safedqn ({tmp_path / 'deep' / 'c'})"]
    assert len(remarks) == 3 and all(f"of {tmp_path / 'a'}: shown as" in remark for remark in remarks)
    assert remarks[0].endswith("'safedqn (seed 7)' in one-room, diamond")


def test_the_same_run_in_two_folders_counts_once(tmp_path):
    write_known(tmp_path / "a")
    write_known(tmp_path / "b", positions=np.ones((4, 1, 2, 2), np.float32))
    remarks: list[str] = []
    (found,) = load_results([tmp_path], remarks)
    assert found.path == tmp_path / "b" and found.positions is not None
    assert remarks == [f"{tmp_path / 'b'} is a copy of the run in {tmp_path / 'a'}: counted once"]


def test_other_budgets_and_steps_never_share_a_label(tmp_path):
    write_known(tmp_path / "a", places=[Place(budgets=(5.0,))])
    write_known(tmp_path / "b", places=[Place(budgets=(7.5,))])
    write_known(tmp_path / "c", steps=2000)
    found = load_results([tmp_path])
    assert [result.label for result in found] == [
        "safedqn (1000 steps)",
        "safedqn (budget 7.5, 1000 steps)",
        "safedqn (2000 steps)",
    ]


def test_settings_that_a_newer_version_has_do_not_show(tmp_path):
    run = write_known(tmp_path / "run", steps=500_000)
    config = storage.read_json(run / "config.json")
    del config["agent"]["gamma"]
    storage.write_json(run / "config.json", config)
    assert [result.label for result in load_results([run])] == ["safedqn"]
    storage.write_json(run / "config.json", {**config, "algorithm": "later"})
    assert load_results([run])[0].algorithm == "later"
