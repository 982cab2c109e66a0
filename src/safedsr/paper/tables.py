"""The five printed tables of results (Tables 3 to 7) and the cells in them."""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

BUDGET = 5.0
STEPS = 500_000
SEEDS = 10


class Reported(NamedTuple):
    """One printed row: statistics over ten seeds."""

    mean: float
    std: float
    p25: float
    iqm: float
    p75: float


class PaperTable(NamedTuple):
    """Where a printed table is found, and what it shows."""

    number: int
    key: str  # in tables.json
    title: str
    metric: str  # of safedsr.results; of the costs, all that begin so
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
        "If the printed costs of the eleven on-policy baselines are doubled (see the table of costs), their printed "
        "safe goals were perhaps counted with doubled costs too: against half the budget.",
    ),
    PaperTable(6, "episodic_reward_costs", "Reward of the last episode, environments with costs", "last reward", True),
    PaperTable(
        7,
        "episodic_cost_costs",
        "Cost of the last episode, environments with costs",
        "last cost",
        True,
        "All 33 printed cells of the eleven on-policy baselines are what ten even costs give (ten times the mean is "
        "even): their costs seem to be counted twice; those of SafeDQN and SafeDSR are not. The printed values are "
        "shown as printed and ours as the environment gives them: a baseline that does the same has half the cost.",
    ),
)


@cache
def _cells() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("tables.json").read_text(encoding="utf-8"))


def printed(key: str, layout: str, algorithm: str) -> Reported | None:
    """The printed row of an algorithm on a map, if there is one."""
    found = _cells()[key].get(layout, {}).get(algorithm)
    return Reported(*found) if found else None


def printed_algorithms() -> list[str]:
    """The thirteen algorithms of the printed tables."""
    return list(_cells()[TABLES[0].key]["one-room"])
