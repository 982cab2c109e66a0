"""SafeDSR-plus: results/plus-fresh, ten seeds that had no part in any choice."""

from functools import cache

import numpy as np

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import Summary, iqm, summarize
from safedsr.runs.storage import read_json


@cache
def trained(layout: str, costs: str, what: str) -> np.ndarray:
    """A column of training.csv, of every seed."""
    here = [row for row in sources.rows("plus-fresh/training.csv") if (row["layout"], row["costs"]) == (layout, costs)]
    if not here:
        raise KeyError(f"training.csv has no {layout} with {costs}")
    return np.array([float(row[what]) for row in here])


@cache
def _summary(layout: str, costs: str, what: str) -> Summary:
    return summarize(trained(layout, costs, what))


@text
def plus_safe_goals(layout: str, costs: str) -> str:
    """IQM of safe goals."""
    return formats.count(_summary(layout, costs, "safe_goals").iqm)


@text
def plus_goals(layout: str, costs: str) -> str:
    """IQM of goals."""
    return formats.count(_summary(layout, costs, "goals").iqm)


@text
def plus_interval(layout: str, costs: str) -> str:
    """IQM of safe goals with its 95 % bootstrap interval."""
    return formats.interval(_summary(layout, costs, "safe_goals"))


@text
def plus_least(layout: str, costs: str) -> str:
    """Safe goals of the worst seed."""
    return formats.count(trained(layout, costs, "safe_goals").min())


@text
def plus_oracle_share(layout: str, costs: str) -> str:
    """IQM of safe goals divided by those of the oracle that accounts for random actions, in percent."""
    oracle = sources.oracle(layout, costs, accounts_for_random=True).safe_goal_count
    return formats.percent(_summary(layout, costs, "safe_goals").iqm / oracle)


def adapted(costs: str, search: str, what: str) -> np.ndarray:
    """A column of adaptation.csv, of every agent; SEARCH is simulator or memory."""
    key = (costs, search)
    here = [r for r in sources.rows("plus-fresh/adaptation.csv") if (r["costs"], r["episodes_of_the_search"]) == key]
    if not here:
        raise KeyError(f"adaptation.csv has no {costs} with {search}")
    return np.array([float(row[what]) for row in here])


@text
def plus_adapted(costs: str, search: str) -> str:
    """IQM of the safe goal rate after the adaptation; SEARCH is simulator or memory."""
    return formats.fixed(float(iqm(adapted(costs, search, "safe_goal_rate"))), 3)


@text
def plus_adapted_least(costs: str, search: str) -> str:
    """The safe goal rate of the worst agent after the adaptation."""
    return formats.fixed(adapted(costs, search, "safe_goal_rate").min(), 3)


@text
def cells_adapted(costs: str, level: str, run: str = "safedsr-plus") -> str:
    """IQM of the safe goal rate after a level (none, cost, penalty, memory) of agents in results/plus/adaptation."""
    found = sorted((sources.RESULTS / "plus" / "adaptation" / run).glob(f"{costs}-[0-9]*.json"))
    rates = [row["safe"] for path in found for row in read_json(path)["rows"] if row["level"] == level]
    return formats.fixed(float(iqm(np.array(rates))), 3)
