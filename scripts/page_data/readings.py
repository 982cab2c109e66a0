"""Readings of SafeDSR beside the paper's numbers: results/readings."""

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from page_data import counts, formats, sources
from page_data.registry import text
from safedsr.runs.metrics import summarize
from safedsr.runs.results import Result

AGENT = "safedsr"
# Folder → what the reading changes in Alg. 2, in the order of the experiment
CHANGES = {
    "safedsr-cut": "Alg. 2 as the paper gives it",
    "safedsr-absorb": "the goal is no end, and goes on",
    "safedsr-restart": "no end at all: s′ is the next start, after goals and after the time limit",
    "safedsr-restart-goal": "no end at the goal: s′ is the next start",
    "safedsr-restart-goal-bias": "that, and biases beside w_r and w_c",
    "safedsr-restart-goal-no-unit-length": "s′ is the next start, and φ without unit length",
    "safedsr-restart-goal-equal-losses": "s′ is the next start, and all β are 1",
    "safedsr-bias": "biases beside w_r and w_c",
    "safedsr-absorb-bias": "the goal goes on, and biases beside w_r and w_c",
    "safedsr-cut-all": "the time limit is an end, too",
    "safedsr-no-unit-length": "φ without unit length",
    "safedsr-equal-losses": "all β are 1, as in the figure of the update",
    "safedsr-no-target-features": "φ itself in M's target",
    "safedsr-slow-target": "k_sync counts rounds of updates: 5 000 steps",
    "safedsr-uniform-batches": "no biased sampling",
    "safedsr-no-step-reward": "no reward but the goal's",
    "safedsr-sign-rewards": "rewards clipped to their sign",
    "safedsr-never-penalised": "λ stays 0; the costs are seen and not penalised",
    "dsr-cut": "no network for costs",
    "dsr-restart": "no network for costs, and no end at all",
}
PUBLISHED = ("safedsr-cut", "safedsr-absorb")  # in results/baselines
PENALTY_FREE = "safedsr-never-penalised"  # its goals stand beside the paper's without costs
FRESH = "-fresh"


class Fit(NamedTuple):
    """A reading's IQMs of goals without costs, goals and safe goals with the diamond, [3] rooms each."""

    free: list[float]
    goals: list[float]
    safe: list[float]
    seeds: int

    def distance(self) -> float:
        """Mean of |log(ours / the paper's)| over all numbers that the reading has; no goal counts as one."""
        found = []
        for ours, key in ((self.free, sources.FREE), (self.goals, sources.GOALS), (self.safe, sources.SAFE)):
            for value, layout in zip(ours, sources.ROOMS, strict=False):
                found.append(abs(math.log(max(value, 1.0) / sources.paper(key, layout, AGENT).iqm)))
        return float(np.mean(found))


@cache
def fit(folder: str) -> Fit | None:
    """The numbers of a reading, if it was run."""
    among = "baselines" if folder in PUBLISHED else "readings"

    def middles(costs: str, what: str = "goal count") -> list[float]:
        return [_iqm(sources.result(folder, layout, costs, among), what) for layout in sources.ROOMS]

    try:
        if folder == PENALTY_FREE:
            return Fit(middles("diamond"), [], [], _seeds(folder, among))
        if folder.startswith("dsr-"):
            return Fit(middles(""), [], [], _seeds(folder, among))
        return Fit(middles("none"), middles("diamond"), middles("diamond", counts.SAFE), _seeds(folder, among))
    except KeyError:
        return None


def _iqm(result: Result, what: str) -> float:
    return float(summarize(result.counts[what]).iqm)


def _seeds(folder: str, among: str) -> int:
    costs = sources.costs_in(among, folder, "one-room")[0]
    return len(sources.result(folder, "one-room", costs, among).counts["goal count"])


def _found() -> Iterator[tuple[str, str, Fit]]:
    """Folder, what it changes, and its numbers, of all readings that were run, with fresh seeds at the end."""
    for folder, change in CHANGES.items():
        for name, words in ((folder, change), (folder + FRESH, f"{change}; ten fresh seeds, 100–109")):
            if one := fit(name):
                yield name, words, one


@text
def readings_table() -> str:
    """All readings, nearest first, beside the paper's numbers."""

    def cells(one: Fit) -> list[str]:
        return [_triple(one.free), _triple(one.goals), _triple(one.safe)]

    rows = sorted(_found(), key=lambda row: row[2].distance())
    paper = Fit(*([sources.paper(key, layout, AGENT).iqm for layout in sources.ROOMS] for key in KEYS), seeds=10)
    lines = [["**the paper**", "", *cells(paper), "10", ""]]
    for name, change, one in rows:
        short = name.removeprefix("safedsr-")
        lines.append([f"`{short}`", change, *cells(one), str(one.seeds), _distance(one)])
    head = [
        "reading",
        "what it changes",
        "goals, no costs",
        "goals, diamond",
        "safe goals, diamond",
        "seeds",
        "distance",
    ]
    return formats.table(head, lines)


KEYS = (sources.FREE, sources.GOALS, sources.SAFE)


def _triple(values: list[float]) -> str:
    return " / ".join(map(formats.count, values)) or formats.UNKNOWN


def _distance(one: Fit) -> str:
    return formats.fixed(math.exp(one.distance()), 2)


@text
def readings_missing() -> str:
    """The readings that were not run yet."""
    return ", ".join(f"`{name.removeprefix('safedsr-')}`" for name in CHANGES if fit(name) is None) or "none"


@text
def reading_by_paper(folder: str, column: str) -> str:
    """Ours divided by the paper's, one / two / three rooms; COLUMN is free, goals or safe."""
    found = fit(folder)
    if found is None:
        raise KeyError(f"{folder} was not run")
    ours = {"free": found.free, "goals": found.goals, "safe": found.safe}
    key = KEYS[list(ours).index(column)]
    theirs = [sources.paper(key, layout, AGENT).iqm for layout in sources.ROOMS]
    return " / ".join(formats.fixed(our / their, 2) for our, their in zip(ours[column], theirs, strict=True))


@text
def least_in_reading(folder: str, layout: str, costs: str) -> str:
    """Goals of the worst seed of a reading."""
    return formats.count(sources.result(folder, layout, costs, "readings").counts["goal count"].min())
