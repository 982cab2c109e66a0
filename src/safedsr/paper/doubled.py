"""Were the costs of the paper's baselines counted twice, and did the baselines also learn from doubled costs?

In the paper, all costs of the on-policy baselines are even. This module compares three conditions with the paper: true
costs; doubled costs; and true costs in learning but doubled costs in the safe goal count (the same as half the budget).
It uses the goal counts of seven baselines in one room.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from safedsr.paper.tables import BUDGET, STEPS, reported
from safedsr.runs.results import HALVED, Result

BASELINES = ("cppo-pid", "trpo-pid", "cpo", "ipo", "oncrpo", "ppo-lag", "rcpo")
LAYOUT = "one-room"
CONDITIONS = {  # costs of the runs, and the count that is used as safe goals
    "cost 1": ("diamond", "safe goal count"),
    "cost 1, safety counted at 2": ("diamond", HALVED),
    "cost 2": ("2*diamond", "safe goal count"),
}
BOOTSTRAPS = 4_000

Counts = Mapping[str, np.ndarray]  # algorithm -> [2, S]: goals and safe goals of each seed


class Misfit(NamedTuple):
    """The distance of a condition from the paper's counts: Σ |log(ours / paper's)| of means over seeds."""

    value: float
    low: float  # 95 % bootstrap interval over seeds
    high: float
    best: float  # share of bootstrap samples in which this condition fits best


def counts_of(results: Sequence[Result], condition: str) -> Counts | None:
    """The counts of a condition; None if one of the seven baselines is missing."""
    costs, safe = CONDITIONS[condition]
    found = {
        result.algorithm: np.stack([result.counts["goal count"], result.counts[safe]])
        for result in results
        if (result.layout, result.costs, result.budgets, result.steps) == (LAYOUT, (costs,), (BUDGET,), STEPS)
        and result.algorithm in BASELINES
        and safe in result.counts
    }
    return found if len(found) == len(BASELINES) else None


def misfits(results: Sequence[Result], seed: int = 0) -> dict[str, Misfit] | None:
    """The misfit of every condition; None if results of one condition are missing."""
    counts = {name: counts_of(results, name) for name in CONDITIONS}
    if not all(counts.values()):
        return None
    rng = np.random.default_rng(seed)
    samples = np.array([_sample(counts, rng) for _ in range(BOOTSTRAPS)])  # [n, conditions]
    best = np.bincount(samples.argmin(1), minlength=len(counts)) / BOOTSTRAPS
    low, high = np.percentile(samples, [2.5, 97.5], axis=0)
    values = [misfit({name: both.mean(1) for name, both in found.items()}) for found in counts.values() if found]
    return {name: Misfit(*map(float, row)) for name, *row in zip(counts, values, low, high, best, strict=True)}


def _sample(counts: Mapping[str, Counts | None], rng: np.random.Generator) -> list[float]:
    """The misfits of one bootstrap sample of seeds; conditions with the same runs use the same sample."""
    picks = {costs: {name: rng.random(100) for name in BASELINES} for costs, _ in CONDITIONS.values()}
    found = []
    for condition, (costs, _) in CONDITIONS.items():
        means = {}
        for name, both in (counts[condition] or {}).items():
            seeds = both.shape[1]
            means[name] = both[:, (picks[costs][name][:seeds] * seeds).astype(int)].mean(1)
        found.append(misfit(means))
    return found


def misfit(means: Mapping[str, np.ndarray]) -> float:
    """Σ |log(ours / paper's)| over goals and safe goals [2] of each algorithm; counts below 1 count as 1."""
    total = 0.0
    for name, ours in means.items():
        for key, value in zip(("goal_count_costs", "safe_goal_count_costs"), ours, strict=True):
            paper = reported(key, LAYOUT, name)
            assert paper
            total += abs(np.log(max(value, 1.0) / paper.mean))
    return float(total)
