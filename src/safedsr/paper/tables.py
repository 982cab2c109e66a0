"""The paper's five tables of results (Tables 3 to 7)."""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

BUDGET = 5.0
STEPS = 500_000
SEEDS = 10


class Reported(NamedTuple):
    """One row of a table in the paper: statistics over ten seeds."""

    mean: float
    std: float
    p25: float
    iqm: float
    p75: float


class PaperTable(NamedTuple):
    """One of the paper's tables: its number, and the metric that it shows."""

    number: int
    key: str  # in tables.json
    title: str
    metric: str  # a count of `Result`; for costs, the first words of all of them
    with_costs: bool
    note: str = ""


TABLES = (
    PaperTable(3, "goal_count_no_costs", "Goal count, environments without costs", "goal count", False),
    PaperTable(4, "goal_count_costs", "Goal count, environments with costs", "goal count", True),
    PaperTable(
        5,
        "safe_goal_count_costs",
        "Safe goal count, environments with costs",
        "safe goal count",
        True,
        "If the paper's costs of the eleven on-policy baselines are doubled (see Table 7), their safe goals were "
        "perhaps also counted with doubled costs, that is, with half the budget.",
    ),
    PaperTable(6, "episodic_reward_costs", "Reward of the last episode, environments with costs", "last reward", True),
    PaperTable(
        7,
        "episodic_cost_costs",
        "Cost of the last episode, environments with costs",
        "last cost",
        True,
        "In the paper, the costs of the eleven on-policy baselines seem to be counted twice: all their 33 cells are "
        "possible means of ten even costs (ten times the mean is even). This is not true for SafeDQN and SafeDSR. This "
        "table shows the paper's values unchanged, and our costs as the environment gives them: a baseline that "
        "behaves as in the paper has half the cost.",
    ),
)


@cache
def _cells() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("tables.json").read_text(encoding="utf-8"))


def reported(key: str, layout: str, algorithm: str) -> Reported | None:
    """The paper's values for an algorithm on a map; None if the paper has none."""
    found = _cells()[key].get(layout, {}).get(algorithm)
    return Reported(*found) if found else None
