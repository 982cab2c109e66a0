"""The loop that both agents share, mostly through its collecting phase: it acts and tunes λ as any other."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare
from tiny import GRID, advance, same_trees, tiny_agent, tiny_job, tiny_task

from safedsr.agents.registry import make_trainer
from safedsr.agents.value_based.trainer import EVALUATE
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.core.replay import Codec
from safedsr.engine import loop
from safedsr.engine.program import Program
from safedsr.envs.grid.catalog import with_costs
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid, scene_of
from safedsr.envs.grid.physics import position
from safedsr.types import JOINED

pytestmark = pytest.mark.usefixtures("compile_quickly")
AGENTS = ("safedqn", "safedsr")
PHASES = {"safedqn": ("collect", "learn"), "safedsr": ("collect", "features", "frozen")}
MAPS = ["S...G", "S.C.G", "S.AB.G\n\nA = fire 1\nB = water 2\n"]  # J = 0, 1, 2
STILL = GridConfig(step_std=0.0, time_limit=7)


def collector(name, text="S.C.G", grid=GRID, **changes):
    """A program for one walker all of whose steps stay in the ring."""
    return Program(tiny_job(name, text, seeds=(0,), grid=grid, buffer_size=1200, **changes))


def collect(program, steps, state=None, step=0):
    """Steps of the lone walker: the state after them and their records [steps]."""
    state = program.init() if state is None else state
    state, records, _ = advance(program, state, step, "collect", steps // program.trainer.period)
    return state, jax.tree.map(lambda x: np.asarray(x)[0, 0], records)


def with_lam(state, lam):
    """The same state with another λ."""
    agent = state.agent
    return state._replace(agent=agent._replace(multiplier=agent.multiplier._replace(lam=lam)))


def times_compiled(program):
    return program._advance._cache_size()  # type: ignore[attr-defined]


def remembered(state, steps):
    costs = state.episode.cost.shape[-1]
    return jax.tree.map(np.asarray, Codec(2, costs).unpack(state.agent.ring[0, 0, :steps]))


@pytest.mark.parametrize("text", MAPS)
@pytest.mark.parametrize("name", AGENTS)
def test_shapes_and_types_are_a_fixed_point(name, text):
    layout = tiny_task(text).params
    environment = make_grid(GRID, len(layout.costs))
    trainer = make_trainer(name, tiny_agent(name), environment)
    first = partial(loop.init, trainer, environment)
    state = jax.eval_shape(first, jax.random.key(0), jnp.uint32(0), layout)
    aim = jnp.zeros(len(layout.costs))
    for phase in PHASES[name]:
        step = partial(loop.advance, trainer, environment, phase=phase, periods=2)
        after, records, losses = jax.eval_shape(step, state, layout, aim, jnp.int32(0))
        kinds = [[(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(tree)] for tree in (state, after)]
        assert kinds[0] == kinds[1] and jax.tree.structure(state) == jax.tree.structure(after)
        assert records.cost.shape == (40, len(layout.costs)) and records.done.shape == (40,)
        assert not any(weak for _, _, weak in kinds[0]) and all(loss.shape == () for loss in losses.values())


@pytest.mark.parametrize("name", AGENTS)
def test_phases_follow_one_another(name):
    trainer = make_trainer(name, tiny_agent(name), make_grid(GRID, 1))
    ends = {"safedqn": [20, None], "safedsr": [20, 60, None]}[name]
    expected = list(zip(PHASES[name], ends, strict=True))
    assert [trainer.phase_at(step) for step in (0, 20, 60)][: len(expected)] == expected
    assert trainer.phase_at(19) == expected[0] and trainer.phase_at(10**9) == expected[-1]


def slow_lams(records, layout, aim, lr, penalty_start):
    """Eq. (16) after each step, with episode costs that are looked up on the map."""
    lam, cost, found = 0.0, 0.0, []
    for now, (obs, done) in enumerate(zip(records.obs, records.done, strict=True)):
        column, row = np.floor(obs * layout.scale).astype(int)
        cost += float(layout.costs[0, row, column])
        assert records.cost[now] == cost
        if done:
            if now + 1 > penalty_start:
                lam = max(0.0, lam + lr * (cost - aim))
            cost = 0.0
        found.append(lam)
    return found


def test_lam_moves_at_the_ends_of_episodes_after_penalty_start_alone():
    """One step at a time; all numbers are sums of powers of two, so equality is exact."""
    tuning = MultiplierConfig(penalty_start=60, lam_lr=0.0625, aim=(1.0,))
    program = collector("safedqn", multiplier=tuning, train_every=1, sync_every=1)
    layout = program.job.tasks[0].params
    state, lams, steps = program.init(), [], []
    for step in range(200):
        state, records = collect(program, 1, state, step)
        lams.append(float(state.agent.multiplier.lam[0, 0, 0]))
        steps.append(records)
    records = jax.tree.map(lambda *x: np.concatenate(x), *steps)
    early = records.done[:60] & (records.cost[:60, 0] != 1)
    assert early.any() and (records.cost[records.done] > 2).any() and max(lams) > 0.2
    assert lams == slow_lams(records, layout, 1.0, 0.0625, 60)
    assert times_compiled(program) == 1


@pytest.mark.parametrize(("penalty_start", "first"), [(13, 14), (14, 21)])
def test_the_step_at_which_tuning_starts(penalty_start, first):
    """Episodes of 7 steps without cost, too few to go round the wall: the first to end at t > t_penalty tunes λ."""
    tuning = MultiplierConfig(rule="sign", penalty_start=penalty_start, lam_start=1.0, lam_step=0.25)
    text = "S#G\n" + ".#.\n" * 6 + "...\n\ncost heat\n" + ". . .\n" * 8
    program = collector("safedqn", text, STILL, multiplier=tuning, train_every=1, sync_every=1)
    state, lams = program.init(), []
    for step in range(first + 7):
        state, _ = collect(program, 1, state, step)
        lams.append(float(state.agent.multiplier.lam[0, 0, 0]))
    assert lams == [1.0] * (first - 1) + [0.75] * 7 + [0.5]


def test_lam_may_wait_for_the_first_goal():
    """Then it is λ₀, whatever happened before; from then on it is tuned."""
    tuning = MultiplierConfig(rule="sign", penalty_start=0, lam_start=1.0, lam_step=0.25, after_goal=True)
    program = collector("safedqn", grid=STILL, multiplier=tuning, train_every=1, sync_every=1)
    state, lams, done, reached = program.init(), [], [], []
    for step in range(200):
        state, records = collect(program, 1, state, step)
        lams.append(float(state.agent.multiplier.lam[0, 0, 0]))
        done.append(records.done[0])
        reached.append(records.success[0])
    goal = reached.index(True)
    assert any(done[:goal]) and lams[: goal + 1] == [0.0] * goal + [1.0]
    after = goal + 1 + done[goal + 1 :].index(True)
    assert set(lams[goal:after]) == {1.0} and lams[after] in (0.75, 1.25)


def test_a_controller_that_waits_goes_on_waiting_while_it_is_evaluated():
    tuning = MultiplierConfig(penalty_start=0, lam_start=1.0, after_goal=True)
    program = collector("safedqn", grid=STILL, multiplier=tuning)
    before = program.init()
    multiplier = jax.tree.map(np.asarray, before.agent.multiplier)
    after, records, _ = advance(program, before, 0, EVALUATE, 10)
    assert np.asarray(records.success).any() and same_trees(after.agent.multiplier, multiplier)


def test_records_are_sums_of_their_episode():
    program = collector("safedqn", grid=STILL)
    state, records = collect(program, 400)
    t = remembered(state, 400)
    ret, cost, length = 0.0, 0.0, 0
    for now in range(400):
        ret, cost, length = ret + t.reward[now], cost + t.cost[now, 0], length + 1
        assert records.length[now] == length and records.cost[now, 0] == cost
        assert records.ret[now] == pytest.approx(ret, abs=1e-5)
        assert records.done[now] == (records.success[now] or length == 7)
        if records.done[now]:
            ret, cost, length = 0.0, 0.0, 0
    assert records.success.any() and (records.done & ~records.success).any()


def test_accelerators_act_alike(monkeypatch):
    """There the steps between two trainings are written out one after the other."""
    _, records = collect(collector("safedqn"), 200)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    _, others = collect(collector("safedqn"), 200)
    assert records.done.any()
    for one, other in zip(records, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("terminal", ["cut", "cut-all", "absorb", "restart", "restart-goal"])
def test_what_is_remembered_of_an_episodes_end(terminal):
    program = collector("safedsr", grid=STILL, terminal=terminal)
    state, records = collect(program, 400)
    layout = program.job.tasks[0].params
    t = remembered(state, 400)
    truncated = records.done & ~records.success
    joined = truncated & (terminal == "restart")  # there s′ is where the next episode starts
    ended = records.done if terminal == "cut-all" else records.success
    np.testing.assert_array_equal(t.terminated, np.where(joined, JOINED, ended))
    assert truncated.any() and (t.terminated[truncated] == 1).any() == (terminal == "cut-all")
    np.testing.assert_array_equal(t.obs[1:][~records.done[:-1]], records.obs[:-1][~records.done[:-1]])
    start = np.array([0.5, 0.5], np.float32) / layout.scale
    np.testing.assert_array_equal(t.obs[1:][records.done[:-1]], np.tile(start, (records.done[:-1].sum(), 1)))
    replaced = {"restart": records.done, "restart-goal": records.success}.get(terminal, np.zeros(400, bool))
    ends = np.where(replaced[:, None], start, records.obs)
    np.testing.assert_array_equal(t.next_obs, ends)
    at_goal = np.asarray(position(t.next_obs[records.success], layout))[:, 0] >= 4
    assert not at_goal.any() if terminal.startswith("restart") else at_goal.all()
    assert sorted(set(t.reward.tolist())) == pytest.approx([-0.01, 0.99])


@pytest.mark.parametrize("name", AGENTS)
def test_random_at_first_then_more_and_more_greedy(name):
    schedule = EpsilonSchedule(1.0, 0.0, 400, 800)
    program = collector(name, "....\n.S..\n....\n...G", epsilon=schedule)
    state, _ = collect(program, 1200)
    t = remembered(state, 1200)
    policy = jax.tree.map(lambda x: x[0, 0], program.trainer.policy(state.agent))
    best = jax.vmap(lambda obs: jnp.argmax(program.trainer.values(policy, obs).score))(jnp.asarray(t.obs))
    random, falling, greedy = np.split(t.action != np.asarray(best), [401, 800])
    assert chisquare(np.bincount(t.action[:401], minlength=4)).pvalue > 0.01
    assert random.mean() == pytest.approx(0.75, abs=0.1)
    assert falling[:200].mean() == pytest.approx(0.75 * 0.75, abs=0.12)
    assert falling[200:].mean() == pytest.approx(0.75 * 0.25, abs=0.12)
    assert not greedy.any()


def test_lam_budget_and_map_change_without_recompiling_and_act():
    greedy = EpsilonSchedule(0.0, 0.0, 0, 0)
    tuning = MultiplierConfig(penalty_start=0, lam_lr=0.0625)
    text = "....\n.S..\n....\n...G\n\ncost heat\n" + ". 1 . .\n" * 4
    program = collector("safedsr", text, epsilon=greedy, multiplier=tuning)
    start = program.init()
    _, plain = collect(program, 200)

    steep = with_lam(start, jnp.full((1, 1, 1), 1e4, jnp.float32))
    program.aim = jnp.full((1, 1), 12, jnp.float32)
    _, pushed = collect(program, 200, steep)
    assert not np.array_equal(plain.obs, pushed.obs)

    scene = with_costs(scene_of(program.job.tasks[0]), np.full((4, 4), 2.0, np.float32))
    program.params = jax.tree.map(lambda x: x[None], scene.layout)
    _, dear = collect(program, 200)
    ended = dear.done & ~dear.success
    assert (dear.cost[ended] == 2.0 * GRID.time_limit).all() and ended.any()

    lams = {}
    for aim in (0.0, 24.0, 100.0):
        program.aim = jnp.full((1, 1), aim, jnp.float32)
        lams[aim] = float(collect(program, 200)[0].agent.multiplier.lam[0, 0, 0])
    assert lams[0.0] > 1 and lams[24.0] == lams[100.0] == 0.0
    assert times_compiled(program) == 1


@pytest.mark.parametrize(("name", "phase"), [("safedqn", "learn"), ("safedsr", "features")])
def test_targets_are_copies_at_the_end_of_a_period(name, phase):
    program = Program(tiny_job(name))
    start = program.init()
    after = advance(program, start, 20, phase)[0].agent.learner
    pairs = {
        "safedqn": lambda s: [(s.q, s.target)],
        "safedsr": lambda s: [(s.encoder.phi, s.target_phi), (s.successor, s.target_successor)],
    }[name]
    for (net, target), (_, before) in zip(pairs(after), pairs(start.agent.learner), strict=True):
        assert same_trees(net, target) and not same_trees(target, before)


def test_targets_stay_within_a_period():
    """Copying after every training, and not after every fourth, is another algorithm; up to there they agree."""
    learners = {}
    for every in (5, 20):
        program = Program(tiny_job("safedqn", seeds=(0,), sync_every=every))
        start = program.init()
        target = jax.tree.map(lambda x: x + 1.0, start.agent.learner.target)
        agent = start.agent._replace(learner=start.agent.learner._replace(target=target))
        learners[every] = advance(program, start._replace(agent=agent), 0, "learn", 20 // every)[0].agent.learner
    assert not same_trees(learners[5].q, learners[20].q)
    count = learners[5].optimizer[0].count
    assert count == learners[20].optimizer[0].count == 4


def test_what_was_never_remembered_is_never_learnt_from():
    program = Program(tiny_job("safedqn"))
    start = program.init()
    unknown = start._replace(agent=start.agent._replace(ring=jnp.full_like(start.agent.ring, jnp.nan)))
    for step in (0, 20):
        unknown, _, losses = advance(program, unknown, step, "learn")
        assert np.isfinite(losses["q_loss"]).all() and np.isnan(unknown.agent.ring).any() == (step == 0)


def test_lam_weighs_the_costs_that_are_learnt():
    program = Program(tiny_job("safedqn"))
    start = program.init()
    slack, tight = (
        advance(program, with_lam(start, jnp.full((1, 2, 1), lam, jnp.float32)), 0, "learn") for lam in (0.0, 10.0)
    )
    assert (np.asarray(tight[2]["q_loss"]) > 10 * np.asarray(slack[2]["q_loss"])).all()


def test_memory_fills_the_ring_and_the_reservoir():
    program = collector("safedsr", MAPS[2], grid=STILL)
    state, records = collect(program, 400)
    seen = np.asarray(state.agent.reservoir.seen[0, 0])  # [1 + J, bins]
    t = remembered(state, 400)
    assert seen.shape == (3, 4) and (seen.sum(1) == 400).all()
    assert seen[0].tolist() == [400 - records.success.sum(), 0, 0, records.success.sum()]
    for j, high in enumerate((1.0, 2.0)):
        assert seen[1 + j].tolist() == [(t.cost[:, j] == 0).sum(), 0, 0, (t.cost[:, j] == high).sum()]
    assert seen[0, 3] > 0 and (seen[1:, 3] > 0).all()
