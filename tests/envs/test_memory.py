"""Walks through memory, beside SciPy's search for neighbours and beside the environment that the memory is of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

from safedsr.envs.environment import Spec
from safedsr.envs.grid import physics
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid, random_steps
from safedsr.envs.memory import memory_environment, nearest, remembered
from safedsr.errors import UserError
from safedsr.types import Transition

pytestmark = pytest.mark.usefixtures("compile_quickly")
ACTIONS = 3


def some_steps(count, size, seed=0):
    """Random transitions; the reward is the number of the transition."""
    rng = np.random.default_rng(seed)
    obs, after = rng.normal(size=(2, count, size)).astype(np.float32)
    arrays = dict(
        obs=obs * 10 ** rng.uniform(-2, 2, size).astype(np.float32),
        action=rng.integers(ACTIONS, size=count),
        reward=np.arange(count, dtype=np.float32),
        cost=np.zeros((count, 1), np.float32),
        next_obs=after,
        terminated=np.zeros(count, np.float32),
        success=np.zeros(count, np.float32),
        first=(np.arange(count) < 5).astype(np.float32),
    )
    return Transition(**arrays)  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "size"), [(5000, 2), (700, 4), (40, 1)])
def test_the_nearest_transition_is_the_one_that_scipy_finds(count, size):
    """Only some leaves are searched: almost always this finds the nearest, and never one that is much farther."""
    steps = some_steps(count, size)
    memory = remembered(steps, ACTIONS)
    points = (steps.obs - np.asarray(memory.origin)) / np.asarray(memory.span)
    asked = np.asarray(points[np.random.default_rng(1).integers(count, size=300)]) + 0.01
    same, worst = 0, 1.0
    for action in range(ACTIONS):
        own = np.flatnonzero(steps.action == action)
        distances, found = KDTree(points[own]).query(asked)
        leaf, place = jax.vmap(lambda here, action=action: nearest(memory, here, jnp.int32(action)))(jnp.asarray(asked))
        mine = np.asarray(memory.then.reward)[action, leaf, place].astype(int)
        same += int((mine == own[found]).sum())
        worst = max(worst, float((np.linalg.norm(points[mine] - asked, axis=1) / distances).max()))
    assert same >= 0.97 * 3 * 300 and worst < 3


def test_a_walk_goes_where_the_environment_goes():
    """With a dense memory of the grid, one step in memory ends where a true step ends, up to the distance of rows."""
    layout, config = load_scene("one-room", "diamond").layout, GridConfig()
    steps = random_steps(jax.random.key(0), layout, 40_000, config)
    flags = {"success": steps.terminated, "first": jnp.zeros(40_000).at[:9].set(1.0)}
    memory = remembered(jax.tree.map(np.asarray, steps._replace(**flags)), 4)
    walk, true = memory_environment(make_grid(config, 1).spec), make_grid(config, 1)
    asked = jax.tree.map(lambda x: x[:200], random_steps(jax.random.key(1), layout, 200, config))

    def both(key, obs, action):
        state = physics.GridState(obs * layout.scale)
        return walk.step(key, obs, action, memory)[1], true.step(key, state, action, layout)[1]

    mine, theirs = jax.vmap(both)(jax.random.split(jax.random.key(2), 200), asked.obs, asked.action)
    apart = np.linalg.norm(np.asarray(mine.obs - theirs.obs) * float(layout.scale), axis=1)
    assert np.median(apart) < 0.2 and np.mean(mine.terminated == theirs.terminated) > 0.98
    assert np.mean(np.asarray(mine.cost == theirs.cost)) > 0.9
    starts = {tuple(np.asarray(walk.reset(key, memory)[1])) for key in jax.random.split(jax.random.key(3), 50)}
    assert starts <= {tuple(row) for row in np.asarray(steps.obs[:9])} and len(starts) > 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": ()}, "does not say where episodes start"),
        ({"first": np.zeros(50, np.float32)}, "does not say where episodes start"),
        ({"action": np.zeros(50, int)}, "no step with action 1"),
    ],
)
def test_a_memory_that_no_walk_can_use(change, message):
    with pytest.raises(UserError, match=message):
        remembered(some_steps(50, 2)._replace(**change), ACTIONS)


def chain(count, noise, seed=0):
    """Moves along a line by 0.1, to the left or to the right, with a counter of 0, 1, 2 that the action 2 raises."""
    rng = np.random.default_rng(seed)
    place, number = rng.random(count), rng.integers(3, size=count)
    action = rng.integers(ACTIONS, size=count)
    step = np.array([-0.1, 0.1, 0.0])[action] + noise * rng.normal(size=count) * (action < 2)
    after = np.column_stack([place + step, np.minimum(number + (action == 2), 2)])
    steps = some_steps(count, 2)._replace(obs=np.column_stack([place, number]).astype(np.float32), action=action)
    return steps._replace(next_obs=after.astype(np.float32))


def walked(memory, actions, start, walks=64):
    """The observations after each action, of several walks."""
    step = jax.jit(memory_environment(Spec(2, ACTIONS, 1)).step)
    found = []
    for n in range(walks):
        obs, path = jnp.asarray(start), []
        for key, action in zip(jax.random.split(jax.random.key(n), len(actions)), actions, strict=True):
            obs = step(key, obs, jnp.int32(action), memory)[1].obs
            path.append(np.asarray(obs))
        found.append(path)
    return np.asarray(found)


def test_in_a_deterministic_environment_walks_make_remembered_moves():
    """A thin memory: going to remembered states would be wrong by half a distance of two of them in every step."""
    memory = remembered(chain(90, 0.0), ACTIONS)
    assert float(memory.noise) == pytest.approx(0, abs=1e-6)
    path = walked(memory, [1, 1, 0, 1, 1, 2, 0, 1, 2, 1], (0.2, 0.0), walks=3)
    np.testing.assert_allclose(path[:, :, 0], [[0.3, 0.4, 0.3, 0.4, 0.5, 0.5, 0.4, 0.5, 0.5, 0.6]] * 3, atol=1e-4)
    np.testing.assert_array_equal(path[:, :, 1], [[0, 0, 0, 0, 0, 1, 1, 1, 2, 2]] * 3)
    snapping = walked(memory._replace(moves=jnp.zeros_like(memory.moves)), [1, 1, 0, 1], (0.2, 0.0), walks=1)
    assert np.abs(snapping[0, -1, 0] - 0.4) > 0.005


def corridor(slips=False):
    """All steps in a corridor of six places, one-hot: action 1 goes on, 2 goes back, 0 stays."""
    place, action = (x.ravel() for x in np.meshgrid(np.arange(6), np.arange(ACTIONS), indexing="ij"))
    after = np.clip(place + np.array([0, 1, -1])[action], 0, 5)
    if slips:
        place, action, after = np.append(place, 2), np.append(action, 1), np.append(after, 2)
    one_hot, count = np.eye(6, dtype=np.float32), len(place)
    steps = some_steps(count, 6)._replace(obs=one_hot[place], action=action, next_obs=one_hot[after])
    return steps._replace(first=(place == 0).astype(np.float32))


@pytest.mark.parametrize("disturbed", [False, True])
def test_where_states_are_met_again_and_nothing_is_random_there_is_no_noise(disturbed):
    memory = remembered(corridor(), ACTIONS, disturbed=disturbed)
    assert float(memory.noise) == 0
    path = walked(memory, [1, 1, 2, 0, 1, 1], np.eye(6)[0], walks=4)
    assert path.argmax(-1).tolist() == [[1, 2, 1, 1, 2, 3]] * 4
    assert float(remembered(corridor(slips=True), ACTIONS, disturbed=disturbed).noise) > 0


def test_walks_are_as_long_as_the_spec_or_the_training_says():
    free, limited = Spec(2, ACTIONS, 1), Spec(2, ACTIONS, 1, time_limit=30)
    found = [memory_environment(*given).spec.time_limit for given in ((limited, 60), (free, 60), (free, 0))]
    assert found == [30, 60, 1000]


def test_where_steps_are_random_walks_are_as_random():
    memory = remembered(chain(6000, 0.02), ACTIONS)
    assert float(memory.noise) > 0
    ends = walked(memory, [1] * 5, (0.2, 1.0), walks=200)[:, -1]
    assert abs(ends[:, 0].mean() - 0.7) < 0.02 and 0.3 < ends[:, 0].std() / (0.02 * 5**0.5) < 1.5
    assert (ends[:, 1] == 1).all()


def test_disturbed_walks_differ_where_steps_are_not_random():
    """A step of 0.1 from places up to 0.3, and of 0.2 from there on: a disturbed walk near 0.3 takes either."""
    steps = chain(200, 0.0)
    right, far = np.asarray(steps.action) == 1, steps.obs[:, 0] > 0.3
    steps = steps._replace(next_obs=steps.next_obs + np.outer(right & far, [0.1, 0]).astype(np.float32))
    for disturbed, lengths in ((False, 1), (True, 2)):
        memory = remembered(steps, ACTIONS, disturbed=disturbed)
        moved = walked(memory, [1], (0.305, 0.0))[:, 0, 0] - 0.305
        assert len(np.unique(np.round(moved, 2))) == lengths


def test_walks_stay_within_what_was_seen():
    """The last step of the line is a wall in memory: what is remembered beyond it is nothing."""
    steps = chain(300, 0.0)
    steps = steps._replace(next_obs=np.clip(steps.next_obs, 0, (1, 2)).astype(np.float32))
    path = walked(remembered(steps, ACTIONS), [1] * 12 + [2] * 4, (0.3, 0.0), walks=2)
    np.testing.assert_allclose(path[:, -1], [[1.0, 2.0]] * 2, rtol=1e-6)
    assert path[..., 0].max() <= 1


def test_the_nearest_transition_has_the_same_discrete_values():
    """Transitions with another counter are nearer by their ranges; one with the same counter tells what happens."""
    steps = chain(400, 0.0)
    right = np.asarray(steps.action) == 1
    near, number = steps.obs[:, 0] < 0.75, steps.obs[:, 1]
    steps = jax.tree.map(lambda x: x[~(right & near & (number == 1))], steps._replace(extra=()))
    steps = steps._replace(reward=np.asarray(steps.obs[:, 1], np.float32))
    found = jax.jit(memory_environment(Spec(2, ACTIONS, 1)).step)(
        jax.random.key(0), jnp.array([0.1, 1.0]), jnp.int32(1), remembered(steps, ACTIONS)
    )[1]
    assert float(found.reward) == 1.0
