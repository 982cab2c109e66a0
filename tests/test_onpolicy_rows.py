from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import same_trees

from safedsr.config import GridConfig
from safedsr.errors import UserError
from safedsr.layout import Layout, stack_layouts
from safedsr.maptext import parse_scene
from safedsr.onpolicy.baselines import BASELINES, Baseline, State, make_baseline
from safedsr.onpolicy.config import OnPolicyConfig
from safedsr.onpolicy.controllers import lagrangian
from safedsr.onpolicy.steps import natural
from safedsr.types import Record

pytestmark = pytest.mark.usefixtures("compile_quickly")

CONFIG = OnPolicyConfig(steps_per_epoch=200, hidden=(8,), batch_size=32, update_iters=2, target_kl=0.01)
GRID = GridConfig(time_limit=1000)  # longer than an epoch: only the goal ends an episode
BUDGET = 1.0
KEY = jax.random.key(0)
UNCONSTRAINED = ("pg", "ppo", "npg", "trpo")  # nothing but pieces of the others: not worth the time to compile
CONSTRAINED = [name for name in BASELINES if name not in UNCONSTRAINED]
TWO_COSTS = parse_scene("SABG\n\nA = fire 1\nB = water 1").layout


def free(layout: Layout) -> Layout:
    return layout._replace(costs=np.zeros_like(layout.costs))


NEAR = parse_scene("SCCG").layout
FAR = parse_scene("SC" + "." * 60 + "G").layout  # no walk of an epoch gets there
COSTLY, FREE, ENDLESS = 0, 1, 2
LAYOUTS = stack_layouts([NEAR, free(NEAR), FAR])


def two_epochs(name: str) -> Callable[..., Any]:
    trainer = make_baseline(CONFIG, GRID, name)

    def one(key: jax.Array, layout: Layout) -> Any:
        state = trainer.init(key, layout)
        aim = jnp.full(len(layout.costs), BUDGET)
        return trainer.advance(state, layout, aim, jnp.int32(0), phase="learn", periods=2)

    return one


@cache
def trained(name: str) -> tuple[State, Record, dict]:
    """A row's state, records and logs after two epochs on each of the maps, from the same key."""
    return jax.jit(jax.vmap(two_epochs(name), (None, 0)))(KEY, LAYOUTS)


def on(layout: int, tree: Any) -> Any:
    return jax.tree.map(lambda x: np.asarray(x[layout]), tree)


def actor(state: State, layout: int) -> list[np.ndarray]:
    return jax.tree.leaves(on(layout, state.learner.nets.actor))


def is_finite(tree: Any) -> bool:
    numbers = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return all(bool(jnp.isfinite(leaf).all()) for leaf in numbers)


@pytest.mark.parametrize("name", CONSTRAINED)
def test_every_row_trains_on_costs_without_costs_and_without_an_end(name):
    state, records, logs = trained(name)
    assert records.done.shape == (3, 400)
    assert records.reached[COSTLY].any()
    assert records.cost[COSTLY].max() > 0
    assert not records.done[ENDLESS].any()
    assert is_finite((state, logs))
    np.testing.assert_array_equal(state.window.count, records.done.sum(1))
    np.testing.assert_array_equal(logs["mean_cost"][np.array([FREE, ENDLESS])], [0, BUDGET])


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
    (state, records, _), (other, other_records, _) = trained(name), trained(same)
    assert same_trees(on(FREE, records), on(FREE, other_records))
    for a, b in zip(actor(state, FREE), actor(other, FREE), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", CONSTRAINED)
def test_costs_change_what_is_learnt(name):
    state, _, _ = trained(name)
    pairs = zip(actor(state, COSTLY), actor(state, FREE), strict=True)
    assert not all(np.allclose(a, b, atol=1e-6, rtol=0) for a, b in pairs)


def shapes(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


@pytest.mark.parametrize("name", BASELINES)
def test_the_state_keeps_its_shapes_and_types(name):
    trainer = make_baseline(CONFIG, GRID, name)
    before = jax.eval_shape(trainer.init, jax.random.key(0), NEAR)
    advance = partial(trainer.advance, phase="learn", periods=1)
    after, _, _ = jax.eval_shape(advance, before, NEAR, jnp.ones(1), jnp.int32(0))
    assert shapes(after) == shapes(before)


@pytest.mark.parametrize("name", ["cpo", "pcpo"])
def test_rows_for_one_cost_refuse_two(name):
    with pytest.raises(UserError, match=f"{name} takes one cost and this environment has 2"):
        make_baseline(CONFIG, GRID, name).init(jax.random.key(0), TWO_COSTS)


def test_trpo_lag_takes_two_costs():
    state, records, _ = jax.eval_shape(two_epochs("trpo-lag"), KEY, TWO_COSTS)
    assert records.cost.shape == (400, 2)
    assert state.controller[0].shape == (2,)


def test_another_row_trains(monkeypatch):
    monkeypatch.setitem(BASELINES, "new", Baseline(lagrangian, step=natural))
    assert same_trees(trained("new")[1], trained("rcpo")[1])  # it is RCPO under another name
