"""Every agent learns every probe, all probes and two seeds in one program."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import COSTLESS, COSTLY, STILL

from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.safedqn.config import SafeDqnConfig
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.engine.program import Program
from safedsr.envs.grid.physics import ACTIONS
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import grid_job

pytestmark = pytest.mark.usefixtures("compile_quickly")
SHARED: dict[str, Any] = {
    "epsilon": EpsilonSchedule(1.0, 1.0, 0, 0),  # walks do not depend on what is learnt
    "gamma": 0.9,
    "batch_size": 32,
    "buffer_size": 1000,
    "train_start": 200,
    "sync_every": 50,
    "update_steps": 10,
}
DQN = SafeDqnConfig(
    **SHARED, multiplier=MultiplierConfig(penalty_start=0, lam_lr=0.005), learning_rate=1e-3, hidden=(64, 64)
)
DSR = {
    **SHARED,
    # An absorbing goal is worth up to 1 / (1 - γ), so λ has to grow larger before a toll is too dear.
    "multiplier": MultiplierConfig(penalty_start=0, lam_lr=0.04),
    "terminal": "absorb",
    "learning_rate": 3e-3,
    "features": 16,
    "phi_hidden": (32,),
    "decoder_hidden": (16,),
    "successor_hidden": (32,),
    "reservoir_size": 50,
}


def learn(name, agent, probes, steps):
    """The trained program and its state."""
    tasks = tuple(probe.task() for probe in probes)
    program = Program(grid_job(name, tasks, (0, 1), agent, STILL, TrainConfig(steps=steps, chunk=steps)))
    state, step = program.init(), 0
    while step < steps:
        stop = program.next_stop(step)
        state, _, _ = program.advance(state, step, stop - step)
        step = stop
    return program, state


def start_values(program, state):
    """What is expected of each action at the start, [probes, seeds, ...]."""
    starts = jnp.asarray([(task.params.starts[0] + 0.5) / task.params.scale for task in program.job.tasks])
    over_seeds = jax.vmap(program.trainer.values, (0, None))
    return jax.vmap(over_seeds)(program.trainer.policy(state.agent), starts.astype(jnp.float32))


def choices(program, state):
    return [{ACTIONS[a] for a in actions} for actions in np.argmax(start_values(program, state).score, -1)]


def assert_all_best(program, state, probes):
    found = {probe.name: chosen for probe, chosen in zip(probes, choices(program, state), strict=True)}
    assert not {name: found[name] for name, _, _, best in probes if not found[name] <= best}


PLUS = SafeDsrPlusConfig(
    **SHARED,
    multiplier=MultiplierConfig(rule="chance", penalty_start=0, lam_step=0.02, lam_most=1.0),
    learning_rate=3e-3,
    beta_c=1.0,  # about λ²
    plan_epsilon=0.0,
    kept=50,
    phi_batch=8,
)


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        ("safedqn", DQN),
        pytest.param("safedsr", SafeDsrConfig(**DSR, freeze=800), marks=pytest.mark.slow),
        ("safedsr-plus", PLUS),
    ],
)
def test_budgets_decide_the_way(name, agent):
    program, state = learn(name, agent, COSTLY, 1200)
    lam = np.moveaxis(np.asarray(program.trainer.multipliers(state.agent)), 1, 2)  # [probes, costs, seeds]
    tight = np.array([[budget == 0 for budget in task.budgets] for task in program.job.tasks])
    assert (lam[tight] > 0.5).all() and not lam[~tight].any()
    assert_all_best(program, state, COSTLY)


@pytest.mark.parametrize(("name", "agent"), [("dqn", DQN), ("dsr", SafeDsrConfig(**DSR, freeze=100_000))])
def test_without_costs_the_short_way_is_best(name, agent):
    program, state = learn(name, agent, COSTLESS, 600)
    assert program.trainer.multipliers(state.agent).shape == (2, 2, 0)
    assert_all_best(program, state, COSTLESS)
    if name == "dqn":  # where the goal ends it all, the values are known too
        waits = 0.9 * 0.99 - 0.01
        expected = [[waits, waits, waits, 0.99], [0.9 * waits - 0.01, 0.695, 0.9 * waits - 0.01, waits]]
        np.testing.assert_allclose(
            start_values(program, state).q, np.repeat(expected, 2, 0).reshape(2, 2, 4), atol=0.05
        )
