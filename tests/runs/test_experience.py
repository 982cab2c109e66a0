import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import KDTree
from tiny import linear, same_trees

from safedsr.adapt.costs import experience_of
from safedsr.adapt.diagnostics import visits
from safedsr.agent import load, load_all
from safedsr.core.replay import Codec
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid, relabel
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError
from safedsr.runs import experience as memory
from safedsr.runs import storage
from safedsr.runs.experience import Experience, from_rows, make_experience, relabelled, spread
from safedsr.types import JOINED, Transition

pytestmark = pytest.mark.usefixtures("compile_quickly")
PHI = linear(np.eye(6), np.zeros(6))  # φ is (s, a) itself, scaled to length 1
MAP = load_scene("three-rooms", "diamond").layout
GRID, CODEC = make_grid(GridConfig(), 1), Codec(2, 1)


def features(obs, action):
    """φ of many steps."""
    known = jax.vmap(PHI.features)(jnp.asarray(obs), jnp.asarray(action, jnp.int32))
    return np.asarray(known, np.float64)


def remember(rows, filled=None) -> Experience:
    """What is kept of rows; all of them, if it is not said which are filled."""
    filled = np.ones(len(rows), bool) if filled is None else filled
    return make_experience(from_rows(rows, filled, CODEC), features, GRID, MAP)


def walk(count, layout=MAP, seed=0):
    """Rows of steps from anywhere on the map, each to a place less than a cell away."""
    rng = np.random.default_rng(seed)
    height, width = layout.walls.shape
    pos = rng.uniform((0.5, 0.5), (width - 0.5, height - 0.5), (count, 2)).astype(np.float32)
    after = (pos + rng.uniform(-0.49, 0.49, (count, 2))).astype(np.float32)
    terminated = rng.random(count) < 0.1
    t = Transition(
        obs=jnp.asarray(pos / layout.scale),
        action=jnp.asarray(rng.integers(4, size=count)),
        reward=jnp.asarray(-0.01 + terminated, jnp.float32),
        cost=jnp.zeros((count, 1)),
        next_obs=jnp.asarray(after / layout.scale),
        terminated=jnp.asarray(terminated, jnp.float32),
    )
    return np.array(CODEC.pack(t))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 60))
def test_every_prefix_takes_as_equally_as_it_can(strata, size):
    strata = np.array(strata)
    order = spread(strata)
    assert sorted(order) == list(range(len(strata)))
    taken = np.bincount(strata[order[:size]], minlength=6)
    there = np.bincount(strata, minlength=6)
    short = taken < there  # of these there would have been more
    assert not short.any() or taken.max() <= taken[short].min() + 1


def test_every_step_is_kept_as_it_was():
    rows = walk(3000)
    found, t = remember(rows).steps, CODEC.unpack(jnp.asarray(rows))
    _, order = KDTree(np.asarray(t.obs)).query(found.obs)  # which row it was
    assert set(np.asarray(order)) == set(range(3000))
    for name in (name for name in Transition._fields if name != "extra"):  # the grid has none
        before, after = np.asarray(getattr(t, name))[order], getattr(found, name)
        assert isinstance(after, np.ndarray) and after.dtype == before.dtype
        np.testing.assert_array_equal(after, before, err_msg=name)


def test_steps_are_kept_once_and_empty_slots_never():
    rows, filled = walk(50), np.repeat([True, False, True], [50, 30, 20])
    kept = remember(np.concatenate([rows, np.zeros((30, 8), np.float32), rows[:20]]), filled)
    assert len(kept.steps.action) == kept.fitted == 50


def test_a_step_into_the_next_episode_is_no_step():
    rows = walk(3)
    rows[:, 4] = [0, JOINED, 1]
    rows[1:, 5:7] = 0.5 / MAP.scale  # the start, far from where they were
    kept = remember(rows)
    assert len(kept.steps.action) == 2 and kept.steps.terminated.sum() == 1
    # At the goal it is a step: its cost is the goal's, wherever the next episode starts.
    dear = MAP._replace(costs=np.zeros((1, 11, 31), np.float32))
    dear.costs[0, MAP.goal[1], MAP.goal[0]] = 7
    found = relabelled(kept, GRID, dear)
    np.testing.assert_array_equal(found.cost[:, 0], 7 * np.asarray(found.terminated))


