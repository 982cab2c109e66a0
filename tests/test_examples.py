"""The example of a controller in the field runs as it stands, on a tiny map."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from test_adapt_rungs import LOW_ROAD, agent  # noqa: F401

from safedsr.adapt.certify import certify
from safedsr.export.files import export, weights_of

ROOT = Path(__file__).parent.parent


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """A folder with the examples in it, as a user has it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "examples"))
    return tmp_path


@pytest.mark.usefixtures("compile_quickly")
def test_a_controller_changes_its_costs_while_it_runs(agent, at_home):  # noqa: F811
    """Straight on, until that way costs; then the weights of an agent that takes the other way."""
    moved_map = "SCG\n..."
    (at_home / "first.txt").write_text(LOW_ROAD)
    (at_home / "moved.txt").write_text(moved_map)
    export(agent, "policy.npz", certificate=certify(agent, episodes=100))
    weights = agent.policy.learner.weights
    away = agent.with_policy(
        agent.policy._replace(learner=agent.policy.learner._replace(weights=weights._replace(w_c=-weights.w_c)))
    )
    new = weights_of(away, agent, certify(agent, episodes=100), "cost")
    (at_home / "w.json").write_text(json.dumps(new))
    changing_costs = importlib.import_module("changing_costs")
    first, alarm, after = changing_costs.run("policy.npz", "w.json", "first.txt", "moved.txt", episodes=6)
    assert first[0] == "first costs" and first[2] and max(first[1]) <= 0.5
    assert alarm[0] == "the fire has moved" and not alarm[2] and min(alarm[1]) > 0.5
    assert after[0] == "new weights"
    assert sys.modules["controller"].__file__ == str(at_home / "examples" / "controller.py")


def test_the_search_says_that_it_needs_optuna(at_home, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SystemExit, match="this example needs Optuna: pip install optuna"):
        importlib.import_module("optuna_search")
