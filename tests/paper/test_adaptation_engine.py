"""The phases of the experiment with changing costs, and the change itself, at the smallest size."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import advance, same_trees, tiny_job, tiny_task

from safedsr.agents.value_based.trainer import EVALUATE, PENALTY
from safedsr.core.config import MultiplierConfig
from safedsr.core.replay import Codec
from safedsr.engine.program import Program
from safedsr.envs.grid import physics as grid
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import random_steps
from safedsr.envs.grid.text import parse_scene
from safedsr.paper.adaptation_engine import change_costs, fit_weights, staged, take_lanes
from safedsr.paper.adaptation_plan import OWN, Phase

pytestmark = pytest.mark.usefixtures("compile_quickly")

BEFORE, AFTER = ("SC..G", "S.C.G"), ("S..CG", "S.CCG", "SCCCG")
LANES = (0, 0, 1)
CODEC = Codec(2, 1)
PHASES = (
    Phase(1, "training", 0, "everything", OWN),
    Phase(2, "evaluation", 100, "nothing", EVALUATE),
    Phase(4, "penalty", 140, "λ", PENALTY),
    Phase(6, "successor", 180, "M", OWN),
)
SIGN: dict[str, Any] = {"multiplier": MultiplierConfig(rule="sign", penalty_start=60)}


@pytest.fixture(scope="module")
def program():
    return Program(tiny_job("safedsr", *BEFORE, freeze=20, **SIGN))


@pytest.fixture(scope="module")
def trained(program):
    state = program.init()
    for step in range(0, 100, 20):
        state, _, _ = program.advance(state, step, 20)
    return state


@pytest.fixture(scope="module")
def changed(trained):
    program = Program(tiny_job("safedsr", *AFTER, freeze=20, **SIGN))
    lanes = take_lanes(trained, LANES)
    after, seconds = change_costs(program, jax.tree.map(jnp.copy, lanes), updates=300)
    assert seconds > 0
    return program, lanes, after


def parts(lane):
    state = lane.agent
    return {"learner": state.learner, "ring": state.ring, "reservoir": state.reservoir}


def test_an_evaluation_changes_nothing_of_the_agent(program, trained):
    after, records, losses = advance(program, trained, 100, EVALUATE, periods=3)
    assert same_trees(parts(after), parts(trained)) and same_trees(after.agent.multiplier, trained.agent.multiplier)
    assert np.asarray(records.done).any() and np.isnan(losses["successor_loss"]).all()
    assert not np.array_equal(after.episode.state.pos, trained.episode.state.pos)
    one, other = (jax.random.key_data(lane.agent.key) for lane in (after, trained))
    assert not np.array_equal(one, other)


def test_learning_the_penalty_changes_lam_alone(program, trained):
    after, records, _ = advance(program, trained, 100, PENALTY, periods=3)
    assert same_trees(parts(after), parts(trained))
    done, cost = np.asarray(records.done), np.asarray(records.cost)[..., 0]
    for lane in np.ndindex(done.shape[:2]):
        lam = float(trained.agent.multiplier.lam[*lane, 0])
        for broken in cost[lane][done[lane]] > 1:
            lam = max(lam + (0.01 if broken else -0.01), 0)
        np.testing.assert_allclose(after.agent.multiplier.lam[*lane, 0], lam, atol=1e-6)
    assert not np.array_equal(after.agent.multiplier.lam, trained.agent.multiplier.lam)


def test_phases_follow_their_plan():
    staged_program = staged(tiny_job("safedsr", *BEFORE, steps=220, **SIGN), PHASES, walks=20)
    at = staged_program.trainer.phase_at
    assert [at(step) for step in (0, 20, 59, 60)] == [
        ("collect", 20),
        ("features", 60),
        ("features", 60),
        ("frozen", 100),
    ]
    assert [at(step) for step in (100, 139, 140, 180)] == [
        (EVALUATE, 140),
        (EVALUATE, 140),
        (PENALTY, 180),
        ("frozen", 220),
    ]
    assert [stop for stop in range(20, 240, 20) if staged_program.keeps(stop)] == [140]
    assert staged_program.trainer.memory and staged(staged_program.job, PHASES, remembers=False).trainer.memory is None


def test_no_action_is_random_in_greedy_spans(trained):
    job = tiny_job("safedsr", *BEFORE, freeze=20, steps=220, **SIGN)
    random, greedy = staged(job, PHASES), staged(job, PHASES, greedy=[(100, 120)])
    state, obs = jax.tree.map(lambda x: x[0, 0], trained.agent), jnp.array([0.1, 0.5])
    best = int(greedy.trainer.choose(state, obs, jnp.ones(2), jnp.int32(105)).action)
    luck = jnp.array([0.0, (0.5 + (best + 1) % 4) / 4])  # explore, with another action
    assert int(greedy.trainer.choose(state, obs, luck, jnp.int32(105)).action) == best
    for program, now in ((greedy, 120), (greedy, 99), (random, 105)):
        assert int(program.trainer.choose(state, obs, luck, jnp.int32(now)).action) == (best + 1) % 4


def test_lanes_go_on_as_they_are(trained):
    lanes = take_lanes(trained, LANES)
    for lane, source in enumerate(LANES):
        one, other = (jax.tree.map(lambda x, n=n: x[n], some) for n, some in ((lane, lanes), (source, trained)))
        assert same_trees(parts(one), parts(other)) and same_trees(one.episode, other.episode)
    assert lanes.agent.key.shape == (3, 2)


def test_memory_is_labelled_with_the_new_costs(changed):
    program, before, after = changed
    for lane, seed in np.ndindex(3, 2):
        costs = np.asarray(program.params.costs[lane, 0])
        for old, new in ((before.agent.ring, after.agent.ring),):
            old, new = CODEC.unpack(old[lane, seed]), CODEC.unpack(new[lane, seed])
            cells = np.where(new.terminated == 1, 4, np.floor(np.asarray(new.next_obs)[:, 0] * 5)).astype(int)
            assert np.array_equal(new.cost[:, 0], costs[0, cells])
            assert all(np.array_equal(a, b) for a, b in zip(old[:3], new[:3], strict=True))
    assert not np.array_equal(before.agent.ring, after.agent.ring)


def test_the_reservoir_has_the_bins_of_the_new_costs(changed):
    after = changed[2].agent
    _, bins, size, _ = after.reservoir.rows.shape[2:]
    for lane, seed in np.ndindex(3, 2):
        rows, seen = np.asarray(after.reservoir.rows[lane, seed, 1]), np.asarray(after.reservoir.seen[lane, seed, 1])
        for bin_, expected in ((0, 0.0), (bins - 1, 1.0)):
            kept = rows[bin_, : min(seen[bin_], size)]
            assert (CODEC.unpack(jnp.asarray(kept)).cost == expected).all() and kept[:, :2].any(1).all()
        assert seen[0] > 0 and seen[1:-1].sum() == 0
        assert seen.sum() == after.ring.shape[2] + rows.shape[0] * size * 2
    assert (np.asarray(after.reservoir.seen)[:, :, 1, -1] > 0).any()


def test_the_change_fits_weights_and_touches_nothing_else(changed):
    _, first, last = changed
    before, after = first.agent, last.agent
    for name in ("encoder", "successor", "target_phi", "target_successor", "successor_optimizer", "encoder_optimizer"):
        assert same_trees(getattr(before.learner, name), getattr(after.learner, name))
    assert same_trees(before.multiplier, after.multiplier) and same_trees(first.episode, last.episode)

    def error(learner):
        t = CODEC.unpack(after.ring)
        phi = jax.vmap(jax.vmap(jax.vmap(_features, (None, 0, 0)), (0, 0, 0)), (0, 0, 0))
        known = phi(after.learner.encoder.phi, t.obs, t.action)
        return np.mean((t.cost - jnp.einsum("lsjd,lsnd->lsnj", learner.weights.w_c, known)) ** 2, (1, 2, 3))

    assert (error(after.learner) < 0.8 * error(before.learner)).all()


def _features(phi, obs, action):
    from safedsr.agents.safedsr.equations import features

    return features(phi, obs, action)


def test_weights_can_be_fitted_to_past_experiences_alone(program, trained):
    """The ring is spoilt: only the reservoir has costs that features can tell."""
    state = take_lanes(trained, (0,)).agent
    state = jax.tree.map(lambda x: x[0, 0], state)
    spoilt = state._replace(ring=state.ring.at[:, -1].set(1000.0))
    fit = partial(fit_weights, jax.random.key(0), spoilt, program.job.agent, CODEC, 50)
    assert (
        np.abs(
            fit(1.0).learner.weights.w_c
            - fit_weights(jax.random.key(0), state, program.job.agent, CODEC, 50, 1.0).learner.weights.w_c
        ).max()
        == 0
    )
    assert np.abs(fit(0.2).learner.weights.w_c - fit(1.0).learner.weights.w_c).max() > 0.01


def test_a_baseline_without_weights_is_only_relabelled():
    program = Program(tiny_job("safedqn", *AFTER))
    state = program.init()
    state, _, _ = program.advance(state, 0, 20)
    before = jax.tree.map(jnp.copy, state)
    after, _ = change_costs(program, state, updates=0)
    assert same_trees(before.agent.learner, after.agent.learner) and np.array_equal(
        before.agent.ring[:, :, :20, :7], after.agent.ring[:, :, :20, :7]
    )


def test_random_steps_begin_anywhere_free_and_cost_what_the_map_says():
    layout = parse_scene("S.C\n#.G").layout
    t = random_steps(jax.random.key(0), layout, 4000, GridConfig())
    place = np.asarray(grid.position(t.obs, layout))
    cells, counts = np.unique(np.floor(place).astype(int), axis=0, return_counts=True)
    assert {tuple(cell) for cell in cells} == {(0, 0), (1, 0), (2, 0), (1, 1)}
    assert np.abs(counts / 4000 - 0.25).max() < 0.04 and (np.bincount(t.action) > 900).all()
    ends = np.floor(np.asarray(grid.position(t.next_obs, layout))).astype(int)
    assert np.array_equal(t.cost[:, 0], (ends == (2, 0)).all(1)) and np.array_equal(
        t.terminated, (ends == (2, 1)).all(1)
    )
    np.testing.assert_allclose(t.reward, -0.01 + np.asarray(t.terminated), atol=1e-6)


def test_pretraining_teaches_features_before_the_first_step():
    plain, pretrained = (Program(tiny_job("safedsr", BEFORE[0], seeds=(0,), pretrain=count)) for count in (0, 1500))
    before, after = plain.init().agent, pretrained.init().agent
    assert same_trees(before.learner.successor, after.learner.successor)
    assert same_trees(after.learner.encoder.phi, after.learner.target_phi) and np.array_equal(before.ring, after.ring)
    layout = tiny_task(BEFORE[0]).params
    t = random_steps(jax.random.key(1), layout, 500, GridConfig())

    def error(state):
        learner = jax.tree.map(lambda x: x[0, 0], state.learner)
        known = jax.vmap(_features, (None, 0, 0))(learner.encoder.phi, t.obs, t.action)
        return float(np.mean((t.cost - known @ learner.weights.w_c.T) ** 2))

    assert error(after) < 0.7 * error(before)
    encoder = Program(tiny_job("safedsr", BEFORE[0], seeds=(0,), pretrain=20, pretrain_labels=False)).init().agent
    assert same_trees(before.learner.weights, encoder.learner.weights)  # rewards and costs were not looked at
    assert not same_trees(before.learner.encoder, encoder.learner.encoder)
