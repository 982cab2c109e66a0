"""Every algorithm trains in an environment that is not the grid: five observations, three actions, two costs."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stairs import ACTIONS, Stairs, make_stairs, observe, stairs_job, stairs_task, step
from stairs import Walker as Stair
from tiny import same_trees

import safedsr
from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.agents.onpolicy.baselines import BASELINES
from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.registry import ALGORITHMS, find_algorithm
from safedsr.agents.safedqn.config import SafeDqnConfig
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.engine.evaluate import evaluate
from safedsr.engine.program import Program
from safedsr.engine.train import resume, train
from safedsr.envs.environment import Task
from safedsr.errors import UserError
from safedsr.figures.adapted import draw_adapted
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job

pytestmark = pytest.mark.usefixtures("compile_quickly")
SHARED: dict[str, Any] = {
    "epsilon": EpsilonSchedule(1.0, 1.0, 0, 0),
    "multiplier": MultiplierConfig(penalty_start=0),
    "gamma": 0.9,
    "batch_size": 32,
    "buffer_size": 500,
    "train_start": 100,
    "sync_every": 50,
    "update_steps": 10,
    "learning_rate": 3e-3,
}
DSR: dict[str, Any] = {
    **SHARED,
    "terminal": "absorb",
    "freeze": 400,
    "features": 16,
    "phi_hidden": (32,),
    "decoder_hidden": (16,),
    "successor_hidden": (32,),
    "reservoir_size": 50,
}
PLUS: dict[str, Any] = {
    **SHARED,
    "multiplier": MultiplierConfig(rule="chance", penalty_start=0, lam_step=0.001, lam_most=0.05),
    "plan_epsilon": 0.0,
    "points": 16,
    "kept": 50,
    "trunk": 32,
    "head": 16,
    "phi_batch": 8,
}
STEPS = 1000
FEW = CertificateConfig(episodes=64)


def settings_of(name: str) -> Any:
    """Settings with which an algorithm learns the stairs in a moment."""
    if name in BASELINES:
        quick = {"steps_per_epoch": 250, "batch_size": 50, "update_iters": 10, "hidden": (16,), "decay_steps": 0}
        rates = {"actor_lr": 0.02, "critic_lr": 0.02, "target_kl": 0.1, "kl_reduce": "mean", "damping": 0.01}
        return dataclasses.replace(find_algorithm(name).default, **quick, **rates, gamma=0.9)
    if name in ("safedsr", "dsr"):
        return SafeDsrConfig(**DSR)
    return SafeDsrPlusConfig(**PLUS) if name == "safedsr-plus" else SafeDqnConfig(**SHARED, hidden=(32,))


def costs_of(name: str) -> int:
    """How many costs an algorithm takes, two at most."""
    if find_algorithm(name).costless:
        return 0
    return 1 if name in BASELINES and BASELINES[name].one_cost else 2


USUAL = ("safedqn", "safedsr", "safedsr-plus", "ppo-lag")  # one of each kind; `make test-all` has the others
NAMES = [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in ALGORITHMS]


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_goes_up_the_stairs(name, tmp_path):
    """Train half of the steps, resume, load, act: the best actions are known."""
    costs, agent = costs_of(name), settings_of(name)
    half = STEPS // 2
    job = stairs_job(name, agent, costs, half, checkpoint_seconds=0)
    train(job, tmp_path / "run")
    resume(tmp_path / "run", {"steps": STEPS}, environment=make_stairs(costs))
    loaded = safedsr.load(tmp_path / "run", environment=make_stairs(costs))
    stairs = np.stack([observe(Stair(jnp.int32(n))) for n in range(4)])
    assert [ACTIONS[a] for a in loaded.act(stairs)] == ["up"] * 4
    found = evaluate(loaded, episodes=20)
    assert found.goal_rate.value == 1 and found.length.value == 4
    assert [cost.value for cost in found.cost] == [1.0, 2.0][:costs]
    with pytest.raises(UserError, match=r"^observations have shape \(2,\); give \[5\] or \[n, 5\]"):
        loaded.act([0.1, 0.2])


def test_an_environment_of_ones_own_has_to_be_brought_along(tmp_path):
    job = stairs_job("safedqn", settings_of("safedqn"), 1, 200)
    train(job, tmp_path / "run")
    with pytest.raises(UserError, match=r"policy.json: this run was trained in 'stairs', which is not part of safedsr"):
        safedsr.load(tmp_path / "run")
    with pytest.raises(
        UserError, match=r"trained in 'stairs' with 1 cost; the environment given is 'stairs' with 2 costs"
    ):
        safedsr.load(tmp_path / "run", environment=make_stairs(2))


@pytest.mark.slow
def test_ranges_of_rewards_and_costs_may_be_unknown(tmp_path):
    job = stairs_job("safedsr", settings_of("safedsr"), 2, STEPS, known=False)
    train(job, tmp_path / "run")
    loaded = safedsr.load(tmp_path / "run", environment=make_stairs(2, known=False))
    assert evaluate(loaded, episodes=20).goal_rate.value == 1


def test_what_an_environment_does_not_offer_is_said():
    with pytest.raises(
        UserError, match=r"^saving trajectories needs the function 'position', which the environment 'stairs' does not"
    ):
        stairs_job("safedqn", settings_of("safedqn"), 1, 200, trajectories=100)
    with pytest.raises(
        UserError, match=r"^pretraining needs the function 'random_steps', which the environment 'stairs' does not"
    ):
        find_trainer("safedsr", dataclasses.replace(settings_of("safedsr"), pretrain=5))
    with pytest.raises(UserError, match=r"^action_order is 'urdl', which is for environments whose actions are up"):
        trainer = find_trainer("ppo-lag", dataclasses.replace(settings_of("ppo-lag"), action_order="urdl"))
        trainer.init(jax.random.key(0), np.uint32(0), stairs_task(1).params)


def find_trainer(name, agent):
    from safedsr.agents.registry import make_trainer

    return make_trainer(name, agent, make_stairs(1))


@pytest.fixture(scope="module")
def trained_plus(tmp_path_factory):
    """SafeDSR-plus on points instead of cells."""
    folder = tmp_path_factory.mktemp("stairs") / "run"
    train(stairs_job("safedsr-plus", settings_of("safedsr-plus"), 2, STEPS), folder)
    return safedsr.load(folder, environment=make_stairs(2))


def test_remembered_steps_travel_with_the_policy(trained_plus, tmp_path):
    """Saved, loaded and saved again, the agent remembers the same."""
    one = trained_plus
    assert one.experience is not None and one.experience.steps.obs.shape[1:] == (5,)
    one.save(tmp_path / "copy")
    other = safedsr.load(tmp_path / "copy", environment=make_stairs(2))
    assert same_trees((one.policy, one.experience), (other.policy, other.experience))


def test_an_agent_adapts_to_another_task_of_its_environment(trained_plus):
    """The second cost moves to the third stair only; weights are fitted to relabelled memory, and M learns from it."""
    agent, other = trained_plus, stairs_task(2)
    other = other._replace(params=Stairs(np.array([[0, 0, 0, 0, 0], [0, 0, 0, 1, 0]], np.float32)))
    for found in (
        agent.refit(other),
        agent.adapt(other, "memory", certificate=FEW, spend=ClimbConfig(updates=50)).agent,
    ):
        assert found.task.params is other.params
        costs = [cost.value for cost in evaluate(found, episodes=20).cost]
        assert costs == [0.0, 1.0] and evaluate(found, episodes=20).goal_rate.value == 1
        assert agent.experience is not None
        steps = agent.experience.steps
        labelled = found.update(steps.obs[:5], steps.action[:5], np.zeros((5, 2)))
        assert labelled.task.params is other.params
    with pytest.raises(UserError, match=r"^'stairs' is not a map of the grid"):
        agent.adapt("square")
    with pytest.raises(UserError, match=r"^no costs and no budget given to adapt to"):
        agent.adapt(None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^the environment 'stairs' has 2 costs and the task has 1; give equally many"):
        evaluate(agent, stairs_task(1))


def test_pictures_of_an_adaptation_without_a_map(trained_plus, tmp_path):
    found = trained_plus.adapt(stairs_task(2, 1.5), "cost", certificate=FEW)
    draw_adapted(trained_plus, found, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["before-after.png"]


def test_the_mean_of_the_discounted_costs_comes_to_its_budget():
    """The first stair costs 1 at once; the agent goes up in some episodes and waits in others."""
    rules = MultiplierConfig(rule="chance", penalty_start=1000, lam_step=0.02)
    changes = {"epsilon": EpsilonSchedule(1.0, 0.1, 500, 1000), "multiplier": rules, "hidden": (32,)}
    agent = SafeDqnConfig(**{**SHARED, **changes})
    environment, training = make_stairs(1, success=False), TrainConfig(steps=10_000)
    job = Job("safedqn", (stairs_task(1, 0.6),), (0, 1), agent, environment, training, "discounted-mean")
    program = Program(job)
    state, step, costs = program.init(), 0, np.zeros(0)
    while step < training.steps:
        stop = program.next_stop(step)
        state, records, _ = program.advance(state, step, stop - step)
        costs, step = np.asarray(records.cost)[np.asarray(records.done)], stop
    assert job.agent.multiplier.rule == "mean" and costs.mean() == pytest.approx(0.6, abs=0.05)


def test_parameters_may_be_empty(tmp_path):
    """Without parameters there is nothing to write down, and a run folder opens again."""
    free = dataclasses.replace(
        make_stairs(1),
        step=lambda key, state, action, params: step(key, state, action, stairs_task(1).params),
        to_json=None,
        from_json=None,
    )
    task = Task("stairs", (), ("slippery",), (100.0,))
    train(Job("safedqn", (task,), (0, 1), settings_of("safedqn"), free, TrainConfig(steps=200)), tmp_path / "run")
    assert evaluate(safedsr.load(tmp_path / "run", environment=free), episodes=5).episodes == 5
    with pytest.raises(UserError, match=r"^a task with parameters, .* needs the function 'to_json', which the environ"):
        Job("safedqn", (stairs_task(1),), (0,), settings_of("safedqn"), free)


def test_another_environment_than_that_of_the_training_is_refused(tmp_path):
    slow = dataclasses.replace(make_stairs(1), settings={"slip": 0.1})
    job = Job("safedqn", (stairs_task(1),), (0,), settings_of("safedqn"), slow, TrainConfig(steps=200))
    train(job, tmp_path / "run")
    with pytest.raises(
        UserError, match=r"this run was trained in 'stairs' with slip 0.1; the environment given has 0.9"
    ):
        safedsr.load(tmp_path / "run", environment=dataclasses.replace(slow, settings={"slip": 0.9}))


def test_a_policy_without_memory_does_not_inherit_one(trained_plus, tmp_path):
    trained_plus.save(tmp_path / "copy")
    trained_plus.changed(experience=None).save(tmp_path / "copy", overwrite=True)
    assert safedsr.load(tmp_path / "copy", environment=make_stairs(2)).experience is None
