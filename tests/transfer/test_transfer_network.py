"""SafeDSR-plus with its network in tasks in a row: what it is told at the start of a task, its runs and its rows."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from safedsr.cli import main
from safedsr.cli import transfer as command
from safedsr.core import replay, units
from safedsr.envs.twins.four_room import Rewards, event, make_four_room, read_map, worth
from safedsr.errors import UserError
from safedsr.transfer import arms, network
from safedsr.transfer import tasks as sets
from safedsr.transfer.config import NetworkConfig
from safedsr.transfer.run import run_arm
from safedsr.transfer.summary import read_courses, summary_rows

pytestmark = pytest.mark.usefixtures("compile_quickly")
TRIALS, STEPS, TASKS = (1, 2), 1000, 2
CONFIG = NetworkConfig(steps=STEPS, batch_size=16, update_steps=1, octaves=0, buffer_size=2000)


@pytest.fixture(scope="module")
def given():
    return np.stack([sets.generated(trial, TASKS, number=7) for trial in TRIALS])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A small network agent under the same name."""
    monkeypatch.setitem(arms.ARMS, "network", CONFIG)


def go_on(folder, tasks, **more):
    return run_arm("network", tasks, TRIALS, folder, steps=STEPS, say=lambda text: None, **more)


@pytest.fixture(scope="module")
def kit():
    return network.Kit(CONFIG, make_four_room(arms.EPISODE))


@pytest.fixture(scope="module")
def learnt(given, kit):
    """Two agents that have learnt the first task."""
    lanes = network.init_trials(jnp.asarray(TRIALS), kit)
    return network.run_trials(lanes, Rewards(jnp.asarray(given[:, 0])), kit)[0]


@pytest.fixture(scope="module")
def told(learnt, given, kit):
    """The second of them at the start of its second task: what it was, what it is, and the rewards."""
    before = jax.tree.map(lambda x: x[1], learnt)
    rewards = Rewards(jnp.asarray(given[1, 1]))
    return before, jax.jit(lambda lane, rewards: network.begin(lane, rewards, kit))(before, rewards), rewards


def test_the_memory_has_exactly_the_rewards_of_the_new_task(told, kit):
    before, after, rewards = told
    codec, plan = kit.environment.spec.codec, read_map()
    reservoir, filled = after.agent.reservoir, replay.filled_slots(after.agent.reservoir)
    was = [before.agent.ring[:STEPS], before.agent.reservoir.rows[filled]]
    now = [after.agent.ring[:STEPS], reservoir.rows[filled]]
    for old, new in zip(map(codec.unpack, was), map(codec.unpack, now), strict=True):
        events = jax.vmap(lambda obs: event(obs, plan))(new.next_obs)
        assert np.array_equal(new.reward, worth(rewards)[events])
        assert {1, 2, 3} & set(events.tolist()) and not np.array_equal(new.reward, old.reward)
        assert jax.tree.all(
            jax.tree.map(np.array_equal, old._replace(reward=new.reward), new)
        )  # nothing else has changed
    assert np.array_equal(reservoir.seen, before.agent.reservoir.seen)


def test_the_row_q_starts_as_the_codes_say_and_the_row_k_stays(told, kit):
    before, after, rewards = told
    old, new, codes = before.agent.learner, after.agent.learner, len(worth(rewards))
    unit = units.units(after.agent.signals, kit.aim).reward
    for x, y in zip(jax.tree.leaves(old.successor.last), jax.tree.leaves(new.successor.last), strict=True):
        assert np.array_equal(x[:codes], y[:codes]) and np.abs(x[:codes]).max() > 0
        assert np.allclose(unit * y[codes], jnp.tensordot(worth(rewards), x[:codes], 1), atol=1e-6)
        assert np.allclose(y[codes + 1], x[codes + 1], atol=1e-6) and not np.allclose(x[codes], y[codes])
    assert jax.tree.all(jax.tree.map(np.array_equal, new.target, new.successor))
    assert float(new.weights.w_r[codes]) == pytest.approx(float(unit)) and (new.weights.w_r != 0).sum() == 1


def test_the_episode_without_random_actions_changes_nothing(learnt, given, kit, monkeypatch):
    second = Rewards(jnp.asarray(given[:, 1]))
    plain = jax.tree.map(jnp.copy, learnt)
    with_it, report = network.run_trials(jax.tree.map(jnp.copy, learnt), second, kit)
    assert (report.greedy_steps > 0).all() and (report.greedy_steps <= arms.EPISODE).all()
    monkeypatch.setattr(network, "greedy_trials", lambda lanes, params, kit: np.zeros((len(TRIALS), 4)))
    without, other = network.run_trials(plain, second, kit)
    assert jax.tree.all(jax.tree.map(same, with_it, without)) and np.array_equal(report.reward, other.reward)


def same(x, y):
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x, y = jax.random.key_data(x), jax.random.key_data(y)
    return np.array_equal(x, y)


@pytest.fixture
def ends(monkeypatch):
    """The states after each task that is learnt."""
    found, real = [], network.run_trials

    def watched(lanes, params, kit):
        lanes, report = real(lanes, params, kit)
        found.append(jax.tree.map(jnp.copy, lanes))  # the next task takes the arrays
        return lanes, report

    monkeypatch.setattr(network, "run_trials", watched)
    return found


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened_and_the_summary_reads_it(given, ends, tmp_path):
    def plain(rows):
        return [{name: str(value) for name, value in row.items() if name != "seconds"} for row in rows]

    straight = go_on(tmp_path / "straight", given)
    for _ in range(TASKS):
        rows = go_on(tmp_path / "halted", given, until=time.time() - 1)
    assert plain(rows) == plain(straight) and len(rows) == TASKS * len(TRIALS)
    assert jax.tree.all(jax.tree.map(same, ends[TASKS - 1], ends[-1])) and len(ends) == 2 * TASKS
    assert rows[-1]["states"] == 2000 and any(row["reward"] for row in rows)
    (course,) = read_courses([tmp_path / "straight"])
    assert summary_rows([course])[0][:2] == ("ours, network, same knowledge", f"{len(TRIALS)} × {TASKS}")
    assert course.shapes is not None and np.allclose(course.shapes, given, atol=1e-4)


def test_the_command_runs_it_where_it_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "QUICK_STEPS", STEPS)  # those that are compiled already
    args = ["--quick", "--agents", "network", "--tasks", "1", "--trials", "2", "--out", str(tmp_path)]
    assert main(["reproduce", "transfer", *args]) == 0
    assert "ours, network, same knowledge" in capsys.readouterr().out
    assert "network" not in arms.TABLES  # a run of all agents is a run of those with tables


def test_settings_fit_parts_of_a_task():
    for steps in (1500, 250):
        with pytest.raises(UserError, match="steps"):
            NetworkConfig(steps=steps)
    assert NetworkConfig().agent.plan_epsilon == NetworkConfig().epsilon
