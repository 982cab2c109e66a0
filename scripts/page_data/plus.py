"""SafeDSR-plus: results/plus, ten seeds that had no part in any choice."""

import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from page_data import formats, sources
from page_data.registry import text
from safedsr.paper import plus_adaptation, plus_greedy, plus_tables
from safedsr.paper.experiments import MISFITS, NO_MAP, PLUS, PLUS_COSTS, SINGLE, UNITS, WHOLE
from safedsr.runs.metrics import Summary, iqm, summarize
from safedsr.runs.storage import read_json

FOLDER = sources.RESULTS / "plus"
RUN_OF = {"none": SINGLE, "diamond,square": f"{PLUS}-two-costs"}  # without costs, λ has no part
_SAME = "same λ rule, ε schedule, updates a step, batch size and ring"
WORDS = {
    "none": "SafeDSR-plus",
    "single": "**SafeDSR-plus with one λ at a time**",
    "safedsr, matched": f"SafeDSR with an absorbing goal, {_SAME}",
    "safedqn, matched": f"SafeDQN, {_SAME}",
    "heads": "Q and K without codes (Schmidt et al. 2022)",
    "no-outcomes": "reward and costs are no features",
    "points-32": "32 points as codes, no map",
    "points-256": "256 points as codes, no map",
    "points-1024": "1 024 points as codes, no map",
    "no-waves": "no sine and cosine inputs",
    "greedy-target": "targets without random actions",
    "no-idle": "no extra steps that changed nothing",
    "paper-penalty": "the paper's λ rule",
    "costs-tenth": "costs and budget × 0.1",
    "costs-ten": "costs and budget × 10",
    "costs-thousand": "costs and budget × 1 000",
    "rewards-tenth": "rewards × 0.1",
    "rewards-ten": "rewards × 10",
    "both": "costs and budget × 10, rewards × 0.1",
    "step-large": "reward of a step −0.05 instead of −0.01",
    "step-zero": "reward of a step 0",
    "step-zero-bonus": "reward of a step 0, `--bonus 0.05`",
    "goal-ten": "reward of the goal 10 instead of 1",
}


def _run_of(layout: str, costs: str) -> str:
    return f"{PLUS}-four-rooms" if layout == "rooms-4" else RUN_OF.get(costs, f"{PLUS}-{costs}")


@cache
def trained(layout: str, costs: str, what: str = "safe goal count", run: str = "") -> np.ndarray:
    """A count of every seed."""
    return sources.result(run or _run_of(layout, costs), layout, costs, "plus").counts[what]


def _summary(layout: str, costs: str, what: str = "safe goal count", run: str = "") -> Summary:
    return summarize(trained(layout, costs, what, run))


def _oracle_share(layout: str, costs: str, run: str = "") -> float:
    oracle = sources.oracle(layout, costs, accounts_for_random=True, run=run or _run_of(layout, costs))
    return _summary(layout, costs, run=run).iqm / oracle.safe_goal_count


@text
def plus_safe_goals(layout: str, costs: str) -> str:
    """IQM of safe goals."""
    return formats.count(_summary(layout, costs).iqm)


@text
def plus_goals(layout: str, costs: str) -> str:
    """IQM of goals."""
    return formats.count(_summary(layout, costs, "goal count").iqm)


@text
def plus_least(layout: str, costs: str) -> str:
    """Safe goals of the worst seed."""
    return formats.count(trained(layout, costs).min())


@text
def plus_oracle_share(layout: str, costs: str) -> str:
    """IQM of safe goals divided by those of the oracle that accounts for random actions, in percent."""
    return formats.percent(_oracle_share(layout, costs))


@text
def plus_results() -> str:
    """Safe goals on all maps: IQM with interval, worst seed, share of the oracle."""
    costs = ("none", *PLUS_COSTS)
    lines = [[f"**{name}**", *(_cell(layout, name) for layout in sources.ROOMS)] for name in costs]
    lines.append(["**diamond and square**, budgets 5 and 10", "", "", _cell("three-rooms", "diamond,square")])
    return formats.table(["costs", *sources.ROOMS.values()], lines)


def _cell(layout: str, costs: str, run: str = "") -> str:
    found, share = _summary(layout, costs, run=run), formats.fixed(_oracle_share(layout, costs, run), 2)
    return f"{formats.interval(found)}; {formats.count(trained(layout, costs, run=run).min())}; {share}"


