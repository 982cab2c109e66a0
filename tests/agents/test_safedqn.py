import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import linear

from safedsr.agents.safedqn.config import SafeDqnConfig
from safedsr.agents.safedqn.trainer import make_safedqn, q_loss
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.envs.grid.text import parse_scene
from safedsr.runs.config import TrainConfig
from safedsr.types import Transition

CONFIG = SafeDqnConfig(gamma=0.9)
Q = linear([[9, 9], [1, -1], [9, 9], [9, 9]], [9, 0.5, 9, 9])  # Q(s, 1) = -0.5
TARGET = linear([[1, 0], [2, 0], [0, 1], [-4, 0]], [0, 1, 0.25, 0])  # Q_prev(s', ·) = 0.5, 2, 0.25, -2


def transition(terminated=0.0, cost=(2.0, 3.0)):
    return Transition(
        obs=jnp.array([1.0, 2.0]),
        action=jnp.int32(1),
        reward=jnp.float32(-0.01),
        cost=jnp.array(cost),
        next_obs=jnp.array([0.5, 0.0]),
        terminated=jnp.float32(terminated),
    )


@pytest.mark.parametrize(
    ("terminated", "lam", "goal"),
    [
        (0.0, (0.1, 0.5), 0.09),  # -0.01 - (0.1·2 + 0.5·3) + 0.9·2
        (1.0, (0.1, 0.5), -1.71),
        (0.0, (0.0, 0.0), 1.79),
        (1.0, (0.0, 0.0), -0.01),
    ],
)
def test_the_loss_by_hand(terminated, lam, goal):
    found = q_loss(Q, TARGET, transition(terminated), jnp.array(lam), CONFIG)
    np.testing.assert_allclose(found, (goal + 0.5) ** 2, rtol=1e-5)


def test_the_loss_without_costs():
    found = q_loss(Q, TARGET, transition(cost=()), jnp.zeros(0), CONFIG)
    np.testing.assert_allclose(found, (1.79 + 0.5) ** 2, rtol=1e-5)


def test_the_slope_is_that_of_the_chosen_action_alone():
    slope = jax.grad(q_loss)(Q, TARGET, transition(), jnp.array([0.1, 0.5]), CONFIG).layers[0]
    error = -2 * (0.09 + 0.5)
    np.testing.assert_allclose(slope.weight, [[0, 0], [error * 1, error * 2], [0, 0], [0, 0]], rtol=1e-5)
    np.testing.assert_allclose(slope.bias, [0, error, 0, 0], rtol=1e-5)


def test_the_network_of_table_1():
    trainer = make_safedqn(SafeDqnConfig(), make_grid(GridConfig(), 1))
    state, _ = jax.eval_shape(trainer.init, jax.random.key(0), jnp.uint32(0), parse_scene("S.C.G").layout)
    for net in (state.learner.q, state.learner.target):
        assert [layer.weight.shape for layer in net.layers] == [(120, 2), (84, 120), (4, 84)]
    assert state.ring.shape[0] == 10_000 and state.reservoir is None


def test_every_default_is_that_of_table_1():
    assert dataclasses.asdict(SafeDqnConfig()) == {
        "epsilon": {"epsilon_start": 1.0, "epsilon_end": 0.25, "epsilon_from": 20_000, "epsilon_to": 100_000},
        "multiplier": dataclasses.asdict(MultiplierConfig()),
        "gamma": 0.99,
        "batch_size": 128,
        "buffer_size": 10_000,
        "learning_rate": 0.00025,
        "train_start": 10_000,
        "train_every": 10,
        "update_steps": 1,  # the table has no row for it
        "sync_every": 500,
        "hidden": (120, 84),
    }
    multiplier = MultiplierConfig()
    assert (multiplier.lam_lr, multiplier.lam_start, multiplier.penalty_start) == (0.001, 0.0, 100_000)
    assert (multiplier.rule, multiplier.aim) == ("proportional", None)
    assert SafeDqnConfig().epsilon == EpsilonSchedule() and TrainConfig().steps == 500_000


def test_values_are_the_scores():
    trainer = make_safedqn(CONFIG, make_grid(GridConfig(), 1))
    state, _ = trainer.init(jax.random.key(0), jnp.uint32(0), parse_scene("S.C.G").layout)
    policy = trainer.policy(state)._replace(learner=TARGET)
    found = trainer.values(policy, jnp.array([0.5, 0.0]))
    np.testing.assert_allclose(found.q, [0.5, 2, 0.25, -2])
    np.testing.assert_array_equal(found.q, found.score)
    assert found.k is None and found.m is None
