"""Outcomes of episodes."""

from typing import Any, NamedTuple

from safedsr.envs.environment import Environment
from safedsr.errors import UserError

MANY = 100_000  # steps of an episode in an environment without a time limit


class Outcome(NamedTuple):
    """Outcomes of n episodes."""

    success: Any  # [n] bool, goal reached
    length: Any  # [n]
    ret: Any  # [n] sum of rewards
    cost: Any  # [n, J], discounted if budgets are for means


def most_steps(environment: Environment) -> int:
    """Steps after which an episode that has not ended is given up."""
    return environment.spec.time_limit or MANY


def endless(environment: Environment) -> UserError:
    """The error for an episode that does not end."""
    steps = most_steps(environment)
    return UserError(
        f"an episode in '{environment.name}' has not ended after {steps} steps; give the environment a time limit, "
        "which belongs to its training (safedsr train … --time-limit 1000)"
    )
