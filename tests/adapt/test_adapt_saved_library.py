"""Saved libraries and the commands; agents with different numbers of costs; what cannot be in a library."""

import json

import numpy as np
import pytest
from test_adapt_library import low  # noqa: F401
from test_adapt_rungs import FEW, HIGH_ROAD, START, agent, moved  # noqa: F401
from walked import walked_agent

import safedsr
from safedsr.adapt.library import distinct, join, save_members
from safedsr.agent import load_library
from safedsr.cli import main
from safedsr.errors import UserError

pytestmark = pytest.mark.usefixtures("compile_quickly")


@pytest.fixture(scope="module")
def folder(agent, low, tmp_path_factory):  # noqa: F811
    """A folder with a saved library of two agents, and one of them beside it."""
    top = tmp_path_factory.mktemp("agents")
    agent.adapt(HIGH_ROAD, certificate=FEW, library=[low]).rungs[-1].agent.save(top / "both")
    low.save(top / "low")
    return top


def test_a_saved_library_is_certified_and_evaluated_by_commands(folder, low, capsys):  # noqa: F811
    both = safedsr.load(folder / "both")
    code = main(["certify", str(folder / "both"), "--episodes", "100", "--json"])
    found = json.loads(capsys.readouterr().out)
    wanted = both.certify(episodes=100)
    assert code == (0 if wanted.passed else 1)
    assert found["safe_goal_rate"]["value"] == wanted.safe_goal_rate.value
    assert main(["evaluate", str(folder / "both"), "--episodes", "50", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)  # one agent, not the first of its members
    alone = json.loads(run_json(["evaluate", str(folder / "both/members/0"), "--episodes", "50", "--json"], capsys))[0]
    assert row["safe_goal_rate"]["value"] == 1.0 and alone["safe_goal_rate"]["value"] == 0.0
    assert main(["evaluate", str(folder / "both"), "--seed", "99"]) == 2
    assert main(["certify", str(folder / "both"), "--task", "1"]) == 2
    assert "a library has one task; leave it out" in capsys.readouterr().err


def run_json(args, capsys):
    assert main(args) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "args",
    [["adapt", "both", "--budget", "3", "--out", "new"], ["export", "both", "--out", "policy.npz"]],
)
def test_commands_say_that_a_library_is_not_adapted_or_exported(args, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    args = [str(folder / "both") if arg == "both" else arg for arg in args]
    assert main(args) == 2
    error = capsys.readouterr().err
    assert f"cannot {args[0]} a library; {args[0]} one of its members" in error and "members/0" in error
    assert not list(tmp_path.iterdir())


def test_policies_of_saved_libraries_do_not_count_as_agents_below_a_folder(folder):
    assert len(load_library(folder)) == 1
    assert len(load_library(folder / "both")) == 2  # the library itself was asked for


def test_policies_and_libraries_do_not_share_a_folder(folder, low, agent):  # noqa: F811
    with pytest.raises(UserError, match="both holds a library already"):
        low.save(folder / "both", overwrite=True)
    with pytest.raises(UserError, match="low holds a policy already"):
        agent.library([low], HIGH_ROAD).save(folder / "low")


def test_a_library_is_replaced_only_on_request_and_after_a_save_that_was_stopped(agent, low, tmp_path):  # noqa: F811
    both = agent.library([low], HIGH_ROAD)
    both.save(tmp_path / "both")
    with pytest.raises(UserError, match="holds a library already; choose another folder, or say overwrite=True"):
        both.save(tmp_path / "both")
    low.save(tmp_path / "both/members/2")  # of a larger one
    both.save(tmp_path / "both", overwrite=True)
    assert len(load_library(tmp_path / "both")) == 2
    (tmp_path / "both/library.json").unlink()  # it is written last
    both.save(tmp_path / "both")
    np.testing.assert_array_equal(safedsr.load(tmp_path / "both").values(START).score, both.values(START).score)


def test_a_save_that_fails_keeps_the_library_that_was_there(agent, low, tmp_path, monkeypatch):  # noqa: F811
    both = agent.library([low], HIGH_ROAD)
    both.save(tmp_path / "both")

    def fail(*args, **more):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(type(low), "save", fail)
        with pytest.raises(OSError, match="No space"):
            save_members(both, both.members, tmp_path / "both", overwrite=True)
    assert len(safedsr.load(tmp_path / "both").members) == 2


def test_a_run_folder_is_no_place_for_a_library(agent, low, tmp_path):  # noqa: F811
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match="holds a run already"):
        agent.library([low], HIGH_ROAD).save(tmp_path)


