import pytest
from folders import Place, some_episodes, write_run

from safedsr.agents.onpolicy.config import PRESETS
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.runs.collect import read_results, without_copies
from safedsr.runs.compare import comparisons
from safedsr.runs.pack import pack


def compared(root, **runs):
    """The comparisons of runs with these options, with their remarks."""
    for name, options in runs.items():
        seeds = options.pop("seeds", (0, 1))
        costs = len(options.get("places", [Place()])[0].costs)
        episodes = {(0, seed): some_episodes(seed, 900, costs) for seed in seeds}
        write_run(root / name, episodes, seeds=seeds, **{"steps": 1000, **options})
    remarks: list[str] = []
    return comparisons(without_copies(read_results([root], remarks), remarks)), remarks


@pytest.mark.parametrize(
    ("runs", "labels"),
    [
        ({"a": {"settings": {"gamma": 0.9, "batch_size": 64, "hidden": (8, 8)}}}, ["safedqn"]),
        (
            {"a": {"settings": {"gamma": 0.9, "batch_size": 64}}, "b": {"settings": {"batch_size": 64}}},
            ["safedqn (gamma=0.9)", "safedqn (gamma=0.99)"],
        ),
        (
            {"a": {"settings": {"gamma": 0.9, "hidden": (8,), "batch_size": 8, "train_every": 5}}, "b": {}},
            [
                "safedqn (gamma=0.9, batch_size=8, train_every=5, hidden=8)",
                "safedqn (gamma=0.99, batch_size=128, train_every=10, hidden=120,84)",
            ],
        ),
        (
            {
                "a": {"settings": {"multiplier": MultiplierConfig("sign")}},
                "b": {"settings": {"epsilon": EpsilonSchedule(epsilon_end=0.1)}},
            },
            ["safedqn (rule=sign, epsilon_end=0.25)", "safedqn (rule=proportional, epsilon_end=0.1)"],
        ),
        (
            {
                "a": {"algorithm": "cpo", "settings": PRESETS["paper"]},
                "b": {"algorithm": "cpo"},
                "c": {},
            },
            ["cpo (preset paper)", "cpo (preset omnisafe)", "safedqn"],
        ),
        ({"a": {"steps": 1000}, "b": {"steps": 2000}}, ["safedqn (1000 steps)", "safedqn (2000 steps)"]),
        ({"a": {"seeds": (0, 1)}, "b": {"seeds": (2, 3)}}, ["safedqn (seeds 0–1)", "safedqn (seeds 2–3)"]),
        ({"a": {"matmul": "tensorfloat32"}, "b": {}}, ["safedqn (matmul=tensorfloat32)", "safedqn (matmul=float32)"]),
    ],
)
def test_labels_are_exactly_what_differs(tmp_path, runs, labels):
    (found,), remarks = compared(tmp_path, **runs)
    assert sorted(one.label for one in found.results) == sorted(labels) and remarks == []


def test_equal_runs_are_named_by_their_folders(tmp_path):
    for name in ("first", "second"):
        start = 0 if name == "first" else 7
        write_run(tmp_path / name, {(0, 0): some_episodes(start, 900)}, seeds=[0], steps=1000)
    remarks: list[str] = []
    (found,) = comparisons(without_copies(read_results([tmp_path], remarks), remarks))
    assert [one.label for one in found.results] == ["safedqn (first)", "safedqn (second)"] and remarks == []


def test_a_packed_copy_counts_once(tmp_path):
    full = write_run(tmp_path / "full", {(0, 0): some_episodes(0, 900)}, seeds=[0], steps=1000)
    pack(full, tmp_path / "packed")
    remarks: list[str] = []
    (found,) = comparisons(without_copies(read_results([tmp_path], remarks), remarks))
    assert len(found.results) == 1 and remarks == [
        f"{tmp_path / 'packed'} is a copy of the run in {full}: counted once"
    ]


def test_only_runs_with_equal_budgets_and_maps_are_compared(tmp_path):
    found, _ = compared(
        tmp_path,
        a={},
        b={"places": [Place(budgets=(2.0,))]},
        c={"places": [Place(costs=("diamond", "square"), budgets=(5.0, 1.0))]},
        d={"places": [Place("two-rooms")]},
    )
    assert [one.title for one in found] == [
        "one-room, diamond, square; budget 5, 1",
        "one-room, diamond; budget 2",
        "one-room, diamond; budget 5",
        "two-rooms, diamond; budget 5",
    ]
    assert all(one.results[0].label == "safedqn" for one in found)


@pytest.mark.parametrize(("steps", "window"), [(1_000, 200), (30_000, 1_200), (60_000, 2_000), (500_000, 20_000)])
def test_the_window_fits_the_length(tmp_path, steps, window):
    (found,), _ = compared(tmp_path, a={"steps": steps})
    assert found.window == window
