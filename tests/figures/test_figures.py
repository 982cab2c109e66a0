import json

import numpy as np
import pytest
from made import made_result

from safedsr import figures
from safedsr.cli import main
from safedsr.envs.grid.catalog import load_scene
from safedsr.errors import UserError
from safedsr.figures.files import save_for_print
from safedsr.figures.maps import grid_figure
from safedsr.figures.paper import figures_of
from safedsr.runs.reference import Level, Reference, key_of, write_references

LEVEL = Level(0.25, 1.0, 0.9, reward=0.7, cost=(1.5,))
WALK = np.array([[0.5, 5.5], [1.2, 5.5], [np.nan, np.nan]])


def names(drawn) -> list[str]:
    return [path.name for _, path in drawn]


def test_every_figure_of_a_small_comparison(tmp_path):
    paid = [made_result(label, positions=WALK if label == "safedsr" else None) for label in ("safedsr", "safedqn")]
    free = made_result("safedsr", costs=("none",))
    write_references(tmp_path, {key_of(paid[0]): Reference(500_000, 9.0, 8.0, LEVEL, LEVEL._replace(epsilon=0.0))})
    drawn = figures_of([*paid, free], tmp_path)
    assert names(drawn) == [
        "fig03-grid.png",
        "fig12-maps.png",
        "fig04-counts-diamond-budget-5.png",
        "fig05-outcomes-diamond-budget-5.png",
        "trade-off-diamond-budget-5.png",
        "fig06-rates-diamond-budget-5.png",
        "fig07-walks-one-room-diamond-budget-5.png",
        "training-reward-one-room-diamond-budget-5.png",
        "training-cost-one-room-diamond-budget-5.png",
        "training-reward-one-room-none.png",
    ]
    for title, path in drawn:
        assert title and path.read_bytes().startswith(b"\x89PNG")
        assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_without_costs_only_what_needs_none(tmp_path):
    drawn = figures_of([made_result("dqn", "two-rooms", costs=(), budgets=())], tmp_path)
    assert names(drawn) == [
        "fig03-grid.png",
        "fig12-maps.png",
        "fig04-counts.png",
        "training-reward-two-rooms-none.png",
    ]
    assert drawn[-1][0] == "Fig. 15: reward over training, two rooms (no costs)"


def test_no_results_no_figures(tmp_path):
    assert figures_of([], tmp_path) == []


def test_files_are_the_same_each_time_and_have_names_that_every_system_takes(tmp_path):
    first, second = (
        save_for_print(grid_figure(load_scene("one-room", "diamond")), tmp_path / folder, "2*a; b/c") for folder in "xy"
    )
    assert first.name == "2-a-b-c.png"
    assert first.read_bytes() == second.read_bytes()
    assert first.with_suffix(".pdf").read_bytes() == second.with_suffix(".pdf").read_bytes()


def test_an_ending_that_is_no_picture(tmp_path):
    with pytest.raises(UserError, match=r"cannot write a picture as 'a\.doc'; possible endings: .*pdf.*png"):
        figures.save(figures.map_figure(load_scene("one-room")), tmp_path / "a.doc")


def test_command_without_runs(tmp_path, capsys):
    assert main(["figures"]) == 2
    assert "no run folder given" in capsys.readouterr().err
    assert main(["figures", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "is no run folder" in said and "no results in" in said


def test_command_draws_a_run_and_its_values(trained, tmp_path, capsys):
    run = trained("safedqn")
    assert main(["figures", str(run), "--run", str(run), "--seed", "1", "--out", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    drawn = {entry["png"].rpartition("/")[2]: entry["title"] for entry in found}
    assert drawn[f"values-{run.name}-0-seed-1.png"] == "Values and greedy actions: corridor, cost, seed 1"
    assert any(name.startswith("fig07-walks-corridor") for name in drawn)
    assert all((tmp_path / "out" / name).with_suffix(".pdf").is_file() for name in drawn)


def elsewhere(result, **about):
    """The same result, in an environment that is not the grid."""
    config = {**result.config, "environment": {"name": "CartPole-v1", "success": False}, **about}
    return result._replace(config=config, params={})


def test_other_environments_have_learning_curves(tmp_path):
    made = [made_result(label, "CartPole-v1", costs=("angle",)) for label in ("safedqn", "ppo-lag")]
    apart = elsewhere(made_result("safedqn", "CartPole-v1", ("angle",)), budget_kind="discounted-mean")
    free = elsewhere(made_result("dqn", "CartPole-v1", costs=(), budgets=()))
    short = elsewhere(made_result("dqn", "Brief-v0", series={"safe": np.zeros((4, 0))}))._replace(points=np.zeros(0))
    both = made_result("safedqn", "CartPole-v1", costs=("angle", "place"), budgets=(5.0, 1.0))
    drawn = figures_of([made_result(), *map(elsewhere, made), apart, free, short, elsewhere(both)], tmp_path)
    assert names(drawn)[-4:] == [
        "learning-CartPole-v1.png",
        "learning-CartPole-v1-angle-place-budget-5-1.png",
        "learning-CartPole-v1-angle-budget-5.png",
        "learning-CartPole-v1-angle-budget-5-discounted-mean-.png",
    ]
    assert names(drawn)[0] == "fig03-grid.png" and not any("CartPole" in name for name in names(drawn)[:-4])
    assert all(path.read_bytes().startswith(b"\x89PNG") for _, path in drawn)
