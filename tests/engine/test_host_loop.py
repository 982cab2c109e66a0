"""Training and episodes on the host: the same as compiled ones, repeatable, resumable, and clear about failures."""

import contextlib
import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from climber import Climber, Purse, slippery
from stairs import make_stairs, stairs_job, stairs_task
from test_other_environments import costs_of, settings_of
from tiny import same_trees

import safedsr
from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.adapt.ladder import adapt
from safedsr.agents.registry import ALGORITHMS
from safedsr.engine.evaluate import evaluate, run_episodes
from safedsr.engine.host_loop import HostProgram, copies_of, processes_for
from safedsr.engine.program import Program
from safedsr.engine.train import RESTARTS, resume, train
from safedsr.envs.environment import make_task
from safedsr.envs.host import from_gymnasium
from safedsr.errors import EnvironmentFailed, UserError
from safedsr.runs.config import TrainConfig
from safedsr.runs.folder import load_run
from safedsr.runs.job import Job

pytestmark = pytest.mark.usefixtures("compile_quickly")
QUICK = ("safedqn", "safedsr-plus", "ppo-lag")
STEPS = 500


def noisy(obs, action, next_obs, reward, info):
    """The second cost of the stairs."""
    return 0.25 < next_obs[0] < 0.9


def host_stairs(num_costs):
    """The stairs on the host, with the Spec of the compiled stairs."""
    made = from_gymnasium(Climber, cost=(slippery, noisy)[:num_costs])
    spec = make_stairs(num_costs).spec
    return dataclasses.replace(made, spec=dataclasses.replace(spec, time_limit=None))


def host_job(name, steps=STEPS, seeds=(0, 1), **train_settings):
    environment = host_stairs(costs_of(name))
    task = make_task(environment, 100)
    return Job(name, (task,), seeds, settings_of(name), environment, TrainConfig(steps=steps, **train_settings))


def quick_job(**settings):
    """A short job that learns."""
    return host_job("safedqn", **settings)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ALGORITHMS]
)
def test_training_on_the_host_is_the_compiled_training(name):
    compiled = Program(stairs_job(name, settings_of(name), costs_of(name), STEPS))
    host = HostProgram(host_job(name, copies=1))
    host.overlap = False
    ends, step = {}, 0
    with contextlib.closing(host):
        states = [compiled.init(), host.init()]
        while step < STEPS:
            stop = compiled.next_stop(step)
            ends = [
                program.advance(state, step, stop - step)
                for program, state in zip((compiled, host), states, strict=True)
            ]
            states, step = [end[0] for end in ends], stop
            for one, other in zip(ends[0][1][:5], ends[1][1][:5], strict=True):
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6)
    for one, other in zip(*(jax.tree.leaves(numbers(state.agent)) for state in states), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=2e-3, atol=2e-4)


def numbers(state):
    """A state with its random keys as plain numbers."""

    def plain(x):
        return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    return jax.tree.map(plain, state)


def states_after(job):
    """The state of a whole training."""
    with contextlib.closing(HostProgram(job)) as program:
        state, step = program.init(), 0
        while step < job.train.steps:
            stop = program.next_stop(step)
            state, _, _ = program.advance(state, step, stop - step)
            step = stop
    return numbers(state)


@pytest.mark.parametrize("name", ["safedqn", pytest.param("ppo-lag", marks=pytest.mark.slow)])
def test_a_seeded_training_repeats_exactly_also_in_processes(name):
    first = states_after(host_job(name))
    assert same_trees(first, states_after(host_job(name)))
    assert same_trees(first, states_after(host_job(name, processes=2)))


def test_seeds_do_not_depend_on_each_other():
    both, one = states_after(quick_job(seeds=(0, 1))), states_after(quick_job(seeds=(1,)))
    for a, b in zip(jax.tree.leaves(both.agent.learner), jax.tree.leaves(one.agent.learner), strict=True):
        np.testing.assert_allclose(a[:, 1:], b, rtol=1e-4, atol=1e-5)


