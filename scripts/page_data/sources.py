"""The published data, read once."""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from safedsr.paper import plus_tables
from safedsr.paper.experiments import SINGLE
from safedsr.paper.tables import TABLES, Reported, reported
from safedsr.runs.collect import read_results
from safedsr.runs.metrics import Summary, summarize
from safedsr.runs.reference import Reference, References, read_references, reference_of
from safedsr.runs.results import Result

RESULTS = Path(__file__).resolve().parents[2] / "results"
ROOMS = {"one-room": "one room", "two-rooms": "two rooms", "three-rooms": "three rooms"}
FREE, GOALS, SAFE = (table.key for table in TABLES[:3])
BASELINES = tuple(["cpo", "cppo-pid", "ipo", "oncrpo", "p3o", "pcpo", "pdo", "ppo-lag", "rcpo", "trpo-lag", "trpo-pid"])
NAMES = {
    "cpo": "CPO",
    "cppo-pid": "CPPO-PID",
    "ipo": "IPO",
    "oncrpo": "OnCRPO",
    "p3o": "P3O",
    "pcpo": "PCPO",
    "pdo": "PDO",
    "ppo-lag": "PPO-Lag",
    "rcpo": "RCPO",
    "trpo-lag": "TRPO-Lag",
    "trpo-pid": "TRPO-PID",
}
ALL_NAMES = {**NAMES, "safedqn": "SafeDQN", "safedsr": "SafeDSR", "safedsr-plus": "SafeDSR-plus"}


@cache
def _folder(name: str) -> dict[tuple[str, str, str], Result]:
    """The results in and below a folder of results/, by run folder, map and costs."""
    found = read_results([RESULTS / name], [])
    return {(result.path.name, result.layout, ",".join(result.costs)): result for result in found}


def result(folder: str, layout: str, costs: str, among: str = "baselines") -> Result:
    """The result of a run folder on a map with costs."""
    return _folder(among)[folder, layout, costs]


def costs_in(among: str, folder: str, layout: str) -> list[str]:
    """The costs that a run folder has results for, on a map."""
    return [costs for name, where, costs in _folder(among) if (name, where) == (folder, layout)]


def seeds(folder: str, layout: str, costs: str, what: str = "goal count") -> np.ndarray:
    """A count of every seed; several folders joined by + are one sample."""
    return np.concatenate([result(one, layout, costs).counts[what] for one in folder.split("+")])


@cache
def summary(folder: str, layout: str, costs: str, what: str = "goal count") -> Summary:
    """Statistics of a count over seeds."""
    return summarize(seeds(folder, layout, costs, what))


def paper(key: str, layout: str, algorithm: str) -> Reported:
    """The paper's row of an algorithm on a map."""
    found = reported(key, layout, algorithm)
    if found is None:
        raise KeyError(f"the paper has no {algorithm} in {layout}")
    return found


@cache
def _references(name: str) -> References:
    return read_references(RESULTS / name)


def oracle(layout: str, costs: str, *, accounts_for_random: bool, run: str = SINGLE) -> Reference:
    """The oracle's results: with a plan that accounts for random actions, or without; `run` has the map and costs."""
    if accounts_for_random:
        found = reference_of(result(run, layout, costs, "plus"), _references("plus"), plus_tables.ORACLE)
    else:
        found = reference_of(result("safedqn", layout, costs), _references("baselines"))
    if found is None:
        raise KeyError(f"no oracle is stored for {layout} with {costs}")
    return found


@cache
def rows(file: str) -> list[dict[str, str]]:
    """The rows of a CSV file in results/."""
    with open(RESULTS / file, encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))
