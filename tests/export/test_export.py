"""Exported policies compute what the agent computes: through ONNX Runtime, and with NumPy alone."""

import ast
import dataclasses
import json
import shutil
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from tiny import tiny_agent, tiny_task
from walked import walked_agent

from safedsr.adapt.certify import certify
from safedsr.agent import Agent
from safedsr.agents.plus.learner import PlusPolicy
from safedsr.cli import main
from safedsr.core.normalizer import Running
from safedsr.envs.environment import Environment, Spec, Task
from safedsr.errors import UserError
from safedsr.export import files
from safedsr.export.files import CHECKED, compare, export, observations_for, onnx_values
from safedsr.export.portable import portable
from safedsr.field import controller
from safedsr.field.controller import Controller
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job, grid_job

pytestmark = pytest.mark.usefixtures("compile_quickly")
TWO_COSTS = "S.AB.G\n......\n\nA = fire 1\nB = water 2.5"
SCALED = Spec(3, 2, 1, low=(-2.0, -np.inf, 0.0), high=(4.0, np.inf, np.inf), scaled=True, success=False)


def nowhere(spec: Spec = SCALED) -> Environment:
    """An environment of which agents need nothing but the Spec."""

    def fails(*args):
        raise AssertionError

    return Environment("nowhere", spec, fails, fails)


def made(job: Job) -> Agent:
    """An agent with random networks, weights and λ, and with statistics of observations."""
    agent = Agent(job, None, 0, 0)
    state, _ = agent.trainer.init(jax.random.key(1), jnp.uint32(1), job.tasks[0].params)
    policy = agent.trainer.policy(state)
    rng = np.random.default_rng(0)

    def drawn(tree):
        return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), jnp.float32), tree)

    size = job.environment.spec.observations
    seen = Running(jnp.linspace(-1, 3, size), jnp.linspace(5, 80, size), jnp.int32(11))
    if hasattr(policy, "obs_scale"):
        return agent.with_policy(policy._replace(actor=drawn(policy.actor), obs_scale=seen))
    learner = policy.learner
    if isinstance(learner, PlusPolicy):
        learner = learner._replace(successor=drawn(learner.successor), weights=drawn(learner.weights))
    else:
        learner = drawn(learner)
    scale = None if policy.scale is None else seen
    return agent.with_policy(policy._replace(learner=learner, lam=jnp.full_like(policy.lam, 0.3), scale=scale))


def on_the_grid(name: str, text: str = TWO_COSTS, **settings) -> Agent:
    return made(grid_job(name, (tiny_task(text),), (0,), tiny_agent(name, **settings)))


def elsewhere(name: str, **settings) -> Agent:
    environment = nowhere()
    task = Task("nowhere", (), ("cost",), (5.0,))
    return made(Job(name, (task,), (0,), tiny_agent(name, **settings), environment, TrainConfig(steps=200)))


def on_policy(**settings) -> Agent:
    from safedsr.agents.onpolicy.config import OnPolicyConfig

    config = OnPolicyConfig(**{"steps_per_epoch": 100, "hidden": (16, 8), "start": "jax", **settings})
    return made(grid_job("ppo-lag", (tiny_task("S.C.G"),), (0,), config, train=TrainConfig(steps=200)))


AGENTS = {
    "plus": lambda: on_the_grid("safedsr-plus", trunk=32, head=16, octaves=6),
    "plus, no outcomes": lambda: on_the_grid("safedsr-plus", outcomes=False),
    "plus, no waves": lambda: on_the_grid("safedsr-plus", octaves=0),
    "plus, points": lambda: on_the_grid("safedsr-plus", own_groups=False, points=12, octaves=6),
    "plus, scaled": lambda: elsewhere("safedsr-plus", points=12, octaves=6),
    "safedsr": lambda: on_the_grid("safedsr"),
    "safedsr, one layer": lambda: on_the_grid("safedsr", phi_hidden=(), successor_hidden=()),
    "safedsr, scaled": lambda: elsewhere("safedsr"),
    "dsr": lambda: on_the_grid("dsr", "S.G"),
    "safedqn": lambda: on_the_grid("safedqn", hidden=(16, 16)),
    "safedqn, scaled": lambda: elsewhere("safedqn"),
    "ppo-lag": on_policy,
    "ppo-lag, as it is": lambda: on_policy(normalize_obs=False),
}


@pytest.fixture(scope="module")
def plus() -> Agent:
    return AGENTS["plus"]()


