"""The short API: one call trains, and the agent does the rest."""

import dataclasses
import inspect
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from climber import Climber
from test_adapt_rungs import LOW_ROAD
from test_evaluate import walker
from test_export import on_policy
from tiny import same_trees, tiny_job, tiny_task
from walked import walked_agent

import safedsr
from safedsr import api
from safedsr.agents.onpolicy.config import DEFAULTS
from safedsr.agents.registry import ALGORITHMS, PRESET_HELP, find_algorithm
from safedsr.cli import main
from safedsr.engine.train import train as train_job
from safedsr.envs import from_gymnasium
from safedsr.envs.grid.config import GridConfig
from safedsr.errors import UserError
from safedsr.export.portable import portable
from safedsr.field.controller import Controller
from safedsr.runs.advice import advice, budgets_not_kept, notes_on, remarks_on, without_end
from safedsr.runs.config import TrainConfig
from safedsr.runs.folder import load_run
from safedsr.runs.job import Job, grid_job
from safedsr.runs.metrics import Episodes

pytestmark = pytest.mark.usefixtures("compile_quickly")
ROOT = Path(__file__).parent.parent
QUICK = "steps=1_000, on_chunk=shown.append, trunk=16, head=8, kept=20, epsilon=schedule, lam_step=0.5"
SCHEDULE = safedsr.EpsilonSchedule(0.9, 0.1, 0, 500)


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    """The names that the README's lines have set, and the folder in which they ran; with fewer steps and episodes."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = [part for part in re.findall(r"```python\n(.*?)```", text, re.S) if "safedsr.train(" in part]
    assert len(code.strip().splitlines()) <= 12
    few = {
        "steps=50_000": QUICK,
        "agent.certify()": "agent.certify(episodes=20)",
        'level="penalty"': 'level="penalty", episodes=20',
        "budget=8": 'budget=8, level="cost", episodes=20',
    }
    for given, fewer in few.items():
        assert code.count(given) == 1
        code = code.replace(given, fewer)
    found: dict[str, Any] = {"shown": [], "schedule": SCHEDULE}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(code, found)
    return found, folder


@pytest.fixture(scope="module")
def agent(readme):
    """The agent that the README's first line trained."""
    return safedsr.Agent.load(readme[1] / "runs/lab")


def test_the_lines_of_the_readme_run(readme):
    found, folder = readme
    assert found["action"] in range(4) and [p.step for p in found["shown"]] == [500, 1000]
    assert all(isinstance(p, safedsr.Progress) and p.lanes == 1 for p in found["shown"])
    saved = safedsr.load(folder / "runs/moved")
    assert same_trees(saved.policy, found["moved"].agent.policy) and same_trees(saved.policy, found["agent"].policy)
    assert Controller(folder / "policy.npz").policy == portable(saved).policy


def test_one_call_trains_on_a_map_with_costs_of_its_own(agent):
    assert agent.task.title == "lab, fire" and agent.task.budgets == (5.0,)
    assert np.asarray(agent.task.params.costs).sum() == 15
    settings = agent.job.agent
    assert (settings.epsilon, settings.multiplier.lam_step, settings.kept) == (SCHEDULE, 0.5, 20)


def test_some_costs_of_a_map_and_a_budget_of_0(write_map):
    path = write_map("S.AB.G\n......\n\nA = fire 1\nB = water 2.5")
    (task,) = safedsr.tasks_for("safedqn", [path], ["2*water"], 0)
    assert task.cost_names == ("2*water",) and np.asarray(task.params.costs).sum() == 5 and task.budgets == (0.0,)
    (task,) = safedsr.tasks_for("safedqn", [path], ["water,fire"], "1,2")
    assert task.cost_names == ("water", "fire") and task.budgets == (1.0, 2.0)
    with pytest.raises(UserError, match="unknown cost shape 'fier'; did you mean 'fire'"):
        safedsr.tasks_for("safedqn", [path], ["fier"])


def test_predict_has_the_signature_of_stable_baselines(agent):
    names = list(inspect.signature(agent.predict).parameters)
    assert names == ["observation", "state", "episode_start", "deterministic"]
    action, state = agent.predict([0.1, 0.2])
    assert isinstance(action, np.ndarray) and action.shape == () and state is None and action == agent.act([0.1, 0.2])
    places = agent.task.params
    height, width = places.walls.shape
    low = np.random.default_rng(0).random((5, 2)) * (width, height) / float(places.scale)
    many = low.astype(np.float32)  # places on the map
    actions, _ = agent.predict(many, state=None, episode_start=np.ones(5, bool), deterministic=True)
    np.testing.assert_array_equal(actions, agent.act(many))
    assert agent.predict(many[:1])[0].shape == (1,)
    with pytest.raises(UserError, match=r"shape \(3,\); give 2 numbers"):
        agent.predict([0.1, 0.2, 0.3])
    with pytest.raises(UserError, match="wrap its environment in Gymnasium's FlattenObservation"):
        agent.predict({"place": 1})


