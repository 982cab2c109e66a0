from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_evaluate import goalless, on_mean
from tiny import GRID, same_trees, tiny_agent, tiny_job

from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.adapt.costs import experience_of
from safedsr.adapt.walks import walking
from safedsr.agent import load, load_all
from safedsr.agents.plus import learner as plus
from safedsr.agents.plus.learner import Kit
from safedsr.agents.plus.trainer import offer
from safedsr.agents.safedsr.equations import Weights
from safedsr.agents.value_based.trainer import Memory
from safedsr.core import replay
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.core.replay import Codec
from safedsr.core.units import Units
from safedsr.engine.program import Program
from safedsr.engine.train import train
from safedsr.envs.grid.environment import CELLS, make_grid
from safedsr.envs.grid.layout import stack_layouts
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError
from safedsr.types import Transition

pytestmark = pytest.mark.usefixtures("compile_quickly")
WIDE, TALL = parse_scene("S.C.G").layout, parse_scene("S\nC\nG").layout
CONFIG, CODEC = tiny_agent("safedsr-plus"), Codec(2, 1)
LAM = jnp.array([0.7])


def kit_of(config):
    return Kit(config, CELLS, make_grid(GRID, 1).spec)


KIT, PLAIN = kit_of(CONFIG), kit_of(tiny_agent("safedsr-plus", outcomes=False))
UNITS = Units(jnp.float32(4.0), jnp.array([5.0]))
BOTH = pytest.mark.parametrize("kit", [KIT, PLAIN], ids=["outcomes", "codes alone"])


def random_state(layout=WIDE, kit=KIT):
    """A learner with random networks, another target, and weights that are random or, with outcomes, units."""
    s = plus.init(jax.random.key(0), layout, kit)
    leaves, tree = jax.tree.flatten((s.phi, s.successor, s.target, s.weights))
    keys = jax.random.split(jax.random.key(1), len(leaves))
    drawn = jax.tree.unflatten(tree, [jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)])
    weights = plus.unit_weights(UNITS, len(s.weights.w_r)) if kit.config.outcomes else drawn[3]
    return s._replace(phi=drawn[0], successor=drawn[1], target=drawn[2], weights=weights)


def step_to(x, y, layout=WIDE, **changes):
    """A step that ends at a position in cells."""
    scale = layout.scale
    t = Transition(
        obs=jnp.array([1.5, 0.5]) / scale,
        action=jnp.int32(2),
        reward=jnp.float32(-0.01),
        cost=jnp.zeros(1),
        next_obs=jnp.array([x, y]) / scale,
        terminated=jnp.float32(0),
    )
    return t._replace(**changes)


def test_cells_are_counted_by_rows_also_of_padded_maps():
    both = stack_layouts([WIDE, TALL])
    for n, (x, y, cell) in enumerate([(4.5, 0.5, 4), (0.5, 2.5, 10)]):
        layout = jax.tree.map(lambda leaf: leaf[n], both)  # noqa: B023
        assert both.walls.shape[1:] == (3, 5)
        assert CELLS.count(layout) == 15
        row = CODEC.pack(step_to(x, y, layout))
        empty = replay.init_reservoir(1, 15, 8, CODEC.width)
        s = plus.init(jax.random.key(0), layout, KIT)
        _, found = offer(jax.random.key(0), s, empty, row[None], CODEC.unpack(row[None]), layout, KIT)
        assert found.seen.tolist() == [np.eye(15, dtype=int)[cell].tolist()]
        np.testing.assert_array_equal(found.rows[0, cell, 0], row)


def test_weights_are_the_means_of_what_is_remembered():
    ends = np.array([0, 2, 2, 2, 4])
    rewards, costs = np.array([1.0, 2.0, 4.0, 6.0, 8.0]), np.array([0.0, 1.0, 0.0, 1.0, 5.0])
    rows = jnp.stack(
        [
            CODEC.pack(step_to(end + 0.5, 0.5, reward=jnp.float32(r), cost=jnp.array([c])))
            for end, r, c in zip(ends, rewards, costs, strict=True)
        ]
    )
    empty = replay.init_reservoir(1, WIDE.walls.size, 8, CODEC.width)
    s = plus.init(jax.random.key(0), WIDE, KIT)
    _, filled = offer(jax.random.key(0), s, empty, rows, CODEC.unpack(rows), WIDE, KIT)
    weights = plus.group_means(filled, CODEC)
    np.testing.assert_allclose(weights.w_r, [1.0, 0.0, 4.0, 0.0, 8.0], rtol=1e-6)
    np.testing.assert_allclose(weights.w_c, [[0.0, 0.0, 2 / 3, 0.0, 5.0]], rtol=1e-6)