def test_most_and_fit_steps(monkeypatch):
    monkeypatch.setattr(memory, "MOST_STEPS", 40)
    monkeypatch.setattr(memory, "FIT_STEPS", 25)
    kept = remember(walk(100))
    t = relabelled(kept, GRID, MAP, 25)
    assert len(kept.steps.action) == 40 and len(t.obs) == kept.fitted == 25
    pairs = np.hstack([t.obs, np.eye(4)[np.asarray(t.action)]])
    phi = pairs / np.linalg.norm(pairs, axis=1, keepdims=True)
    np.testing.assert_allclose(kept.gram, phi.T @ phi, rtol=1e-5, atol=1e-5)
    assert kept.gram.dtype == np.float64


def test_a_thinned_memory_says_so(monkeypatch, tmp_path):
    memory.write_experiences(tmp_path, {(0, 0): remember(walk(100))})
    assert memory.thinned(tmp_path) is None
    monkeypatch.setattr(memory, "MOST_STEPS", 40)
    kept = remember(walk(100))
    memory.write_experiences(tmp_path, {(0, 0): kept})
    assert f"it holds 40 of up to {kept.different} different steps" in str(memory.thinned(tmp_path))
    assert memory.thinned(tmp_path / "elsewhere") is None


def test_costs_are_those_of_the_cell_a_step_ends_in():
    layout = parse_scene("SA.\nB.G\n\nA = fire 2\nB = fire 3, water 1").layout
    t = Transition(
        obs=jnp.array([0.4, 0.2]),
        action=jnp.int32(3),
        reward=jnp.float32(0),
        cost=jnp.zeros(2),
        next_obs=jnp.array([1.1, 0.6]) / 3,
        terminated=jnp.float32(0),
    )
    np.testing.assert_array_equal(relabel(t, layout).cost, [2, 0])
    np.testing.assert_array_equal(relabel(t._replace(next_obs=jnp.array([0.9, 1.3]) / 3), layout).cost, [3, 1])


def test_visits_are_counted_by_cell():
    rows = walk(500)
    expected = np.zeros((11, 31), int)
    for x, y in np.asarray(CODEC.unpack(jnp.asarray(rows)).obs) * MAP.scale:
        expected[int(y), int(x)] += 1
    np.testing.assert_array_equal(visits(remember(rows), MAP), expected)


def test_a_training_leaves_the_experience_of_every_policy(trained):
    folder = trained("safedsr")
    everyone = load_all(folder)
    kept = [experience_of(agent).steps for agent in everyone.values()]
    assert len(kept) == 2 and not np.array_equal(kept[0].obs[:10], kept[1].obs[:10])
    for (environment, seed), agent in everyone.items():
        alone = experience_of(load(folder, seed, environment))
        assert same_trees(experience_of(agent), alone)
        t = relabelled(alone, agent.environment, agent.task.params)
        moved = np.asarray(t.next_obs - t.obs) * 3
        assert len(t.obs) >= 20 and (np.abs(moved).max(1) < 1).all() and (moved[np.asarray(t.action) == 2] <= 0).all()
        np.testing.assert_array_equal(t.terminated == 1, np.floor(np.asarray(t.next_obs)[:, 0] * 3) == 2)
    assert load(trained("safedqn")).experience is None and not (trained("safedqn") / memory.FILE).exists()


def test_a_damaged_experience_is_noticed(trained, tmp_path):
    for path in trained("safedsr").glob("policy.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert load(tmp_path).experience is None
    storage.write_tensors(tmp_path / memory.FILE, {"0/0/place": np.zeros(3)}, {"memory": "0"})
    with pytest.raises(UserError, match=r"memory.safetensors was not written by this version .* delete it to use"):
        load(tmp_path)
    (tmp_path / memory.FILE).write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"memory.safetensors is damaged"):
        load(tmp_path)


def test_features_are_those_of_the_agent(trained):
    agent = load(trained("safedsr"))
    kept = experience_of(agent)
    known = agent.features(kept.steps.obs, kept.steps.action)
    np.testing.assert_allclose((known**2).sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(kept.gram, known.T @ known, rtol=1e-6, atol=1e-6)
    assert known.shape == (kept.fitted, 6) and kept.fitted == len(kept.steps.action)
