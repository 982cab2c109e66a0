"""Libraries of agents: acting by the best of several, which agents are taken, adapting, saving."""

import jax
import numpy as np
import pytest
from test_adapt_rungs import FEW, HIGH_ROAD, START, agent, moved  # noqa: F401
from tiny import same_trees
from walked import walked_agent

import safedsr
from safedsr.adapt.library import best_values, distinct, join
from safedsr.adapt.penalty import score
from safedsr.adapt.successor import learn_from_memory
from safedsr.cli import main
from safedsr.envs.grid.physics import ACTIONS
from safedsr.errors import UserError

pytestmark = pytest.mark.usefixtures("compile_quickly")
RIGHT, DOWN = ACTIONS.index("right"), ACTIONS.index("down")


@pytest.fixture(scope="module")
def low(moved):  # noqa: F811
    """An agent that takes the lower road."""
    found, reached = learn_from_memory(moved, moved.task, 4000, 0.9)
    assert reached.safe == 1.0 and found.act(START) == DOWN
    return found


def test_the_best_member_decides_for_each_action(agent, low):  # noqa: F811
    together = join([agent, low])
    obs = np.random.default_rng(0).random((20, 2)).astype(np.float32)
    each = [one.with_policy(one.policy._replace(lam=agent.policy.lam)).values(obs) for one in (agent, low)]
    wanted = np.maximum(*(np.asarray(one.score) for one in each))
    found = together.values(obs)
    assert np.allclose(found.score, wanted, atol=1e-5)
    first = np.asarray(each[0].score) >= np.asarray(each[1].score)
    assert np.allclose(found.q, np.where(first, each[0].q, each[1].q), atol=1e-5)
    assert best_values(agent.trainer.values) is best_values(agent.trainer.values)  # compiled once
    assert together.members == (agent, low) and not agent.members


def test_agents_that_act_alike_are_taken_once(agent, low):  # noqa: F811
    assert distinct([agent, agent.with_policy(agent.policy), low, low]) == (agent, low)
    assert distinct([low, agent, low], most=1) == (low,)
    with pytest.raises(UserError, match="most is 0"):
        distinct([low], most=0)


def test_a_library_finds_the_way_that_one_of_its_agents_knows(agent, low):  # noqa: F811
    alone = agent.adapt(HIGH_ROAD, "penalty", certificate=FEW)
    assert alone.certificate.safe_goal_rate.value == 0.0  # its M knows the straight road only
    found = agent.adapt(HIGH_ROAD, certificate=FEW, library=[low])
    assert found.certificate.passed and found.agent.act(START) == DOWN
    assert [rung.level for rung in found.rungs][-1] == "library of 2" and len(found.rungs) == 3
    assert score(found.rungs[-1].agent, found.agent.task, 0.0).safe == 1.0
    assert agent.act(START) == RIGHT  # as before


def test_agents_that_have_no_place_in_a_library_are_mentioned(agent, low, monkeypatch):  # noqa: F811
    monkeypatch.setattr("safedsr.adapt.library.MOST", 1)
    found = agent.adapt(HIGH_ROAD, certificate=FEW, library=[low])
    assert len(found.rungs) == 1 and found.notes == ("a library holds 1 agents at most; the last 1 were left out",)


def test_a_library_is_saved_and_loaded(agent, low, tmp_path):  # noqa: F811
    together = agent.library([low], HIGH_ROAD)
    together = together.with_policy(together.policy._replace(lam=3.0 * together.policy.lam + 1.0))
    together.save(tmp_path / "both")
    back = safedsr.load(tmp_path / "both")
    assert len(back.members) == 2
    assert same_trees(jax.tree.map(np.asarray, back.policy), jax.tree.map(np.asarray, together.policy))
    obs = np.random.default_rng(1).random((5, 2)).astype(np.float32)
    assert np.allclose(back.values(obs).score, together.values(obs).score)
    with pytest.raises(UserError, match="holds a library already"):
        together.save(tmp_path / "both")


def test_a_library_says_what_it_cannot_do(agent, low, tmp_path):  # noqa: F811
    together = agent.library([low])
    for wrong in (
        lambda: together.adapt(HIGH_ROAD),
        lambda: together.export(tmp_path / "policy.npz"),
        lambda: together.update(START, 0, 1.0),
    ):
        with pytest.raises(UserError, match=r"a library; \w+ one of its members"):
            wrong()
    with pytest.raises(UserError, match="level 'memory' was given"):
        agent.adapt(HIGH_ROAD, "memory", library=[low])
    for name, value in (("updates", 7), ("penalty", "learn"), ("highest", "cost")):
        with pytest.raises(UserError, match=f"{name} was given; with a library"):
            agent.adapt(HIGH_ROAD, library=[low], **{name: value})
    other = walked_agent("S.G\n.C.\n...", 0.5, exact=True)
    with pytest.raises(UserError, match="no trained agent"):
        agent.library(["runs/other"], "square")
    with pytest.raises(UserError, match="on one map"):
        join([agent, other])


def test_the_command_takes_a_folder_of_agents(agent, low, tmp_path, capsys):  # noqa: F811
    for name, one in (("straight", agent), ("low", low)):
        one.save(tmp_path / "library" / name)
    args = ["adapt", str(tmp_path / "library/straight"), "--library", str(tmp_path / "library"), "--episodes", "100"]
    (tmp_path / "high.txt").write_text("SCG\n...")
    args += ["--costs", str(tmp_path / "high.txt")]
    assert main([*args, "--out", str(tmp_path / "out")]) == 0
    assert "library of 2" in capsys.readouterr().out
    assert safedsr.load(tmp_path / "out").act(START) == DOWN
    (tmp_path / "empty").mkdir()
    args[3] = str(tmp_path / "empty")
    assert main([*args, "--out", str(tmp_path / "other")]) == 2
    assert "there is no trained agent in or below" in capsys.readouterr().err
    assert main([*args, "--weights-out", str(tmp_path / "w.json"), "--level", "penalty"]) == 2