def test_episodes_of_a_policy_are_those_of_the_compiled_environment(tmp_path):
    train(quick_job(), tmp_path / "run")
    environment = host_stairs(2)
    agent = safedsr.load(tmp_path / "run", environment=environment)
    inside = make_stairs(2)
    twin = agent.changed(
        job=dataclasses.replace(agent.job, environment=inside, tasks=(stairs_task(2),)), task=stairs_task(2)
    )
    for epsilon in (0.0, 0.5):
        on_host, compiled = (run_episodes(one, one.task, 40, epsilon) for one in (agent, twin))
        for one, other in zip(on_host, compiled, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


def test_all_copies_learn_together(tmp_path):
    job = quick_job(copies=5, steps=1000)
    train(job, tmp_path / "run")
    agent = safedsr.load(tmp_path / "run", environment=job.environment)
    assert evaluate(agent, episodes=8).goal_rate.value == 1.0
    run = load_run(tmp_path / "run")
    lengths = [episodes.length.sum() for episodes in run.by_seed()]
    assert all(1000 - 5 * 30 <= total <= 1000 for total in lengths)  # all but the running episodes


def test_resume_starts_new_episodes_and_says_so(tmp_path):
    train(quick_job(), tmp_path / "run")
    resume(tmp_path / "run", {"steps": 2 * STEPS}, environment=host_stairs(2))
    run = load_run(tmp_path / "run")
    assert run.manifest[RESTARTS] == [STEPS]
    assert max(run.episodes["end_step"]) > STEPS


def test_new_parameters_of_costs_hold_from_the_resume_on(tmp_path):
    train(quick_job(), tmp_path / "run")
    resume(tmp_path / "run", {"steps": 2 * STEPS}, environment=host_stairs(2), cost_args={"stair": 9})
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["tasks"][0]["params"]["args"]["stair"] == 9
    run = load_run(tmp_path / "run")
    late = run.episodes["end_step"] > STEPS + 30
    assert run.episodes["cost_0"][~late].max() > 0
    assert run.episodes["cost_0"][late].max() == 0


def test_stored_steps_get_new_costs_also_if_the_first_resume_ended_before_its_first_checkpoint(tmp_path):
    train(host_job("safedsr-plus", seeds=(0,)), tmp_path / "run")
    new = {"environment": host_stairs(2), "cost_args": {"stair": 9}}
    before = (tmp_path / "run/manifest.json").read_text()
    with pytest.raises(UserError, match="has 500 steps already"):
        resume(tmp_path / "run", {"steps": STEPS - 100}, **new)
    assert (tmp_path / "run/manifest.json").read_text() == before
    resume(tmp_path / "run", **new)  # nothing is left to train
    resume(tmp_path / "run", {"steps": STEPS + 50}, **new)
    agent = safedsr.load(tmp_path / "run", environment=host_stairs(2))
    assert agent.experience
    steps = agent.experience.steps
    assert np.asarray(steps.obs)[:, 0].max() > 0 and not np.asarray(steps.cost)[:, 0].any()
    assert agent.experience.longest == max(load_run(tmp_path / "run").episodes["length"])


def test_the_meaning_of_success_stays_in_a_run(tmp_path):
    def there(obs, action, next_obs, reward, info, goal=0.5):
        return next_obs[0] > goal

    made = from_gymnasium(Climber, cost=slippery, success=there)
    job = Job("safedqn", (make_task(made, 100),), (0,), settings_of("safedqn"), made, TrainConfig(steps=STEPS))
    train(job, tmp_path / "run")
    more = {"changes": {"steps": 2 * STEPS}, "environment": made}
    with pytest.raises(UserError, match="'goal' is a parameter of the function of success"):
        resume(tmp_path / "run", **more, cost_args={"goal": 0.9})
    resume(tmp_path / "run", **more, cost_args={"goal": 0.5})  # as it was


def test_new_costs_of_stored_steps_are_checked_before_anything_is_written(tmp_path):
    def priced(obs, action, next_obs, reward, info, price=1.0):
        return price

    made = from_gymnasium(Climber, cost=priced)
    job = Job("safedqn", (make_task(made, 100),), (0,), settings_of("safedqn"), made, TrainConfig(steps=STEPS))
    train(job, tmp_path / "run")
    before = {name: (tmp_path / "run" / name).read_text() for name in ("manifest.json", "config.json")}
    with pytest.raises(UserError, match="some of the costs are negative or not finite"):
        resume(tmp_path / "run", {"steps": 2 * STEPS}, environment=made, cost_args={"price": -1.0})
    assert before == {name: (tmp_path / "run" / name).read_text() for name in before}


@pytest.mark.parametrize("how", ["raise", *(pytest.param(how, marks=pytest.mark.slow) for how in ("obs", "cost"))])
def test_a_failing_environment_stops_with_its_words_the_step_and_the_checkpoint(tmp_path, how):
    made = from_gymnasium(lambda: Climber(fails=250, how=how, limit=30), name="stairs", cost="cost")
    agent = dataclasses.replace(settings_of("safedqn"), epsilon=safedsr.EpsilonSchedule(0.0, 0.0, 0, 0))
    train_settings = TrainConfig(steps=5000, copies=1, chunk=100, checkpoint_seconds=0)
    job = Job("safedqn", (make_task(made, 5),), (0,), agent, made, train_settings)
    words = {"raise": "the stairs are closed", "obs": "not finite", "cost": "the cost -1"}[how]
    with pytest.raises(EnvironmentFailed, match=rf"{words}.*\(at step 249\).*checkpoint is of step 200"):
        train(job, tmp_path / "run")


def test_an_environment_without_bounds_is_scaled_by_its_first_steps(tmp_path):
    environment = from_gymnasium(Purse, reward=0, cost_entries=["-1"])
    agent = safedsr.train(
        "safedqn",
        environment,
        budget=5,
        out=tmp_path / "run",
        steps=400,
        train_start=200,
        sync_every=50,
        epsilon_from=0,
        epsilon_to=200,
        penalty_start=200,
    )
    scale = agent.policy.scale
    assert int(scale.count) == 200
    np.testing.assert_allclose(scale.mean[5:], 10, atol=1)
    deviation = np.sqrt(np.asarray(scale.squares)[5:] / 199)
    np.testing.assert_allclose(deviation, 3, atol=0.7)
    again = safedsr.load(tmp_path / "run", environment=environment)
    assert same_trees(agent.policy, again.policy)


def test_copies_divide_a_block():
    job = quick_job()
    assert copies_of(job, 10) == 5 and copies_of(job, 250) == 5 and copies_of(job, 7) == 7
    with pytest.raises(UserError, match="give one of 1, 2, 5, 10"):
        copies_of(quick_job(copies=3), 10)


def test_processes_are_for_slow_environments():
    host = quick_job().environment.host
    assert host
    assert processes_for(host, None, 8) == 0
    assert processes_for(host, 3, 8) == 2  # the largest number that divides the copies
    host.seconds = 0.1
    assert processes_for(host, None, 8) >= 1
    assert processes_for(host, 0, 8) == 0


def test_a_new_budget_needs_no_new_costs_where_they_come_from_info(tmp_path):
    environment = from_gymnasium(Climber, cost="cost")
    agent = settings_of("safedsr-plus")
    job = Job("safedsr-plus", (make_task(environment, 5),), (0,), agent, environment, TrainConfig(steps=STEPS))
    train(job, tmp_path / "run")
    known = safedsr.load(tmp_path / "run", environment=environment)
    spend = ClimbConfig(updates=20)
    few = CertificateConfig(episodes=8)
    found = adapt(known, None, "memory", budget=2, certificate=few, spend=spend, from_memory=True)
    assert found.agent.task.budgets == (2.0,) and found.rungs[0].real_steps == 0
    with pytest.raises(UserError, match="uses 'info'"):
        adapt(known, make_task(environment, 2)._replace(params={"price": jnp.ones(())}), "memory", spend=spend)
