import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from folders import Place, some_episodes, write_run

from safedsr.agent import load
from safedsr.cli import main
from safedsr.errors import UserError
from safedsr.report.tables import report
from safedsr.runs import storage
from safedsr.runs.collect import load_results
from safedsr.runs.metrics import iqm
from safedsr.runs.pack import pack, stretches
from safedsr.runs.results import trend
from safedsr.runs.writer import resume_run

RESULTS = Path(__file__).parents[2] / "results" / "baselines"

PLACES = [Place(layout, (costs,)) for layout in ("one-room", "two-rooms") for costs in ("none", "diamond")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run and its packed form."""
    root = tmp_path_factory.mktemp("runs")
    episodes = {(i, seed): some_episodes(10 * i + seed, 50_300) for i in range(4) for seed in range(5)}
    full = write_run(root / "full", episodes, PLACES, seeds=range(5), steps=50_300)
    return full, pack(full, root / "packed")


def test_packed_and_full_folders_make_the_same_tables(folders):
    one, other = (report([folder], paper=True) for folder in folders)
    assert one.rows == other.rows
    assert len(one.rows) == 2 + 4 * 2 and one.remarks == other.remarks == []
    one, other = (report([folder]) for folder in folders)
    assert one.own == other.own and len(one.own) == 4


def test_packed_series_are_means_over_stretches(folders):
    for full, packed in zip(*(load_results([folder]) for folder in folders), strict=True):
        assert packed.environment == full.environment and packed.seeds == full.seeds and packed.label == full.label
        np.testing.assert_array_equal(packed.points, [*range(2_000, 50_001, 2_000), 50_200])
        for name, values in full.series.items():
            slow = [np.nanmean(part, axis=1) for part in np.split(values, range(10, values.shape[1], 10), axis=1)]
            np.testing.assert_allclose(packed.series[name], np.transpose(slow), rtol=1e-3, atol=1e-3)


def test_the_packed_trend_is_the_iqm_before_the_mean(folders):
    for full, packed in zip(*(load_results([folder]) for folder in folders), strict=True):
        for name in full.series:
            whole = np.isin(full.points, packed.points[9:-1])  # where the window lies inside
            np.testing.assert_allclose(trend(packed, name)[9:-1], trend(full, name)[whole], rtol=2e-3, atol=2e-3)
    points = load_results([folders[1]])[1]
    assert points.middle and not np.allclose(points.middle["safe"], iqm(points.series["safe"]), atol=1e-3)


def test_costs_too_large_for_half_precision_stay_finite(tmp_path):
    usual = some_episodes(1, 20_300)
    full = write_run(tmp_path / "full", {(0, 0): usual._replace(cost=usual.cost * 100_000)}, seeds=(0,), steps=20_300)
    (whole,), (packed,) = (load_results([folder]) for folder in (full, pack(full, tmp_path / "packed")))
    assert np.isfinite(packed.series["cost"]).all() and np.nanmax(whole.series["cost"]) > 65_504
    np.testing.assert_allclose(np.nanmean(packed.series["cost"]), np.nanmean(whole.series["cost"]), rtol=0.05)


def test_missing_points_do_not_count():
    series = np.array([[np.nan] * 10 + [np.nan, 1.0, 3.0]])
    np.testing.assert_array_equal(stretches(series), [[np.nan, 2.0]])
    assert stretches(np.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize(("width", "kind"), [(30, np.uint8), (60, np.uint16)])
def test_positions_to_an_eighth_of_a_cell(tmp_path, width, kind):
    rng = np.random.default_rng(0)
    walks = rng.uniform(0.5, width, (500, 2, 2, 2)).astype(np.float32)
    walks[..., 1] %= 10
    walks[::50, ..., 0] = 0  # episodes end here
    episodes = {(i, seed): some_episodes(i + seed, 1000) for i in range(2) for seed in range(2)}
    full = write_run(tmp_path / "full", episodes, PLACES[:2], steps=1000, positions=walks)
    packed = pack(full, tmp_path / "packed")
    table = storage.read_table(packed / "positions")
    assert table is not None and table[0]["x"].dtype == kind
    for one, other in zip(load_results([full]), load_results([packed]), strict=True):
        assert one.positions is not None and other.positions is not None
        assert np.isnan(one.positions).any(1).sum() == 10
        np.testing.assert_allclose(other.positions, one.positions, atol=1 / 16)


def test_ten_seeds_in_nine_environments_are_small(tmp_path):
    places = [
        Place(layout, (costs,))
        for layout in ("one-room", "two-rooms", "three-rooms")
        for costs in ("none", "diamond", "2*diamond")
    ]
    episodes = {(i, seed): some_episodes(10 * i + seed, 500_000) for i in range(9) for seed in range(10)}
    packed = pack(write_run(tmp_path / "full", episodes, places, seeds=range(10)), tmp_path / "packed")
    assert sum(path.stat().st_size for path in packed.iterdir()) < 250 * 1024


def test_runs_shorter_than_a_point_pack_too(tmp_path):
    full = write_run(tmp_path / "full", {(0, 0): some_episodes(0, 150)}, seeds=[0], steps=150)
    (found,) = load_results([pack(full, tmp_path / "packed")])
    assert found.series["safe"].shape == (1, 0) and found.counts["goal count"].shape == (1,)


def test_partial_runs_say_so_when_packed(tmp_path):
    full = write_run(tmp_path / "full", {(0, 0): some_episodes(0, 3000)}, done=3000, finish=False)
    remarks: list[str] = []
    (found,) = load_results([pack(full, tmp_path / "packed")], remarks)
    assert found.steps == 3000 and found.seeds == (0,) and found.label == "safedqn (3000 steps)"
    assert [remark.partition(": ")[2] for remark in remarks] == [
        "no finished episode in one-room, diamond of seed 1: left out",
        "only 3000 of its 500000 steps are done",
    ]


def test_no_folder_of_the_machine_stays_in_the_manifest(tmp_path):
    full = write_run(tmp_path / "full", {(0, 0): some_episodes(0, 1000)}, seeds=[0])
    manifest = storage.read_json(full / "manifest.json")
    command = "/usr/bin/safedsr train safedqn --layout maps/mine.txt one-room --costs 2*diamond --out=/home/me/x/run"
    storage.write_json(full / "manifest.json", {**manifest, "command": command})
    packed = storage.read_json(pack(full, tmp_path / "packed") / "manifest.json")
    assert packed["command"] == "safedsr train safedqn --layout mine.txt one-room --costs 2*diamond --out=run"
    assert packed == {**manifest, "format": "packed-2", "command": packed["command"]}


def test_what_cannot_be_packed(tmp_path, folders):
    full, packed = folders
    with pytest.raises(UserError, match="is not empty; choose another folder"):
        pack(full, packed)
    with pytest.raises(UserError, match="is packed, for tables and figures only"):
        pack(packed, tmp_path / "again")
    with pytest.raises(UserError, match="is not a run folder"):
        pack(tmp_path / "nowhere", tmp_path / "again")
    assert not (tmp_path / "again").exists()
    with pytest.raises(UserError, match="is packed, for tables and figures only"), resume_run(packed):
        pytest.fail("a packed folder cannot be trained further")


def test_a_packed_folder_without_its_series(tmp_path, folders):
    packed = pack(folders[0], tmp_path / "packed")
    (packed / "series.parquet").unlink()
    remarks: list[str] = []
    assert load_results([packed], remarks) == [] and "lacks its summary or its series" in remarks[0]


def test_the_command_packs_without_matplotlib(tmp_path, folders):
    code = "import sys; sys.modules['matplotlib'] = None; from safedsr.cli import main; sys.exit(main())"
    args = ["pack", str(folders[0].parent / "full"), "--out", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(f"{tmp_path / 'out' / 'full'}  ")
    assert len(load_results([tmp_path / "out"])) == 4


def test_the_command_names_what_is_wrong(capsys, tmp_path, folders):
    assert main(["pack", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert f"{tmp_path} is no run folder (no manifest.json in or below it)" in capsys.readouterr().err
    write_run(tmp_path / "full", {(0, 0): some_episodes(0, 1000)}, seeds=[0])
    assert main(["pack", str(folders[0]), str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "2 folders are named 'full'" in capsys.readouterr().err


def test_a_packed_folder_has_no_policy_to_load():
    with pytest.raises(UserError, match="is packed, for tables and figures only; to resume"):
        load(RESULTS / "safedqn")
