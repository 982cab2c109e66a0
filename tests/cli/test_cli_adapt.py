import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_adapt_rungs import LOW_ROAD, START, agent  # noqa: F401
from test_evaluate import goalless, on_mean, walker
from tiny import same_trees, tiny_job
from walked import walked_agent

import safedsr
from safedsr.adapt.certify import certify
from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.cli import main
from safedsr.cli.adapt import _cells, _needed_level, _verdict, _within_budget
from safedsr.engine.train import train
from safedsr.envs.grid.physics import ACTIONS
from safedsr.export.files import compare
from safedsr.field.controller import Controller

pytestmark = pytest.mark.usefixtures("compile_quickly")
OTHER = "SCG\n..."


@pytest.fixture(scope="module")
def run(agent, tmp_path_factory):  # noqa: F811
    """A folder with the policy that goes straight on."""
    folder = tmp_path_factory.mktemp("straight")
    agent.save(folder)
    return folder


@pytest.fixture(scope="module")
def trained_plus(tmp_path_factory):
    """A folder with an agent that has learnt little; its memory knows where episodes start."""
    folder = tmp_path_factory.mktemp("plus") / "run"
    train(tiny_job("safedsr-plus", steps=400), folder)
    return folder


@pytest.fixture
def costs(write_map):
    return write_map(OTHER, "other.txt")


def test_a_certificate(run, costs, capsys):
    assert main(["certify", str(run), "--episodes", "200"]) == 0
    shown = capsys.readouterr().out
    assert "corridor, cost, seed 3" in shown and "assumed: the simulator is right, the policy stays" in shown
    assert main(["certify", str(run), "--costs", costs, "--budget", "0.5", "--episodes", "200", "--json"]) == 1
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["passed"], found["seed"], found["violation"]["value"]) == (False, 3, 1.0)
    verdict = "at least 0.000 of all episodes reach the goal within the budget; required: 0.9"
    assert shown.err == f"safedsr: certificate fails: {verdict}\n"
    assert main(["certify", str(run), "--costs", costs, "--budget", "1", "--episodes", "200", "--json"]) == 0


def test_an_adaptation(run, costs, tmp_path, capsys):
    out = tmp_path / "adapted"
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    args = ["adapt", str(run), "--costs", costs, "--budget", "0.5", "--episodes", "200", "--out", str(out)]
    assert main([*args, "--require", "0.95"]) == 0
    shown = capsys.readouterr().out
    assert "memory" in shown and "certificate passes" in shown and f"adapted policy: {out}" in shown
    found = safedsr.load(out)
    assert found.act(START) == ACTIONS.index("down") and found.task.budgets == (0.5,) and found.experience is not None
    written = json.loads((out / "certificate.json").read_text())
    assert written["passed"] and written["level"] == "memory" and written["require"] == 0.95
    assert [rung["level"] for rung in written["rungs"]] == ["cost", "penalty", "memory"]
    assert written["lam"] == np.asarray(found.policy.lam).tolist() and written["from"] == run.name
    assert {path.name for path in out.iterdir()} == {
        *("certificate.json", "policy.json", "policy.safetensors", "memory.safetensors"),
        *("before-after.png", "leverage.png"),
    }
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert main(["certify", str(out), "--episodes", "200"]) == 0


def test_an_adaptation_from_memory_says_so(trained_plus, tmp_path, capsys):
    args = ["adapt", str(trained_plus), "--from-memory", "--costs", "none", "--level", "penalty", "--out"]
    assert main([*args, str(tmp_path / "out")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "certificate from memory" in shown and "walks through remembered transitions" in shown
    assert json.loads((tmp_path / "out" / "certificate.json").read_text())["source"] == "memory"
    assert main([*args[:-1], "--level", "full", "--out", str(tmp_path / "full")]) == 2
    assert "takes steps in the environment" in capsys.readouterr().err


def test_a_budget_that_no_lam_keeps_is_reported(trained_plus, write_map, tmp_path, capsys):
    """The only way leads through the cost: no λ helps."""
    costs = write_map("S.G\n\ncost all\n2 2 2\n", "all.txt")
    args = ["adapt", str(trained_plus), "--costs", costs, "--level", "penalty", "--episodes", "50", "--out"]
    assert main([*args, str(tmp_path / "out")]) == 0
    assert "no λ tried keeps the budget; the best share of episodes within it is" in capsys.readouterr().out


def test_a_refusal_writes_nothing(run, costs, tmp_path, capsys):
    out = tmp_path / "adapted"
    args = ["adapt", str(run), "--costs", costs, "--budget", "0.5", "--episodes", "200", "--out", str(out)]
    assert main([*args, "--level", "cost", "--require", "0.9"]) == 1
    assert capsys.readouterr().err.endswith("required: 0.9; nothing was saved\n") and not out.exists()
    assert main([*args, "--level", "cost", "--json"]) == 0  # without --require it is written as it is
    assert not json.loads(capsys.readouterr().out)["passed"]
    assert not json.loads((out / "certificate.json").read_text())["passed"]
    assert main([*args, "--level", "cost"]) == 2
    assert "is not an empty folder; choose another --out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--costs", "square"], "cost shape 'square' is drawn for rooms"),
        ([], "no new costs given; add for example --costs square, or --costs FILE.txt for a map of your own; or --b"),
        (["--costs", "none", "--level", "auot"], "unknown level 'auot'; did you mean 'auto'?"),
        (["--costs", "none", "--require", "1.5"], "require is 1.5; give a share"),
        (["--costs", "none", "--seed", "4"], "seed is 4; the run has 3"),
        (["--costs", "none", "--task", "1"], "task is 1;"),
    ],
)
def test_bad_input_changes_nothing(run, given, message, tmp_path, capsys):
    out = tmp_path / "adapted"
    assert main(["adapt", str(run), "--out", str(out), *given]) == 2
    assert capsys.readouterr().err.startswith(f"safedsr: {message}") and not out.exists()