@BOTH
@pytest.mark.parametrize("terminated", [0.0, 1.0])
def test_the_target_reckons_with_random_actions(terminated, kit):
    s = random_state(kit=kit)
    t = step_to(3.5, 0.5, terminated=jnp.float32(terminated), reward=jnp.float32(2.0), cost=jnp.array([1.0]))
    m = np.array([s.target(t.next_obs, jnp.int32(a), s.frame, CELLS) for a in range(4)], np.float64)
    direction = np.asarray(s.weights.w_r - LAM @ s.weights.w_c, np.float64)
    chances = np.full(4, CONFIG.plan_epsilon / 4)
    chances[np.argmax(m @ direction)] += 1 - CONFIG.plan_epsilon
    now = np.eye(5)[3] if kit is PLAIN else [0, 0, 0, 1, 0, 2.0 / 4.0, 1.0 / 5.0]
    expected = now + CONFIG.gamma * (1 - terminated) * chances @ m
    np.testing.assert_allclose(plus.successor_target(s, t, LAM, UNITS, kit), expected, rtol=1e-4, atol=1e-4)


@BOTH
def test_the_loss_is_what_errors_are_worth(kit):
    s, t = random_state(kit=kit), step_to(2.5, 0.5)
    goal = jnp.arange(float(len(s.weights.w_r)))
    error = np.asarray(goal - s.successor(t.obs, t.action, s.frame, CELLS), np.float64)
    terms = {
        "beta_r": (error @ np.asarray(s.weights.w_r) / 4) ** 2,
        "beta_c": (error @ np.asarray(s.weights.w_c[0]) / 5) ** 2,
        "beta_m": error[:5] @ error[:5],
    }
    if kit is KIT:  # the last rows of M are Q and K in their units
        np.testing.assert_allclose([terms["beta_r"], terms["beta_c"]], error[5:] ** 2, rtol=1e-5)
    for name, term in terms.items():
        how = {**dict.fromkeys(terms, 0.0), name: 2.0}
        config = tiny_agent("safedsr-plus", outcomes=kit is KIT, **how)
        for times, grown in ((0.5, 1.0), (3.0, 9.0 if name == "beta_c" else 1.0)):  # λ in units of λ₀
            lam = times * config.multiplier.lam_start * UNITS.lam
            found = plus.successor_loss(s.successor, s, t, goal, lam, UNITS, kit_of(config))
            np.testing.assert_allclose(found, 2 * grown * term, rtol=1e-4)