@pytest.mark.parametrize("name", AGENTS)
def test_files_compute_what_the_agent_computes(name, tmp_path):
    agent = AGENTS[name]()
    wanted = agent.values(observations_for(agent))
    assert len(wanted.q) == CHECKED == 10_000 and np.ptp(np.asarray(wanted.q)) > 0.01
    steady = name in ("safedqn", "ppo-lag, as it is")  # with these random numbers one action is always the best
    assert steady or len(np.unique(np.argmax(np.asarray(wanted.score), 1))) > 1
    for kind in files.FORMATS:
        found = export(agent, tmp_path / f"policy.{kind}")
        assert found.difference < (1e-4 if "scaled" in name else 1e-5) and found.path.is_file()


def test_a_wrong_file_is_noticed_and_not_kept(plus, tmp_path, monkeypatch):
    right = files.portable

    def wrong(agent):
        policy = right(agent)
        return policy._replace(weights={**policy.weights, "w_r": 1.001 * policy.weights["w_r"]})

    monkeypatch.setattr(files, "portable", wrong)
    for kind in files.FORMATS:
        with pytest.raises(UserError, match=r"differs from the agent by .*e-0"):
            export(plus, tmp_path / f"policy.{kind}")
    assert not list(tmp_path.iterdir())


def test_another_action_is_noticed_unless_it_is_as_good(plus):
    def always(action):
        def values(obs):
            wanted = plus.values(obs)
            return np.full(len(obs), action), np.asarray(wanted.q), np.asarray(wanted.k)

        return values

    with pytest.raises(UserError, match="differs from the agent"):
        compare(plus, always(1))
    same = plus.policy.learner.successor
    weights = plus.policy.learner.weights
    flat = plus.with_policy(
        plus.policy._replace(
            learner=plus.policy.learner._replace(
                successor=jax.tree.map(jnp.zeros_like, same), weights=jax.tree.map(jnp.ones_like, weights)
            )
        )
    )
    found = flat.values(observations_for(flat))
    assert compare(flat, lambda obs: (np.full(len(obs), 2), np.asarray(found.q), np.asarray(found.k))) == 0


def test_new_weights_are_followed_in_both_formats(plus, tmp_path):
    rng = np.random.default_rng(3)
    old = plus.policy.learner.weights
    w_c, lam = rng.normal(size=old.w_c.shape).astype(np.float32), np.array([0.7, 0.1], np.float32)
    learner = plus.policy.learner._replace(weights=old._replace(w_c=jnp.asarray(w_c)))
    moved = plus.with_policy(plus.policy._replace(learner=learner, lam=jnp.asarray(lam)))
    obs = observations_for(moved)
    export(plus, tmp_path / "policy.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    run: Any = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"), options).run
    assert compare(moved, lambda obs: run(None, {"observation": obs, "w_c": w_c, "lam": lam})) < 2e-5
    with pytest.raises(UserError):
        compare(moved, onnx_values(tmp_path / "policy.onnx"))  # with the old ones
    for count in (1, 7):
        action, q, k = run(None, {"observation": obs[:count]})
        assert (action.shape, q.shape, k.shape) == ((count,), (count, 4), (count, 4, 2))

    export(plus, tmp_path / "policy.npz")
    field: Any = Controller(tmp_path / "policy.npz")
    new = files.weights_of(moved, plus, certify(plus, episodes=2), "cost")
    field.update(json.loads(json.dumps(new)))
    q, k = field.values(obs)
    assert compare(moved, lambda obs: (field.act(obs), q, k)) < 2e-5
    np.testing.assert_array_equal(field.weights["w_c"], w_c)  # not rounded
    assert field.act(obs[5]) == moved.act(obs[5]) == field.act(obs)[5] and isinstance(field.act(obs[5]), int)
    with pytest.raises(ValueError, match="for another policy"):
        field.update({**new, "policy": "0"})


def test_weights_for_another_number_of_costs_are_refused():
    agent = walked_agent("S.G\n.C.")
    more = agent.refit(np.array([[[0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]]], np.float32))
    certificate = certify(agent, episodes=2)
    with pytest.raises(UserError, match="has 1 costs and the new task has 2; give equally many"):
        files.weights_of(more, agent, certificate, "cost")


def test_the_hash_is_that_of_what_does_not_change(plus):
    learner = plus.policy.learner
    other = plus.with_policy(plus.policy._replace(lam=plus.policy.lam + 1))
    assert portable(other).policy == portable(plus).policy
    weights = learner.weights._replace(w_r=learner.weights.w_r + 1)
    other = plus.with_policy(plus.policy._replace(learner=learner._replace(weights=weights)))
    assert portable(other).policy != portable(plus).policy


