"""The tables of the experiment 'plus', from a run that has hardly learnt and from the published results."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from folders import numbers_of
from tiny import tiny_agent

from safedsr.engine.train import train
from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.paper import plus_adaptation, plus_greedy, plus_tables
from safedsr.paper.adaptation_plan import Scale
from safedsr.paper.experiments import SINGLE
from safedsr.runs import storage
from safedsr.runs.collect import load_results
from safedsr.runs.config import TrainConfig
from safedsr.runs.folder import load_run
from safedsr.runs.job import grid_job, tasks_for
from safedsr.runs.labels import thousands
from safedsr.runs.metrics import goal_count, iqm, safe_goal_count
from safedsr.runs.reference import Level, Reference, key_of

pytestmark = pytest.mark.usefixtures("compile_quickly")
PUBLISHED = Path(__file__).parents[2] / "results" / "plus"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folders of the experiment; the tables look at episodes only, so an agent that compiles quickly stands in."""
    folder = tmp_path_factory.mktemp("plus")
    tasks = tasks_for("safedqn", ["one-room"], ["none", "diamond"], "5")
    for name, seeds in ((SINGLE, (0, 1)), ("safedsr-plus-no-waves", (2, 3))):
        job = grid_job("safedqn", tasks, seeds, tiny_agent("safedqn"), train=TrainConfig(4_000, chunk=20))
        train(job, folder / name)
    return folder


def test_tables_say_what_the_run_folders_say(out):
    maps, units, ablation = plus_tables.finish(out, oracle=False)
    assert [row[1:4] for row in maps.rows] == [("one-room", "none", "5"), ("one-room", "diamond", "5")]
    assert not units.rows
    goals = [goal_count(episodes) for episodes in load_run(out / SINGLE).by_seed(0)]
    assert min(goals) > 0 and maps.rows[0][6] == thousands(min(goals))
    safe = [safe_goal_count(episodes, (5.0,)) for episodes in load_run(out / SINGLE).by_seed(1)]
    assert maps.rows[1][6] == thousands(min(safe))
    assert [row[0] for row in ablation.rows] == ["single", "no-waves"]
    assert ablation.rows[0][1].endswith(f"; {thousands(min(safe))}") and ablation.rows[0][2] == "–"
    text = (out / "tables.md").read_text(encoding="utf-8")
    assert maps.markdown() in text and ablation.markdown() in text


def test_the_oracle_stands_beside_its_map(out):
    results = load_results([out / SINGLE])
    level = Level(0.25, 1.0, 0.8125, 0.5, (1.0,))
    known = {
        key_of(result, plus_tables.ORACLE): Reference(4_000, 20.0, 1_234.0, level, level)
        for result in results
        if "none" in result.costs
    }
    free, costly = plus_tables.maps_table(results, known).rows
    assert (free[7], free[11]) == (thousands(1_234), "0.813") and costly[7:9] + costly[11:] == ("–", "–", "–")
    goals = results[0].counts["safe goal count"]
    assert free[8] == f"{iqm(goals) / 1_234:.3f}"


def test_the_published_tables_are_those_of_the_published_runs(tmp_path):
    copy = tmp_path / "plus"
    shutil.copytree(PUBLISHED, copy)
    written = [copy / plus_tables.FILE, copy / plus_adaptation.FOLDER / plus_adaptation.FILE]
    (greedy,) = plus_greedy.finish(copy)
    assert len(greedy.rows) >= 4
    measured = storage.read_json(copy / plus_greedy.FILE)
    assert [row[:3] for row in greedy.rows] == [
        (words, name, "10")
        for row, words in plus_greedy.WORDS.items()
        for name in ROOM_NAMES
        if name in measured.get(row, {})
    ]
    for path in written:
        path.unlink()
    plus_tables.finish(copy, oracle=True)
    plus_adaptation.finish(copy, Scale())
    for path in written:
        found, published = (
            numbers_of(p.read_text(encoding="utf-8")) for p in (path, PUBLISHED / path.relative_to(copy))
        )
        assert found == published and sum(map(len, found)) > 100
    assert (copy / "oracle.json").read_bytes() == (PUBLISHED / "oracle.json").read_bytes()


def test_rates_are_those_of_the_last_20_000_steps(out):
    """Of three seeds one is safe only then, one only before, and one every other time."""
    result = load_results([out / SINGLE])[1]
    points = np.arange(1, 301) * 200
    late, turns = points > 40_000, np.arange(300) % 2 == 0
    long = result._replace(points=points, series={"safe": np.stack([late, ~late, turns]).astype(np.float32)})
    np.testing.assert_allclose(plus_tables.final_rate(long), [1.0, 0.0, 0.5])
    (line,) = plus_tables.maps_table([long], {}).rows
    assert line[9:11] == ("0.500", "0.000")