@text
def plus_no_map() -> str:
    """Safe goals of the agent with points as codes, as far as they are published; beside the oracle of the same run."""
    named = {costs: (f"{NO_MAP}-{costs}", costs) for costs in PLUS_COSTS}
    named |= {f"{costs}, reward and costs are no features": (f"{NO_MAP}-no-outcomes", costs) for costs in MISFITS}
    named |= {
        "diamond, 50 000 steps": (f"{NO_MAP}-short", "diamond"),
        "diamond, budget 0": (f"{NO_MAP}-zero", "diamond"),
    }
    lines = []
    for name, (run, costs) in named.items():
        cells = [_cell(layout, costs, run) if _there(run, layout, costs) else "" for layout in sources.ROOMS]
        if any(cells):
            lines.append([f"**{name}**", *cells])
    return formats.table_of_runs(["costs", *sources.ROOMS.values()], lines)


def _there(run: str, layout: str, costs: str) -> bool:
    return costs in sources.costs_in("plus", run, layout)


@text
def plus_four_rooms() -> str:
    """Four rooms with the diamond, with and without the bonus for novelty."""
    rows = (("the same settings", f"{PLUS}-four-rooms"), ("with `--bonus 0.05`", f"{PLUS}-four-rooms-bonus"))
    return formats.table(["four rooms, diamond", "safe goals"], [[n, _cell("rooms-4", "diamond", r)] for n, r in rows])


@text
def plus_greedy_rates() -> str:
    """The safe goal rate at ε = 0: IQM and worst seed."""
    lines = []
    found = read_json(FOLDER / plus_greedy.FILE)
    for row in (row for row in plus_greedy.WORDS if row in found):
        both = [
            (float(iqm(np.array(rates))), min(rates)) if (rates := found[row].get(room)) else ()
            for room in sources.ROOMS
        ]
        cells = ["; ".join(formats.fixed(value, 3) for value in pair) for pair in both]
        lines.append([plus_greedy.WORDS[row], *cells])
    return formats.table(["safe goal rate at ε = 0: IQM; worst seed", *sources.ROOMS.values()], lines)


def _variants(named: Mapping[str, str]) -> str:
    lines = []
    for folder, name in named.items():
        costs = {layout: _costs_of(folder, layout) for layout in sources.ROOMS}
        if any(costs.values()):
            cells = [_varied(folder, layout, one) if one else "" for layout, one in costs.items()]
            lines.append([WORDS.get(name, name), *cells])
    return formats.table(["", *sources.ROOMS.values()], lines)


def _varied(run: str, layout: str, costs: str) -> str:
    return (
        f"{formats.interval(_summary(layout, costs, run=run))}; {formats.count(trained(layout, costs, run=run).min())}"
    )


def _costs_of(folder: str, layout: str) -> str | None:
    """The costs of the diamond in a run folder, in its units; None if it is not published."""
    names = sources.costs_in("plus", folder, layout)
    return next((name for name in names if name == "diamond" or name.endswith("*diamond")), None)


@text
def plus_other_units() -> str:
    """Safe goals in other units and with shifted rewards, as far as they are published."""
    return _variants(plus_tables.OTHER_UNITS)


@text
def plus_units_largest_difference() -> str:
    """The largest difference of the IQM in other units from that in the usual ones, in percent."""
    found = []
    for name, layout in itertools.product(UNITS, sources.ROOMS):
        run = f"{PLUS}-{name}"
        other = trained(layout, str(_costs_of(run, layout)), run=run)
        usual = trained(layout, "diamond", run=WHOLE)[: len(other)]  # both begin with the same seed
        found.append(abs(float(iqm(other)) / float(iqm(usual)) - 1.0))
    return formats.fixed(100.0 * max(found), 1)


@text
def plus_controls() -> str:
    """Safe goals of matched controls and ablations, as far as they are published."""
    return _variants(plus_tables.CONTROLS)


@cache
def adapted(costs: str, search: str, run: str = WHOLE) -> list[dict[str, Any]]:
    """The rows of every agent (before, and after each level); SEARCH is simulator or memory."""
    found = sorted((FOLDER / plus_adaptation.FOLDER / run).glob(f"{costs}-{search}-*.json"))
    if not found:
        raise KeyError(f"no agent of {run} was adapted to {costs} with λ by {search}")
    return [{row["level"]: row for row in read_json(path)["rows"]} for path in found]


