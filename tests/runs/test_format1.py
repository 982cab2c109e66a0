"""Run folders that the version before format 2 wrote: everything but going on with them still works."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import safedsr
from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.adapt.costs import experience_of
from safedsr.agent import evaluate_run
from safedsr.cli import main
from safedsr.engine.train import resume
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.errors import UserError
from safedsr.report.tables import report
from safedsr.runs import storage
from safedsr.runs.collect import load_results
from safedsr.runs.experience import relabelled
from safedsr.runs.folder import load_run
from safedsr.runs.pack import pack

pytestmark = pytest.mark.usefixtures("compile_quickly")
FIXTURES = Path(__file__).parents[1] / "fixtures" / "format-1"
ADAPTABLE = ("plus", "safedsr")
RUNS = (*ADAPTABLE, "ppo-lag")
ALGORITHMS = {"plus": "safedsr-plus", "safedsr": "safedsr", "ppo-lag": "ppo-lag"}
OBS = np.random.default_rng(0).random((6, 2)).astype(np.float32)


def numbers(found):
    """The numbers of an evaluation, by their place in it."""
    if not isinstance(found, dict | list):
        return {"": found}
    pairs = found.items() if isinstance(found, dict) else enumerate(found)
    return {f"{name}/{place}": value for name, inner in pairs for place, value in numbers(inner).items()}


@pytest.mark.parametrize("name", RUNS)
def test_its_policies_load(name):
    folder = FIXTURES / name
    about = json.loads((folder / "policy.json").read_text())
    assert about["format"] == json.loads((folder / "manifest.json").read_text())["format"] == 1
    best = safedsr.load(folder)
    assert best.seed == about["best"][0] and best.job.algorithm == ALGORITHMS[name]
    assert best.job.environment is make_grid(GridConfig(time_limit=60), 1)
    assert best.task.title == "lab, cost" and best.task.budgets == (1.0,) and best.task.params.walls.shape == (5, 5)
    one, other = (np.asarray(safedsr.load(folder, seed).values(OBS).score) for seed in (0, 1))
    assert np.isfinite(one).all() and np.isfinite(other).all() and not np.allclose(one, other)


@pytest.mark.parametrize("name", RUNS)
def test_it_evaluates_to_what_it_did(name):
    rows = evaluate_run(FIXTURES / name, episodes=200, epsilon=0.1)
    recorded = json.loads((FIXTURES / f"{name}.evaluate.json").read_text())
    assert [agent.seed for agent, _, _ in rows] == [row.pop("seed") for row in recorded] == [0, 1]
    assert [agent.task.title for agent, _, _ in rows] == [row.pop("trained") for row in recorded]
    assert [task.title for _, task, _ in rows] == [row.pop("environment") for row in recorded]
    for (_, _, evaluation), row in zip(rows, recorded, strict=True):
        found, expected = numbers(evaluation.to_dict()), numbers(row)
        assert found.keys() == expected.keys() and len(found) == 16
        for place, value in expected.items():
            assert found[place] == pytest.approx(value, rel=1e-6, abs=1e-6), place


def test_it_is_reported():
    remarks: list[str] = []
    found = load_results([FIXTURES], remarks)
    assert {result.algorithm for result in found} == set(ALGORITHMS.values()) and remarks == []
    for result in found:
        assert (result.environment, result.seeds, result.steps) == ("lab, cost", (0, 1), 2000)
        assert result.config["environment"]["time_limit"] == 60 and result.params["map"].startswith("S.C..")
        assert (result.positions is not None) is (result.algorithm != "ppo-lag")
        episodes = load_run(result.path).episodes
        table = storage.read_table(result.path / "episodes")
        assert table and "reached" in table[0] and "success" not in table[0] and "reached" not in episodes
        goals = [table[0]["reached"][table[0]["seed"] == seed].sum() for seed in (0, 1)]
        np.testing.assert_array_equal(result.counts["goal count"], goals)
        assert sum(goals) > 0
    tables = report([FIXTURES], paper=True)
    assert tables.remarks == [] and {row.label for row in tables.rows} == {result.label for result in found}


def test_it_is_packed(tmp_path):
    (full,) = load_results([FIXTURES / "plus"])
    (packed,) = load_results([pack(FIXTURES / "plus", tmp_path / "packed")])
    assert packed.label == full.label and packed.params == full.params
    for name, counts in full.counts.items():
        np.testing.assert_array_equal(packed.counts[name], counts)


@pytest.mark.parametrize("name", ADAPTABLE)
def test_its_memory_is_that_of_its_policy(name):
    for seed in (0, 1):
        agent = safedsr.load(FIXTURES / name, seed)
        kept = experience_of(agent)
        assert kept.fitted == len(kept.steps.action) > 100
        phi = agent.features(kept.steps.obs, kept.steps.action)
        np.testing.assert_allclose(kept.gram, phi.T @ phi, rtol=1e-5, atol=1e-5)
        at_goal = (np.floor(kept.steps.next_obs * 5) == 4).all(1)
        np.testing.assert_array_equal(kept.steps.terminated == 1, at_goal)
        np.testing.assert_allclose(kept.steps.reward, -0.01 + at_goal, rtol=1e-6)
        np.testing.assert_array_equal(kept.steps.cost, relabelled(kept, agent.environment, agent.task.params).cost)
        column, row = np.floor(kept.steps.next_obs * 5).astype(int).T
        np.testing.assert_array_equal(kept.steps.cost[:, 0], agent.task.params.costs[0, row, column])
        assert kept.steps.cost.any()


@pytest.mark.parametrize("name", ADAPTABLE)
def test_it_adapts_and_what_is_written_has_format_2(name, tmp_path):
    agent = safedsr.load(FIXTURES / name)
    spend, certificate = ClimbConfig(updates=20), CertificateConfig(episodes=64)
    adapted = agent.adapt(str(FIXTURES / "new-costs.txt"), level="memory", spend=spend, certificate=certificate)
    assert adapted.level == "memory" and [rung.level for rung in adapted.rungs] == ["memory"]
    assert not np.array_equal(adapted.agent.task.params.costs, agent.task.params.costs)
    assert np.isfinite(adapted.certificate.safe_goal_rate.value)
    adapted.agent.save(tmp_path)
    about = storage.read_json(tmp_path / "policy.json")
    assert about["format"] == 2 and about["job"]["tasks"][0]["params"]["map"].startswith("S....")
    assert "environments" not in about["job"] and about["job"]["environment"]["name"] == "grid"
    assert storage.read_tensors(tmp_path / "memory.safetensors")[1]["memory"] == "2"
    again = safedsr.load(tmp_path)
    np.testing.assert_array_equal(again.values(OBS).score, adapted.agent.values(OBS).score)
    for one, other in zip(experience_of(again).steps, experience_of(adapted.agent).steps, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", RUNS)
def test_going_on_with_it_is_refused_in_one_line(name, tmp_path, capsys):
    folder = Path(shutil.copytree(FIXTURES / name, tmp_path / name))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UserError) as error:
        resume(folder, {"steps": 4000})
    message = str(error.value)
    assert message.startswith(f"{folder} has run format 1, which this version can read but not resume")
    assert "e80789492d2d5a841049713e1140c9d7896d2455" in message and "\n" not in message
    assert main(["train", ALGORITHMS[name], "--out", str(folder), "--resume"]) == 2
    assert capsys.readouterr().err == f"safedsr: {message}\n"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