def test_other_units_change_no_value():
    """Rows of Q and K are rescaled when larger rewards or costs are seen; codes stay as they are."""
    s, obs = random_state(), jnp.array([0.3, 0.1])
    moved = plus.in_units(s, Units(jnp.float32(0.5), jnp.array([80.0])))
    for net in ("successor", "target"):
        one, other = (
            plus.values(plus.PlusPolicy(plus.Forecast(x.phi, x.frame), getattr(x, net), x.weights), obs, LAM, CELLS)
            for x in (s, moved)
        )
        assert one.k is not None and other.k is not None and one.m is not None and other.m is not None
        np.testing.assert_allclose(one.q, other.q, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(one.k, other.k, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(one.m[:, :5], other.m[:, :5])
    np.testing.assert_allclose(moved.weights.w_r, [0, 0, 0, 0, 0, 0.5, 0])
    np.testing.assert_allclose(moved.weights.w_c, [[0, 0, 0, 0, 0, 0, 80.0]])


def test_a_learner_goes_on_from_weights_of_codes():
    """After a refit, K is a sum over codes; a learner that goes on has it in a row of its own, in units."""
    s, obs = random_state(), jnp.array([0.3, 0.1])
    weights = s.weights._replace(w_c=jnp.array([[1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 0.0]]))
    policy = plus.PlusPolicy(plus.Forecast(s.phi, s.frame), s.successor, weights)
    later = plus.go_on(policy, plus.adam(CONFIG), UNITS, KIT)
    again = plus.PlusPolicy(policy.phi, later.successor, later.weights)
    one, other = (plus.values(p, obs, LAM, CELLS) for p in (policy, again))
    assert one.k is not None and other.k is not None
    np.testing.assert_allclose(one.q, other.q, rtol=1e-4)
    np.testing.assert_allclose(one.k, other.k, rtol=1e-4, atol=1e-4)
    assert same_trees(later.weights, plus.unit_weights(UNITS, 7))


def test_a_quarter_of_a_batch_changed_nothing():
    """Of 40 rows 4 changed nothing; they are drawn for their share of every batch, and for few other places."""
    config = tiny_agent("safedsr-plus", batch_size=8, update_steps=5, idle_share=0.25, even_share=0.5)
    kit = kit_of(config)
    steps = [step_to(1.5 if n % 10 == 0 else 3.5, 0.5, reward=jnp.float32(n)) for n in range(40)]
    rows = jnp.stack([CODEC.pack(t) for t in steps])
    s = plus.init(jax.random.key(0), WIDE, kit)
    empty = replay.init_reservoir(1, WIDE.walls.size, 8, CODEC.width)
    _, reservoir = offer(jax.random.key(0), s, empty, rows, CODEC.unpack(rows), WIDE, kit)
    memory = Memory(rows, reservoir, jnp.int32(40), None, CODEC.unpack, UNITS)
    batches = CODEC.unpack(plus.choose_rows(jax.random.key(1), memory, kit))
    assert batches.action.shape == (5, 8)
    same = np.asarray((batches.obs == batches.next_obs).all(-1))
    assert same[:, :2].mean() >= 0.8 and same[:, 2:4].mean() < 0.5
    without = kit_of(tiny_agent("safedsr-plus", batch_size=8, idle_share=0.0, even_share=0.5))
    assert plus.choose_rows(jax.random.key(1), memory, without).shape[1] == 8


def test_values_agree_with_the_folded_score():
    s = random_state()
    policy = plus.PlusPolicy(plus.Forecast(s.phi, s.frame), s.successor, s.weights)
    obs = jnp.array([0.3, 0.1])
    found = plus.values(policy, obs, LAM, CELLS)
    assert found.k is not None and found.m is not None
    np.testing.assert_allclose(found.score, found.q - found.k[:, 0] * LAM[0], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.m[1], s.successor(obs, jnp.int32(1), s.frame, CELLS), rtol=1e-5)
    np.testing.assert_allclose(plus.features(policy.phi, obs, jnp.int32(1), CELLS).sum(), 1.0, rtol=1e-5)


def test_novelty_counts_until_the_first_success():
    """Its row of M has the weight `bonus` in the score, in targets and in the loss; then it has none."""
    kit = kit_of(tiny_agent("safedsr-plus", bonus=0.5))
    s = random_state(kit=kit)._replace(novelty=jnp.arange(1.0, 6.0) / 8)
    assert len(s.weights.w_r) == 5 + 1 + 2
    t = step_to(3.5, 0.5)
    np.testing.assert_allclose(plus.outcome(s, t, UNITS, kit)[5], 4 / 8)
    extra = s.direction(LAM) - s.weights.direction(LAM)
    np.testing.assert_allclose(extra, 0.5 * (np.arange(8) == 5))
    goal = s.successor(t.obs, t.action, s.frame, CELLS) + jnp.eye(8)[5]
    np.testing.assert_allclose(plus.successor_loss(s.successor, s, t, goal, LAM, UNITS, kit), 0.25, rtol=1e-4)
    reservoir = replay.init_reservoir(1, 5, 4, CODEC.width)._replace(seen=jnp.array([[3, 0, 0, 8, 0]]))
    for found, weight in ((False, 0.5), (True, 0.0)):
        memory = Memory(jnp.zeros((60, CODEC.width)), reservoir, jnp.int32(60), None, CODEC.unpack, UNITS, found)
        after = plus.learn(s, memory, LAM, jax.random.key(0), "learn", kit)[0]
        assert after.novelty is not None and float(after.bonus) == weight  # type: ignore[arg-type]
        np.testing.assert_allclose(after.novelty, 1 / np.sqrt([4, 1, 1, 9, 1]), rtol=1e-6)


def test_phi_learns_where_steps_end():
    """Two steps from the same place with other actions end in other cells; cross-entropy tells them apart."""
    kit = kit_of(tiny_agent("safedsr-plus", learning_rate=0.03))
    steps = [step_to(0.5, 0.5, action=jnp.int32(3)), step_to(2.5, 0.5, action=jnp.int32(1))]
    batch = jax.tree.map(lambda *xs: jnp.stack(xs), *steps)
    s, _ = jax.lax.scan(lambda s, _: plus.learn_phi(s, batch, kit), plus.init(jax.random.key(0), WIDE, kit), None, 200)
    phi = plus.Forecast(s.phi, s.frame)
    chances = [plus.features(phi, t.obs, t.action, CELLS) for t in steps]
    assert [int(jnp.argmax(chance)) for chance in chances] == [0, 2]
    assert all(float(chance.max()) > 0.95 for chance in chances)


def test_learning_repeats_itself_and_moves_every_network():
    program = Program(tiny_job("safedsr-plus"))
    first = program.init()
    state = program.init()
    for step in range(0, 160, 20):
        state, _, losses = program.advance(state, step, 20)
    assert all(np.isfinite(value).all() for value in losses.values())
    for name in ("phi", "successor", "target"):
        before, after = (jax.tree.leaves(getattr(s.agent.learner, name)) for s in (first, state))
        assert all(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    again = program.init()
    for step in range(0, 160, 20):
        again, _, _ = program.advance(again, step, 20)
    found, expected = (s.agent.learner.successor.last.weight for s in (again, state))
    np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two agents that reach the goal on the lower road; the upper one costs something."""
    folder = tmp_path_factory.mktemp("plus") / "run"
    job = tiny_job("safedsr-plus", "SC.G\n....", "SCG", steps=2000, chunk=200)
    agent = tiny_agent(
        "safedsr-plus",
        epsilon=EpsilonSchedule(1.0, 0.2, 100, 1000),
        multiplier=MultiplierConfig("share", penalty_start=1000, lam_start=0.25, lam_most=0.25, after_goal=True),
        batch_size=32,
        buffer_size=400,
        kept=40,
        learning_rate=0.002,
        trunk=32,
        head=16,
        phi_batch=16,
    )
    train(replace(job, agent=agent), folder)
    return folder


def test_a_loaded_policy_is_cut_to_its_own_map_and_acts_the_same(trained, tmp_path):
    program_wide, small = load(trained, seed=0, task=0), load(trained, seed=0, task=1)
    assert program_wide.policy.learner.weights.w_r.shape == (8 + 2,)
    assert small.policy.learner.weights.w_r.shape == (3 + 2,)
    small.save(tmp_path / "own")
    again = load(tmp_path / "own")
    obs = np.array([[0.2, 0.1], [0.9, 0.2]], np.float32)
    np.testing.assert_allclose(again.values(obs).score, small.values(obs).score, rtol=1e-5)
    np.testing.assert_allclose(load_all(trained)[1, 0].values(obs).score, small.values(obs).score, rtol=1e-5)


def test_cropping_keeps_every_value():
    """Cells that padded the map have no weight, so that what is expected stays as it is."""
    both = stack_layouts([WIDE, TALL])
    layout = jax.tree.map(lambda leaf: leaf[1], both)
    s = random_state(layout)
    inside = np.zeros((3, 5))
    inside[:, 0] = 1
    inside = np.append(inside, [1, 1])  # reward and cost
    weights = Weights(s.weights.w_r * inside, s.weights.w_c * inside[None])
    policy = plus.PlusPolicy(plus.Forecast(s.phi, s.frame), s.successor, weights)
    obs = jnp.array([0.1, 0.6])
    whole, own = (plus.values(p, obs, LAM, CELLS) for p in (policy, plus.crop(policy, TALL, KIT)))
    np.testing.assert_allclose(own.q, whole.q, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(own.score, whole.score, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(own.m), np.asarray(whole.m)[:, [0, 5, 10, 15, 16]], rtol=1e-6)


LOWER_ROAD = np.array([[[0, 0, 0, 0], [0, 1, 1, 0]]], float)  # the agent has learnt to avoid the upper one


@pytest.mark.parametrize(
    ("level", "spend", "changed", "safe"),
    [
        ("cost", ClimbConfig(), {"weights"}, False),
        ("penalty", ClimbConfig(), {"weights"}, None),  # another λ helps some agents
        ("memory", ClimbConfig(updates=1000), {"successor"}, True),  # costs are a row of M again, in units
        ("full", ClimbConfig(updates=1, steps=400), {"successor", "phi"}, True),
    ],
)
def test_each_rung_changes_its_own_part_and_what_is_learnt_helps(trained, level, spend, changed, safe):
    """New cost weights alone keep the agent at home; updates of M from memory, or new steps, lead to the goal."""
    agent = load(trained, seed=1)
    before = jax.tree.map(np.array, (agent.policy, agent.experience))
    found = agent.adapt(
        LOWER_ROAD, level, 0.5, certificate=CertificateConfig(episodes=200, epsilon=0.1, require=0.95), spend=spend
    )
    old, new = agent.policy.learner, found.agent.policy.learner
    parts = {"weights": lambda p: p.weights.w_c, "successor": lambda p: p.successor, "phi": lambda p: p.phi}
    assert {name for name, part in parts.items() if not same_trees(part(old), part(new))} == changed
    assert same_trees(old.weights.w_r, new.weights.w_r)
    rate = found.certificate.safe_goal_rate.value
    assert safe is None or (rate > 0.8 if safe else rate < 0.4)
    assert same_trees(before, jax.tree.map(np.array, (agent.policy, agent.experience)))  # this agent stays
    steps = experience_of(found.agent).steps
    if level == "full":
        assert len(steps.action) > len(experience_of(agent).steps.action)
        np.testing.assert_allclose(new.weights.w_c, [[0.0] * 9 + [1.0]])  # the largest cost; the budget is smaller


def test_an_adaptation_from_memory_takes_no_step_and_no_reset(trained):
    """Its certificate has another name, and is close to the truth on a map that the memory covers."""
    agent = load(trained, seed=1)

    def gone(*_):
        raise AssertionError("the environment was used")

    lost = agent.changed(job=replace(agent.job, environment=replace(agent.job.environment, reset=gone, step=gone)))
    settings = {"certificate": CertificateConfig(epsilon=0.1, require=0.95), "spend": ClimbConfig(updates=1000)}
    found = lost.adapt(LOWER_ROAD, "memory", 0.5, from_memory=True, **settings)
    told = found.certificate
    assert told.source == "memory" and "remembered" in told.assumes and told.episodes == 1000
    true = agent.changed(policy=found.agent.policy).certify(LOWER_ROAD, 0.5, epsilon=0.1, episodes=1000)
    assert true.source == "simulator" and true.safe_goal_rate.value > 0.8
    assert abs(told.safe_goal_rate.value - true.safe_goal_rate.value) < 0.1
    for level, spend in (("full", ClimbConfig()), ("penalty", ClimbConfig(penalty="learn"))):
        with pytest.raises(UserError, match="steps in the environment"):
            agent.adapt(LOWER_ROAD, level, spend=spend, from_memory=True)


def test_walks_are_disturbed_where_the_best_policy_is_at_the_edge_of_the_budget(trained):
    """That is so if the return decides among policies that keep the budget of an episode."""
    agent = load(trained, seed=1)
    plain, edge, mean = (
        float(walking(one, agent.task).params.noise) for one in (agent, goalless(agent), on_mean(agent))
    )
    assert plain == mean and edge > 2 * plain


@pytest.mark.parametrize(
    "costs", [np.stack([LOWER_ROAD[0], LOWER_ROAD[0, ::-1]]), np.zeros((0, 2, 4))], ids=["two", "none"]
)
def test_another_number_of_costs_is_saved_and_loaded(trained, costs, tmp_path):
    """Rows of Q and K follow the number of costs; the values of the adapted agent stay as they are."""
    agent = load(trained, seed=0)
    new = agent.refit(costs)
    obs = np.array([[0.2, 0.1], [0.9, 0.2]], np.float32)
    np.testing.assert_allclose(new.values(obs).q, agent.values(obs).q, rtol=1e-4, atol=1e-5)
    new.save(tmp_path / "new")
    again = load(tmp_path / "new")
    assert again.policy.lam.shape == (len(costs),) and len(again.task.budgets) == len(costs)
    np.testing.assert_allclose(again.values(obs).score, new.values(obs).score, rtol=1e-5)


def test_bad_settings_are_refused():
    for change in (
        {"even_share": 1.5},
        {"plan_epsilon": -0.1},
        {"phi_batch": 9},
        {"octaves": -1},
        {"kept": 0},
        {"bonus": -1.0},
    ):
        with pytest.raises(UserError, match=next(iter(change))):
            tiny_agent("safedsr-plus", **change)
