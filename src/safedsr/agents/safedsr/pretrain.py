"""Pretraining (Sec. 5.4): features are learnt from independent transitions from random states."""

from collections.abc import Callable

import jax
from jax import Array

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.types import PyTree, Transition

Learn = Callable[[PyTree, Transition], tuple[PyTree, Array]]  # (learner state, batch) -> learner state, loss
RandomSteps = Callable[[Array, PyTree, int], Transition]  # the environment's hook


def pretrain(
    learn: Learn, random_steps: RandomSteps, config: SafeDsrConfig, s: PyTree, key: Array, params: PyTree
) -> PyTree:
    """The learner state after `config.pretrain` updates, each on a batch of new random transitions."""

    def update(s: PyTree, key: Array) -> tuple[PyTree, Array]:
        return learn(s, random_steps(key, params, config.batch_size))

    return jax.lax.scan(update, s, jax.random.split(key, config.pretrain))[0]
