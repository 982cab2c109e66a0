from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import same_trees

from safedsr.agent import load
from safedsr.agents.onpolicy.baselines import BASELINES, Baseline, State, make_baseline
from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.agents.onpolicy.controllers import lagrangian
from safedsr.agents.onpolicy.steps import natural
from safedsr.agents.registry import ALGORITHMS
from safedsr.engine import loop
from safedsr.engine.evaluate import evaluate
from safedsr.engine.loop import Lane
from safedsr.engine.train import train
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import grid_task, make_grid
from safedsr.envs.grid.layout import Layout, stack_layouts
from safedsr.envs.grid.physics import ACTIONS
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import grid_job
from safedsr.types import Record

pytestmark = pytest.mark.usefixtures("compile_quickly")

CONFIG = OnPolicyConfig(
    steps_per_epoch=200,
    hidden=(16,),
    batch_size=32,
    update_iters=2,
    target_kl=0.05,
    kl_reduce="mean",
    gamma=0.9,
    actor_lr=1e-2,
    critic_lr=1e-2,
    decay_steps=0,
    critic_l2=0.0,
    window=20,
    lam_lr=2.0,
    pid_kp=1.0,
    pid_ki=0.5,
    barrier=0.5,
    barrier_max=20.0,
    distance=0.0,
    pcpo_first_term="x",
)
STILL = GridConfig(step_std=0.0, time_limit=1000)  # longer than two epochs: only the goal ends an episode
GRID = make_grid(STILL, 1)
KEY, SEED = jax.random.key(0), jnp.uint32(0)
UNCONSTRAINED = ("pg", "ppo", "npg", "trpo")
CONSTRAINED = [name for name in BASELINES if name not in UNCONSTRAINED]
TWO_COSTS = parse_scene("SABG\n\nA = fire 1\nB = water 1").layout


def free(layout: Layout) -> Layout:
    return layout._replace(costs=np.zeros_like(layout.costs))


NEAR = parse_scene("SCCG").layout
FAR = parse_scene("SC" + "." * 60 + "G").layout  # no walk of two epochs gets there
FORK = parse_scene("SCG\n...\n\nC = fire 3").layout  # two steps through the fire, or four around it
COSTLY, FREE, ENDLESS, SLACK, TIGHT = range(5)
LAYOUTS = stack_layouts([NEAR, free(NEAR), FAR, FORK, FORK])
BUDGETS = jnp.array([[1.0], [1.0], [1.0], [1000.0], [1.0]])
EPOCHS = 40


class Trained(NamedTuple):
    """A row on each of the maps, from the same key."""

    lane: Lane  # after two epochs
    records: Record
    logs: dict
    best: list[str]  # likeliest action at the start after all epochs


@cache
def trained(name: str) -> Trained:
    trainer = make_baseline(CONFIG, GRID, name)
    run = jax.jit(jax.vmap(partial(loop.advance, trainer, GRID, phase="learn", periods=2), (0, 0, 0, None)))
    lane = jax.vmap(partial(loop.init, trainer, GRID), (None, None, 0))(KEY, SEED, LAYOUTS)
    early, records, logs = run(lane, LAYOUTS, BUDGETS, jnp.int32(0))
    lane = early
    for epoch in range(2, EPOCHS, 2):
        lane, _, _ = run(lane, LAYOUTS, BUDGETS, jnp.int32(epoch * CONFIG.steps_per_epoch))
    starts = ((LAYOUTS.starts[:, 0] + 0.5) / LAYOUTS.scale[:, None]).astype(np.float32)
    scores = jax.vmap(trainer.values)(trainer.policy(lane.agent), starts).score
    return Trained(early, records, logs, [ACTIONS[action] for action in np.argmax(scores, -1)])


def on(layout: int, tree: Any) -> Any:
    return jax.tree.map(lambda x: np.asarray(x[layout]), tree)


def actor(state: State, layout: int) -> list[np.ndarray]:
    return jax.tree.leaves(on(layout, state.learner.nets.actor))


def is_finite(tree: Any) -> bool:
    numbers = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return all(bool(jnp.isfinite(leaf).all()) for leaf in numbers)


@pytest.mark.parametrize("name", BASELINES)
def test_every_row_trains_on_costs_without_costs_and_without_an_end(name):
    lane, records, logs, _ = trained(name)
    assert records.done.shape == (5, 400)
    assert records.success[COSTLY].any()
    assert records.cost[COSTLY].max() > 0
    assert not records.done[ENDLESS].any()
    assert is_finite((lane, logs))
    np.testing.assert_array_equal(lane.agent.walk.window.count, records.done.sum(1))
    np.testing.assert_array_equal(logs["mean_cost"][np.array([FREE, ENDLESS])], [0, 1])  # 1 is the budget