def test_predict_works_in_the_loop_of_evaluate_policy(agent):
    """The calls that Stable-Baselines3's `evaluate_policy` makes, in a vector environment."""
    make = lambda: gymnasium.make("safedsr/Grid-v0", layout=str(ROOT / "examples/lab.txt"))  # noqa: E731
    env = gymnasium.vector.SyncVectorEnv([make, make])
    observations, _ = env.reset(seed=[1, 2])
    states, starts = None, np.ones(2, bool)
    for _ in range(5):
        actions, states = agent.predict(observations, state=states, episode_start=starts, deterministic=True)
        observations, _, terminated, truncated, _ = env.step(actions)
        starts = terminated | truncated
    assert observations.shape == (2, 2)
    one = make()
    obs, _ = one.reset(seed=0)
    one.step(agent.predict(obs)[0])  # a single environment takes the action as it is


def test_observations_may_have_the_shape_of_a_picture():
    spec = safedsr.Spec(observations=6, actions=4, costs=1)
    agent = walker("right")
    job = dataclasses.replace(agent.job, environment=dataclasses.replace(agent.job.environment, spec=spec))
    seen = []
    agent = agent.changed(job=job, act=lambda obs, *more: seen.append(obs.shape) or np.zeros(obs.shape[:-1], int))
    assert agent.predict(np.zeros((2, 3)))[0].shape == () and agent.predict(np.zeros((4, 2, 3)))[0].shape == (4,)
    assert seen == [(6,), (4, 6)]


def test_without_determinism_value_based_agents_explore_with_their_last_epsilon():
    agent = walker("right")
    right = agent.act([0.1, 0.1])
    actions, _ = agent.predict(np.full((4000, 2), 0.1), deterministic=False)
    share = np.mean(actions != right)
    epsilon = agent.job.agent.epsilon.epsilon_end
    assert epsilon == 0.2 and abs(share - 0.75 * epsilon) < 0.03


def test_without_determinism_on_policy_agents_sample_by_their_probabilities():
    agent = on_policy()
    wanted = np.exp(np.asarray(agent.values([0.1, 0.5]).q))
    actions, _ = agent.predict(np.tile(np.array([0.1, 0.5]), (4000, 1)), deterministic=False)
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / 4000, wanted, atol=0.04)


@pytest.mark.parametrize(
    ("environment", "given", "message"),
    [
        ("CartPole-v1", {}, r"'CartPole-v1' is no map; of Gymnasium, give from_gymnasium\('CartPole-v1', cost=…\)"),
        ("gymnax:CartPole-v1", {}, "is no map; make it with gymnax and give from_gymnax"),
        (Climber, {}, "the environment is <class .*Climber'>; give the name or file of a map, or what from_gymnasium"),
        ("one-room", {"costs": "fire"}, "unknown cost shape 'fire'; did you mean|unknown cost shape 'fire'; known"),
        ("one-room", {"cost_args": {"a": 1}}, "a map has costs by name or file"),
        (from_gymnasium(Climber, cost="cost"), {"costs": "fire", "budget": 1}, "costs is 'fire'; this is for maps"),
    ],
)
def test_what_cannot_be_trained_is_explained(environment, given, message):
    with pytest.raises(UserError, match=message):
        safedsr.train("safedqn", environment, **given)


def test_a_setting_that_is_unknown_is_named():
    with pytest.raises(UserError, match="unknown setting of SafeDqnConfig 'stepz'"):
        safedsr.train("safedqn", "one-room", costs="diamond", stepz=4)


def test_adaptation_to_another_budget_alone():
    agent = walked_agent(LOW_ROAD, 0.5)
    found = agent.adapt(budget=3, level="cost", episodes=20)
    assert same_trees(found.agent.policy, agent.policy)
    assert found.agent.task.budgets == found.certificate.budgets == (3.0,) and found.certificate.episodes == 20
    with pytest.raises(UserError, match="no costs and no budget given"):
        agent.adapt()


def test_settings_of_an_adaptation_may_be_given_by_name():
    agent, shown = walked_agent(LOW_ROAD, 0.5), []
    found = agent.adapt(LOW_ROAD_COSTS, "cost", require=0.5, episodes=10, updates=7, show=shown.append)
    assert (found.certificate.require, found.certificate.episodes, len(shown)) == (0.5, 10, 1)
    with pytest.raises(UserError, match="unknown setting of ClimbConfig 'requires'"):
        agent.adapt(LOW_ROAD_COSTS, requires=0.5)


LOW_ROAD_COSTS = np.array([[0, 0, 0], [0, 2, 0]], np.float32)


def job_of(algorithm: str, agent: Any, steps: int) -> Job:
    return grid_job(algorithm, (tiny_task("S.C.G"),), (0,), agent, train=TrainConfig(steps=steps))


def test_an_epoch_longer_than_a_third_of_the_run_is_warned_about():
    usual = DEFAULTS["ppo-lag"]
    assert remarks_on(job_of("ppo-lag", usual, 100_000)) == []
    (few,) = remarks_on(job_of("ppo-lag", usual, 60_000))
    assert "an epoch has 20,000 steps and the run 60,000, so the policy is updated 3 times" in few
    assert "set steps_per_epoch to 1200" in few
    (one,) = remarks_on(job_of("ppo-lag", usual, 20_000))
    assert "updated once" in one