def test_the_weights_alone(run, costs, tmp_path, capsys):
    out, exported = tmp_path / "w.json", tmp_path / "policy.npz"
    args = ["adapt", str(run), "--costs", costs, "--episodes", "200", "--weights-out", str(out), "--level", "penalty"]
    assert main([*args, "--budget", "3"]) == 0
    assert f"weights: {out}" in capsys.readouterr().out and out.stat().st_size < 5_000
    new = json.loads(out.read_text())
    assert new["certificate"]["passed"] and new["level"] == "penalty" and new["budgets"] == [3.0]
    assert main(["export", str(run), "--out", str(exported), "--no-certify"]) == 0
    controller: Any = Controller(exported)
    assert controller.policy == new["policy"]
    controller.update(new)
    adapted = safedsr.load(run).adapt(costs, "penalty", 3, episodes=200).agent
    assert compare(adapted, lambda obs: (controller.act(obs), *controller.values(obs))) < 1e-4


def test_weights_that_are_not_certified_are_not_written(run, costs, tmp_path, capsys):
    out = tmp_path / "w.json"
    args = ["adapt", str(run), "--costs", costs, "--budget", "0.5", "--episodes", "200", "--weights-out", str(out)]
    assert main([*args, "--level", "cost"]) == 1
    shown = capsys.readouterr().err
    assert "certificate fails" in shown and "nothing was saved; the level 'memory' is needed and passes" in shown
    assert "--level memory --out DIR, and export it again" in shown and not out.exists()
    assert main([*args, "--level", "penalty", "--updates", "1"]) == 1
    assert "no level passes without new environment steps: try --level full" in capsys.readouterr().err
    assert not list(tmp_path.glob("w*"))


def test_where_tries_take_real_steps_the_next_level_is_named():
    stub = SimpleNamespace(job=SimpleNamespace(environment=SimpleNamespace(host=True)))
    said = _needed_level(stub, None, "penalty", None, CertificateConfig(), ClimbConfig())
    assert said == "try the next level: --level memory"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "nowhere to write; add --out DIR for the policy, or --weights-out FILE.json"),
        (["--weights-out", "w.json"], "level is 'auto'; with --weights-out, give --level cost or penalty"),
        (["--weights-out", "none/w.json", "--level", "cost"], "there is no folder '"),
    ],
)
def test_where_weights_go_is_checked_first(run, given, message, capsys):
    assert main(["adapt", str(run), "--costs", "none", *given]) == 2
    assert capsys.readouterr().err.startswith(f"safedsr: {message}")


def test_the_budget_alone_is_explained(run, tmp_path, capsys):
    args = ["adapt", str(run), "--budget", "3", "--episodes", "200"]
    assert main([*args, "--out", str(tmp_path / "same")]) == 0
    assert "the policy is the same as before: the level 'cost' changes nothing" in capsys.readouterr().out
    old, new = safedsr.load(run), safedsr.load(tmp_path / "same")
    assert same_trees(old.policy, new.policy) and (old.task.budgets, new.task.budgets) == ((0.5,), (3.0,))
    assert main([*args, "--level", "penalty", "--out", str(tmp_path / "other")]) == 0
    assert "the same as before" not in capsys.readouterr().out


def test_costs_within_the_budget_are_explained(run, costs, tmp_path, capsys):
    args = ["adapt", str(run), "--costs", costs, "--budget", "3", "--level", "cost", "--episodes", "200"]
    assert main([*args, "--out", str(tmp_path / "adapted")]) == 0
    shown = capsys.readouterr().out
    assert ("an episode may still meet costs" in shown) == ("0.00 ≤ 0.00" not in shown)
    loaded = safedsr.load(run)
    found = certify(loaded, costs, budget=3, episodes=100)
    assert found.cost[0].value > 0 and found.passed
    assert "a short way through costly states is allowed" in (_within_budget(found) or "")
    assert _within_budget(certify(loaded, episodes=100)) is None


def test_policies_that_cannot_adapt(tmp_path, capsys):
    without, other = tmp_path / "without", tmp_path / "other"
    walked_agent(LOW_ROAD).changed(experience=None).save(without)
    walker("right").save(other)
    for folder, message in ((without, "no replay memory to fit weights on"), (other, "safedqn has no cost weights")):
        assert main(["adapt", str(folder), "--costs", "none", "--out", str(tmp_path / "adapted")]) == 2
        assert message in capsys.readouterr().err
    assert main(["certify", str(other), "--episodes", "50"]) == 0  # any policy can be certified


def test_without_goals_the_words_are_others():
    found = certify(goalless(walker("left")), episodes=100)
    assert list(_cells(found)) == ["safe episodes", "over budget", "return", "mean cost", "steps", "episodes"]
    assert _verdict(found) == (
        "certificate passes: at least 0.970 of all episodes stay within the budget; required: 0.9; mean return -0.09"
    )
    usual = certify(walker("right"), episodes=100)
    assert list(_cells(usual)) == ["safe goal rate", "goal rate", "over budget", "mean cost", "steps", "episodes"]


def test_budgets_of_the_mean_have_words_of_their_own():
    found = certify(on_mean(walker("right", budget=0.7)), episodes=100)
    names = ["safe goal rate", "goal rate", "over budget", "return", "mean discounted cost", "steps", "episodes"]
    assert list(_cells(found)) == names and _cells(found)["mean discounted cost"] == "0.75 ≤ 0.75"
    assert _verdict(found) == "certificate fails: mean discounted cost ≤ 0.750 (budget 0.7); mean return 0.95"
