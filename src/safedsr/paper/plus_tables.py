"""The tables of the experiment 'plus': the agent and the oracle on every map, other units, controls and ablations."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from safedsr.core.config import EpsilonSchedule
from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.envs.grid.config import OracleConfig
from safedsr.paper.adaptation_tables import TextTable, write_tables
from safedsr.paper.experiments import ABLATIONS, PLUS, PLUS_COSTS, SHIFTED, SINGLE, UNITS, WHOLE
from safedsr.runs.collect import load_results
from safedsr.runs.labels import fixed, thousands
from safedsr.runs.metrics import Summary, iqm, summarize
from safedsr.runs.reference import References, add_references, reference_of
from safedsr.runs.results import Result, smooth

FILE, UNKNOWN = "tables.md", "–"
WITHOUT_MAP = tuple(f"no-map-{name}" for name in (*PLUS_COSTS, "no-outcomes", "short", "zero"))
MAPS = tuple(
    f"{PLUS}-{name}" for name in (*PLUS_COSTS, "two-costs", "four-rooms", "four-rooms-bonus", *WITHOUT_MAP, "single")
)
OTHER_UNITS = {WHOLE: "none", **{f"{PLUS}-{name}": name for name in (*UNITS, *SHIFTED)}}
MATCHED = {f"{name}-matched": f"{name}, matched" for name in ("safedsr", "safedqn")}
CONTROLS = {WHOLE: "none", SINGLE: "single", **MATCHED, **{f"{PLUS}-{name}": name for name in ABLATIONS}}
# This oracle accounts for random actions. It is stronger than the oracle of the figures, which does not.
ORACLE = OracleConfig(plan_epsilon=EpsilonSchedule().epsilon_end)


def finish(out: Path, oracle: bool) -> list[TextTable]:
    """Write the tables of the experiment in `out`, full or packed; with `oracle`, compute the oracle's numbers too."""
    remarks: list[str] = []
    results = load_results([out], remarks)
    for remark in remarks:
        print(remark)
    judged = [result for result in results if result.path.name in MAPS] if oracle else []
    known = add_references(judged, out, ORACLE, show=lambda name: print(f"oracle of {name}", flush=True))
    tables = [
        maps_table(results, known),
        variants_table(results, OTHER_UNITS, "Other units and shifted rewards"),
        variants_table(results, CONTROLS, "Controls, and ablations: one part changed at a time"),
    ]
    write_tables(out / FILE, tables)
    return tables


def final_rate(result: Result) -> np.ndarray:
    """The safe goal rate [S] over the last 20 000 steps, of each seed."""
    return smooth(result, result.series["safe"])[:, -1]


def maps_table(results: Sequence[Result], references: References) -> TextTable:
    """The agent on every map."""
    lines = [_map_line(result, references) for name in MAPS for result in results if result.path.name == name]
    columns = (
        "run",
        "map",
        "costs",
        "budget",
        "goals",
        "safe goals",
        "worst seed",
        "oracle",
        "share",
        "rate",
        "worst rate",
        "oracle's rate",
    )
    note = (
        "Goals and safe goals: counts over the whole training, IQM over seeds. Safe goals: with a 95 % bootstrap "
        "interval, for the worst seed, for the oracle, and the IQM divided by the oracle's. Rate: the safe goal rate "
        "over the last 20 000 steps: mean over seeds, worst seed, and oracle. The oracle has the same ε schedule as "
        f"the agents, and its plan accounts for ε = {ORACLE.plan_epsilon:g}."
    )
    return TextTable("SafeDSR-plus on every map", columns, lines, note)


def _map_line(result: Result, references: References) -> tuple[str, ...]:
    safe, last, oracle = result.counts["safe goal count"], final_rate(result), reference_of(result, references, ORACLE)
    return (
        result.path.name,
        result.layout,
        ", ".join(result.costs),
        ", ".join(f"{budget:g}" for budget in result.budgets),
        thousands(float(iqm(result.counts["goal count"]))),
        _interval(summarize(safe)),
        thousands(safe.min()),
        thousands(oracle.safe_goal_count) if oracle else UNKNOWN,
        fixed(float(iqm(safe)) / oracle.safe_goal_count, 3) if oracle else UNKNOWN,
        fixed(last.mean(), 3),
        fixed(last.min(), 3),
        fixed(oracle.exploring.safe_goal_rate, 3) if oracle else UNKNOWN,
    )


def variants_table(results: Sequence[Result], named: Mapping[str, str], title: str) -> TextTable:
    """Safe goals with the diamond costs, of runs that differ in one thing; `named` says in which, by run folder."""
    known = [result for result in results if result.costs[0].split("*")[-1] == "diamond"]  # in any units
    found = {(result.path.name, result.layout): result for result in known}
    lines = []
    for folder, differs in named.items():
        here = [found.get((folder, layout)) for layout in ROOM_NAMES]
        if any(here):
            lines.append((differs, *(_varied(result) if result else UNKNOWN for result in here)))
    note = "Safe goals with the diamond costs: IQM over seeds with a 95 % bootstrap interval; then the worst seed."
    return TextTable(title, ("what differs", *ROOM_NAMES), lines, note)


def _varied(result: Result) -> str:
    safe = result.counts["safe goal count"]
    return f"{_interval(summarize(safe))}; {thousands(safe.min())}"


def _interval(found: Summary) -> str:
    return f"{thousands(found.iqm)} ({thousands(found.low)} … {thousands(found.high)})"