def test_one_call_warns_too(monkeypatch):
    def no_further(*args):
        raise RuntimeError("no further")

    monkeypatch.setattr(api, "train_job", no_further)
    with pytest.warns(UserWarning, match="updated 2 times"), pytest.raises(RuntimeError, match="no further"):
        safedsr.train("ppo-lag", "one-room", costs="diamond", steps=40_000)


def test_schedules_that_are_longer_than_the_run_are_warned_about():
    paper = find_algorithm("safedqn").default
    first, second = remarks_on(job_of("safedqn", paper, 60_000))
    assert first.startswith("ε falls until step 100,000 and is still 0.62 at the end of 60,000 steps")
    assert second.startswith("λ is tuned from step 100,000 on and the run ends at 60,000")
    assert remarks_on(job_of("safedqn", paper, 200_000)) == []
    assert remarks_on(job_of("safedsr-plus", find_algorithm("safedsr-plus").default, 60_000)) == []
    assert advice(tiny_job("safedqn")) == []


def test_baselines_point_to_the_repaired_ones():
    def notes(name: str, preset: str) -> list[str]:
        return notes_on(job_of(name, find_algorithm(name).settings(preset), 100_000))

    for name in ("ppo-lag", "cpo", "p3o"):
        assert "a fair baseline has --preset repaired" in notes(name, "omnisafe")[0] and not notes(name, "repaired")
    assert notes("trpo-lag", "omnisafe") == []  # nothing of it is repaired
    assert notes_on(tiny_job("safedsr-plus")) == []


def test_every_preset_is_explained_in_the_help(capsys):
    assert {name for algorithm in ALGORITHMS.values() for name in algorithm.presets} == set(PRESET_HELP)
    assert main(["train", "ppo-lag", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name in ("omnisafe", "repaired", "paper"):
        assert f"{name}: {PRESET_HELP[name]}" in shown


def test_the_command_says_it_at_the_start(tmp_path, capsys, monkeypatch):
    import safedsr.engine.train as module

    monkeypatch.setattr(module, "train", lambda job, out, show: None)
    monkeypatch.setattr("safedsr.runs.folder.load_run", lambda out: SimpleNamespace(episodes={"end_step": [1]}))
    args = ["train", "ppo-lag", "--costs", "diamond", "--steps", "40000", "--out", str(tmp_path / "run")]
    assert main(args) == 0
    shown = capsys.readouterr().err
    assert shown.startswith("warning: an epoch has 20,000 steps") and "\nnote: ppo-lag has OmniSafe's formulas" in shown


def written(ends: list[int], costs: dict[int, np.ndarray]) -> Any:
    """A run of two seeds with the same episodes, which end at these steps; `costs` has theirs in each task."""
    n, reached = np.full(len(ends), 2), np.ones(len(ends), bool)
    episodes = {task: Episodes(np.array(ends), n, n, cost[:, None], reached) for task, cost in costs.items()}
    return SimpleNamespace(by_seed=lambda task: [episodes[task]] * 2)


def test_budgets_that_no_lam_kept_are_named(tmp_path):
    """Made-up episodes: one task keeps its budget in all late episodes, the other in none; early ones do not count."""
    job = tiny_job("safedsr-plus", "SCG", "SC.G", steps=1000)
    cost = {0: np.array([9.0, 0.0, 0.0]), 1: np.array([0.0, 9.0, 9.0])}
    (line,) = budgets_not_kept(job, written([100, 900, 1000], cost))
    assert job.tasks[1].title in line and "no λ tried keeps the budget; at the end 1.00 of the episodes" in line
    assert not budgets_not_kept(tiny_job("safedqn", "SCG", "SC.G", steps=1000), written([100, 900, 1000], cost))


def test_mean_budgets_that_no_lam_kept_are_named():
    """Made-up episodes: in the first task the mean cost is below the budget, in the second one far above it."""
    job = tiny_job("safedsr-plus", "SCG", "SC.G", steps=1000)
    job = dataclasses.replace(job, budget_kind="discounted-mean")
    cost = {0: np.array([9.0, 0.0, 2.0, 0.5, 1.0]), 1: np.array([0.0, 9.0, 9.0, 8.0, 9.5])}
    (line,) = budgets_not_kept(job, written([100, 900, 950, 975, 1000], cost))
    assert job.tasks[1].title in line and "the mean discounted cost of an episode is 8.88 with a budget of 1" in line
    assert "above it in 2 of 2" in line


def test_a_run_without_the_end_of_an_episode_is_said(tmp_path):
    for name, steps, words in (("short", 40, 1), ("long", 160, 0)):
        train_job(tiny_job("dqn", "S......G", steps=steps, grid=GridConfig(time_limit=50)), tmp_path / name)
        assert len(without_end(load_run(tmp_path / name))) == words