@pytest.mark.parametrize("name", BASELINES)
def test_every_row_takes_the_best_way_its_budget_allows(name):
    best = trained(name).best
    assert best[SLACK] == "right"
    assert best[TIGHT] == ("right" if name in UNCONSTRAINED else "down")


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("cpo", "oncrpo"),
        ("cpo", "trpo-lag"),
        ("cpo", "trpo-pid"),
        ("ppo-lag", "cppo-pid"),
        ("ppo-lag", "p3o"),
    ],
)
def test_rows_are_the_same_without_costs(name, same):
    one, other = trained(name), trained(same)
    assert same_trees(on(FREE, one.records), on(FREE, other.records))
    for a, b in zip(actor(one.lane.agent, FREE), actor(other.lane.agent, FREE), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", CONSTRAINED)
def test_costs_change_what_is_learnt(name):
    state = trained(name).lane.agent
    pairs = zip(actor(state, COSTLY), actor(state, FREE), strict=True)
    assert not all(np.allclose(a, b, atol=1e-6, rtol=0) for a, b in pairs)


def shapes(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


@pytest.mark.parametrize("name", BASELINES)
def test_the_state_keeps_its_shapes_and_types(name):
    trainer = make_baseline(CONFIG, GRID, name)
    before = jax.eval_shape(partial(loop.init, trainer, GRID), KEY, SEED, NEAR)
    advance = partial(loop.advance, trainer, GRID, phase="learn", periods=1)
    after, _, _ = jax.eval_shape(advance, before, NEAR, jnp.ones(1), jnp.int32(0))
    assert shapes(after) == shapes(before)


@pytest.mark.parametrize("name", ["cpo", "pcpo"])
def test_rows_for_one_cost_refuse_two(name):
    with pytest.raises(UserError, match=f"{name} takes one cost and this environment has 2"):
        make_baseline(CONFIG, make_grid(STILL, 2), name)


def test_a_map_without_any_cost_is_refused():
    with pytest.raises(UserError, match="ppo-lag needs a cost"):
        make_baseline(CONFIG, make_grid(STILL, 0), "ppo-lag")


def test_trpo_lag_takes_two_costs():
    both = make_grid(STILL, 2)
    trainer = make_baseline(replace(CONFIG, steps_per_epoch=400), both, "trpo-lag")
    run = jax.jit(partial(loop.advance, trainer, both, phase="learn", periods=1))
    start = loop.init(trainer, both, KEY, SEED, TWO_COSTS)
    lane, records, _ = run(start, TWO_COSTS, jnp.array([0.0, 1000.0]), jnp.int32(0))
    assert records.cost.shape == (400, 2)
    fire, water = lane.agent.controller[0]
    assert fire > CONFIG.lam_start > water  # only the first exceeds its budget


def learnt(name: str) -> Any:
    """Everything that a row has learnt on the map with costs."""
    state, records = trained(name).lane.agent, trained(name).records
    return on(COSTLY, (jax.tree.leaves(state.learner), jax.tree.leaves(state.controller), records))


def test_another_row_trains_as_its_parts_say(monkeypatch):
    """With RCPO's parts it is RCPO bit for bit; rows that differ in one of the two parts are other ones."""
    monkeypatch.setitem(BASELINES, "new", Baseline(lagrangian, step=natural))
    assert same_trees(learnt("new"), learnt("rcpo")) and trained("new").best == trained("rcpo").best
    for name in ("trpo-lag", "npg"):  # another step, another controller
        pairs = zip(*(actor(trained(row).lane.agent, COSTLY) for row in ("new", name)), strict=True)
        assert not any(np.array_equal(a, b) for a, b in pairs), name


def test_a_row_and_a_name_make_an_algorithm(monkeypatch, tmp_path):
    """As the README says: a row, settings, a name; then it is trained, loaded and evaluated like any other."""
    monkeypatch.setitem(BASELINES, "new", Baseline(lagrangian, step=natural))
    monkeypatch.setitem(ALGORITHMS, "new", ALGORITHMS["rcpo"]._replace(name="new"))
    folders = {}
    for name in ("new", "rcpo"):
        train_config = TrainConfig(steps=2 * CONFIG.steps_per_epoch, checkpoint_seconds=0)
        task = grid_task(parse_scene("SCG"), (1.0,))
        folders[name] = train(grid_job(name, (task,), (0,), CONFIG, STILL, train_config), tmp_path / name)
    new, rcpo = (load(folder) for folder in folders.values())
    assert new.job.algorithm == "new" and same_trees(new.policy, rcpo.policy)
    assert evaluate(new, episodes=20, epsilon=0.5) == evaluate(rcpo, episodes=20, epsilon=0.5)