def test_a_library_has_no_features_of_its_own(folder, capsys):
    both = safedsr.load(folder / "both")
    with pytest.raises(UserError, match="cannot take φ of a library"):
        both.features(START[None], np.array([0]))
    assert main(["oracle", "--layout", "one-room", "--rewards-of", str(folder / "both")]) == 2
    assert "cannot take the rewards of a library" in capsys.readouterr().err


def test_a_damaged_library_is_refused(folder, agent, low, tmp_path):  # noqa: F811
    agent.library([low], HIGH_ROAD).save(tmp_path / "both")
    file = tmp_path / "both/library.json"
    for wrong, reason in (({"members": 0, "lam": [1.0]}, "members is 0"), ({"members": 2, "lam": []}, "lam is")):
        file.write_text(json.dumps(wrong))
        with pytest.raises(UserError, match=reason):
            safedsr.load(tmp_path / "both")


def test_agents_with_other_numbers_of_costs_are_adapted_together(agent, low):  # noqa: F811
    double = low.refit(np.stack([HIGH_ROAD, 0 * HIGH_ROAD]))
    assert len(double.task.budgets) == 2
    found = agent.adapt(HIGH_ROAD, certificate=FEW, library=[double])
    assert found.certificate.passed and [rung.level for rung in found.rungs][-1] == "library of 2"
    assert len(agent.library([double], HIGH_ROAD).members) == 2
    with pytest.raises(UserError, match=r"different numbers of costs \(2 and 1\); name the costs"):
        agent.library([double])


def test_loaded_agents_with_other_numbers_of_costs_are_adapted_together(trained, tmp_path):
    one = safedsr.load(trained("safedsr-plus"), 0)
    cells = np.asarray(one.task.params.costs[:1], np.float32)
    one.refit(np.concatenate([cells, 2 * cells])).save(tmp_path / "two")
    two = safedsr.load(tmp_path / "two")
    assert len(two.task.budgets) == 2
    for costs in (cells, np.concatenate([cells, 0 * cells])):
        for first, other in ((one, two), (two, one)):
            assert len(first.library([other], costs).members) == 2


def test_agents_of_one_task_have_names_of_their_own(agent, low):  # noqa: F811
    found = agent.adapt(HIGH_ROAD, certificate=FEW, library=[low])
    names = [rung.level for rung in found.rungs]
    assert len(set(names)) == 3 and names[0].startswith(agent.task.title)


def test_agents_that_act_alike_make_no_library_and_this_is_said(agent):  # noqa: F811
    found = agent.adapt(HIGH_ROAD, certificate=FEW, library=[agent.with_policy(agent.policy)])
    assert len(found.rungs) == 1
    assert found.notes[0].startswith("no library was made: all agents act alike in 98% of the states")


def test_what_is_no_list_of_agents_is_refused(agent, low):  # noqa: F811
    for none in ([], iter([])):
        with pytest.raises(UserError, match="give one agent at least"):
            agent.adapt(HIGH_ROAD, library=none)
    for wrong in (None, low, "runs/other"):
        with pytest.raises(UserError, match="is no list of agents"):
            agent.library(wrong)
    with pytest.raises(UserError, match="is no list of agents"):
        agent.adapt(HIGH_ROAD, library=low)
    with pytest.raises(UserError, match="cannot be part of another library"):
        distinct([low, join([agent, low])])


def test_the_reason_why_an_agent_does_not_fit_is_true(agent):  # noqa: F811
    small = walked_agent("S.G\n.C.", 0.5)
    with pytest.raises(UserError, match="has networks of other sizes"):
        join([agent, small])
    with pytest.raises(UserError, match="is of another map"):
        join([agent, walked_agent("S.G\n.C.\n...", 0.5, exact=True)])