def _rates(costs: str, search: str, level: str, what: str = "safe", run: str = WHOLE) -> np.ndarray:
    return np.array([rows[level][what] for rows in adapted(costs, search, run)])


@text
def plus_adapted(costs: str, search: str, level: str = "memory", run: str = WHOLE) -> str:
    """IQM of the safe goal rate after the adaptation; SEARCH is simulator or memory."""
    return formats.fixed(float(iqm(_rates(costs, search, level, run=run))), 3)


@text
def plus_adaptation_rows() -> str:
    """Adaptation of the agents of two rooms with the diamond to other costs."""
    lines = []
    for costs in plus_adaptation.NEW:
        cells = [plus_adapted(costs, plus_adaptation.SIMULATOR, level) for level in ("none", "cost", "penalty")]
        for search in (plus_adaptation.SIMULATOR, plus_adaptation.MEMORY):
            cells.append(
                f"**{plus_adapted(costs, search)}** ({formats.fixed(_rates(costs, search, 'memory').min(), 3)})"
            )
        foreseen = _rates(costs, plus_adaptation.MEMORY, "memory", "foreseen")
        cells.append(formats.fixed(float(iqm(foreseen)), 3))
        cells.append(" / ".join(formats.fixed(np.median(_rates(costs, s, "memory", "seconds")), 0) for s in _SEARCHES))
        lines.append([costs, *cells])
    head = ["new costs", "nothing done", "new weights", "and λ", "and M; λ by simulation", "and M; λ from memory"]
    return formats.table([*head, "foreseen from memory", "seconds"], lines)


@text
def plus_adapted_others() -> str:
    """The same adaptation of controls and ablations: weights and λ, then M too; λ by simulation."""
    lines = []
    for folder, name in OTHERS.items():
        fit = " / ".join(formats.fixed(float(iqm(_fits(costs, folder))), 2) for costs in plus_adaptation.NEW)
        cells = [_twice(costs, folder) for costs in plus_adaptation.NEW]
        lines.append([name, fit, *cells])
    return formats.table(["", "R² of costs", *plus_adaptation.NEW], lines)


@text
def plus_adapted_greedy() -> str:
    """The same agents after M was adapted at ε = 0.25, acting at ε = 0.25 and without random actions."""
    lines = []
    for folder, name in OTHERS.items():
        cells = []
        for costs in plus_adaptation.NEW:
            both = (
                _rates(costs, plus_adaptation.SIMULATOR, "memory", what, folder) for what in ("safe", "safe_greedy")
            )
            cells.append(" → ".join(formats.fixed(float(iqm(rates)), 3) for rates in both))
        lines.append([name, *cells])
    return formats.table(["ε = 0.25 → ε = 0", *plus_adaptation.NEW], lines)


def _twice(costs: str, run: str) -> str:
    light, whole = (_rates(costs, plus_adaptation.SIMULATOR, level, run=run) for level in ("penalty", "memory"))
    middles = [formats.fixed(float(iqm(rates)), 3) for rates in (light, whole)]
    count = "" if len(whole) == AGENTS else f", {len(whole)} agents"
    return f"{middles[0]} → {middles[1]} ({formats.fixed(whole.min(), 3)}{count})"


def _fits(costs: str, run: str) -> np.ndarray:
    """R² of the new costs, predicted with refitted weights, for every agent."""
    folder = FOLDER / plus_adaptation.FOLDER / run
    return np.array([read_json(path)["r2"] for path in folder.glob(f"{costs}-{plus_adaptation.SIMULATOR}-*.json")])


# Runs that are adapted with the simulator only; seeds and λ rule of SINGLE.
OTHERS = {
    SINGLE: WORDS["single"],
    **{f"{PLUS}-{name}": WORDS[name] for name in ("points-32", "points-256", "points-1024", "no-outcomes", "heads")},
    "safedsr-matched": WORDS["safedsr, matched"],
}
AGENTS = 10
_SEARCHES = (plus_adaptation.SIMULATOR, plus_adaptation.MEMORY)


@text
def plus_foreseen_error(kind: str) -> str:
    """How far the certificate from memory was above the truth, over all agents and costs; KIND is mean or largest."""
    gaps = np.concatenate(
        [
            _rates(costs, plus_adaptation.MEMORY, "memory", "foreseen")
            - _rates(costs, plus_adaptation.MEMORY, "memory")
            for costs in plus_adaptation.NEW
        ]
    )
    return formats.fixed(float(gaps.mean() if kind == "mean" else np.abs(gaps).max()), 3)
