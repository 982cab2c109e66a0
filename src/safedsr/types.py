"""Records that travel between modules. The paper's symbols and our names for them: docs/notation.md."""

from typing import NamedTuple

from jax import Array


class Step(NamedTuple):
    """What one environment step gives."""

    obs: Array  # [2] where the agent acts next: a fresh start if the episode ended
    reward: Array  # []
    cost: Array  # [J]
    terminated: Array  # [] bool, the goal was reached
    truncated: Array  # [] bool, the time limit was
    next_obs: Array  # [2] s′, before any reset