def test_the_metadata_says_what_a_program_needs(plus, tmp_path):
    certificate = certify(plus, episodes=5)
    plus.export(tmp_path / "policy.onnx", certificate)
    model = onnx.load(tmp_path / "policy.onnx")
    about = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert about["action_names"] == ["up", "down", "left", "right"] and about["first_action"] == 0
    assert about["costs"] == ["fire", "water"] and about["budgets"] == [1.0, 1.0]
    assert about["certificate"]["violation"] == certificate.violation._asdict()
    assert about["policy"] == portable(plus).policy and len(about["policy"]) == 64
    assert about["scaling"] is None and about["map_scale"] == 6 and about["observation_high"] == [1, 1]
    assert [i.name for i in model.graph.input] == ["observation", "w_c", "lam"]
    assert [o.name for o in model.graph.output] == ["action", "Q", "K"]
    assert model.opset_import[0].version == 17
    elsewhere("safedqn").export(tmp_path / "policy.npz")
    about = json.loads(Controller(tmp_path / "policy.npz").about)
    assert about["scaling"]["limit"] == [None, 5.0, 5.0] and about["scaling"]["middle"] == [1.0, 1.0, 3.0]
    assert about["observation_low"] == [-2.0, None, 0.0] and about["lam"] is None


def test_the_controller_imports_numpy_alone():
    with open(controller.__file__, encoding="utf-8") as file:
        text = file.read()
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in found] == ["import numpy as np"]


def test_the_command_writes_both_formats(trained, tmp_path, capsys):
    folder = shutil.copytree(trained("safedsr-plus"), tmp_path / "run")
    capsys.readouterr()
    args = ["export", str(folder), "--episodes", "50"]
    assert main([*args, "--out", str(tmp_path / "policy.onnx")]) == 0
    shown = capsys.readouterr().out
    assert "inputs: observation, w_c, lam (both have defaults); outputs: action, Q, K" in shown
    assert "certificate" in shown and f"policy: {tmp_path / 'policy.onnx'}" in shown
    assert main([*args, "--out", str(tmp_path / "policy"), "--format", "npz", "--no-certify", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["certificate"] is None and found["difference"] < 1e-4
    assert Controller(tmp_path / "policy").policy == found["policy"]
    (folder / "certificate.json").write_text(
        json.dumps({"passed": True, "violation": {"bound": 0.25}, "budgets": [1], "rungs": [], "level": "cost"})
    )
    assert main([*args, "--out", str(tmp_path / "kept.npz")]) == 0
    assert "certificate passes: at most 0.2500 of all episodes exceed a budget" in capsys.readouterr().out
    assert json.loads(Controller(tmp_path / "kept.npz").about)["certificate"]["level"] == "cost"
    (folder / "certificate.json").write_text(
        json.dumps({"passed": True, "violation": {"bound": 0.25}, "budgets": [1], "rungs": [], "epsilon": 0.25})
    )
    assert main([*args, "--out", str(tmp_path / "again.npz")]) == 0  # an exported policy takes no random actions
    about = json.loads(Controller(tmp_path / "again.npz").about)["certificate"]
    assert about["epsilon"] == 0.0 and about["violation"]["bound"] != 0.25 and "at ε = 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("policy.pt", "the format of '{}' is not clear; name it policy.onnx or policy.npz, or give --format"),
        ("none/policy.npz", "there is no folder '"),
    ],
)
def test_bad_names_are_refused_at_once(out, message, tmp_path, capsys):
    path = tmp_path / out
    assert main(["export", str(tmp_path / "no-run"), "--out", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"safedsr: {message.format(path)}")


def test_without_onnx_the_error_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "policy.onnx")]) == 2
    assert "pip install 'safedsr[onnx]', or --format npz" in capsys.readouterr().err


def test_an_unknown_format_is_refused(plus, tmp_path):
    with pytest.raises(UserError, match="format is 'pt'; possible: onnx, npz"):
        export(plus, tmp_path / "policy.pt")


def test_actions_of_a_space_that_does_not_start_at_0(plus):
    class Host:
        first = 3

    job = dataclasses.replace(plus.job, environment=dataclasses.replace(plus.job.environment, host=Host()))
    agent = plus.changed(job=job)
    assert files.describe(agent, portable(plus))["first_action"] == 3
    assert agent.predict([0.1, 0.2])[0] == plus.act([0.1, 0.2]) + 3
