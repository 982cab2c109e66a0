"""Outcomes of episodes."""

from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """Outcomes of n episodes."""

    success: Any  # [n] bool, goal reached
    length: Any  # [n]
    ret: Any  # [n] sum of rewards
    cost: Any  # [n, J], discounted if budgets are for means
