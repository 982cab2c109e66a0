"""The tables of the experiment 'plus': SafeDSR-plus and the oracle on every map, and the ablations."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from safedsr.core.config import EpsilonSchedule
from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.envs.grid.config import OracleConfig
from safedsr.paper.adaptation_tables import TextTable, write_tables
from safedsr.paper.experiments import ABLATIONS, EXPERIMENTS
from safedsr.runs.collect import load_results
from safedsr.runs.labels import thousands
from safedsr.runs.metrics import Summary, iqm, summarize
from safedsr.runs.reference import References, add_references, reference_of
from safedsr.runs.results import Result, smooth

WHOLE = "safedsr-plus"
FILE, UNKNOWN = "tables.md", "–"
# This oracle accounts for random actions. It is stronger than the oracle of the figures, which does not.
ORACLE = OracleConfig(plan_epsilon=EpsilonSchedule().epsilon_end)


def finish(out: Path, oracle: bool) -> list[TextTable]:
    """Write the tables of the experiment in `out`, full or packed; with `oracle`, compute the oracle's numbers too."""
    remarks: list[str] = []
    results = load_results([out], remarks)
    for remark in remarks:
        print(remark)
    judged = [result for result in results if result.path.name not in _ablations()] if oracle else []
    known = add_references(judged, out, ORACLE, show=lambda name: print(f"oracle of {name}", flush=True))
    tables = [maps_table(results, known), ablation_table(results)]
    write_tables(out / FILE, tables)
    return tables


def _ablations() -> dict[str, str]:
    """Folder → removed part."""
    return {f"{WHOLE}-{name}": name for name in ABLATIONS}


def final_rate(result: Result) -> np.ndarray:
    """The safe goal rate [S] over the last 20 000 steps, of each seed."""
    return smooth(result, result.series["safe"])[:, -1]


def maps_table(results: Sequence[Result], references: References) -> TextTable:
    """The agent without ablations, on every map."""
    order = [row.folder(WHOLE) for row in EXPERIMENTS["plus"] if row.name not in ABLATIONS]
    lines = []
    for name in order:
        here = [result for result in results if result.path.name == name]
        lines += [_map_line(result, references) for result in here]
    columns = (
        "map",
        "costs",
        "budget",
        "goals",
        "safe goals",
        "worst seed",
        "oracle",
        "rate",
        "worst rate",
        "oracle's rate",
    )
    note = (
        "Goals and safe goals: counts over the whole training, IQM over seeds. Safe goals: with a 95 % bootstrap "
        "interval, for the worst seed, and for the oracle. Rate: the safe goal rate over the last 20 000 steps: mean "
        "over seeds, worst seed, and oracle. The oracle has the same ε schedule as the agents, and its plan accounts "
        f"for ε = {ORACLE.plan_epsilon:g}."
    )
    return TextTable("SafeDSR-plus on every map", columns, lines, note)


def _map_line(result: Result, references: References) -> tuple[str, ...]:
    safe, last, oracle = result.counts["safe goal count"], final_rate(result), reference_of(result, references, ORACLE)
    return (
        result.layout,
        ", ".join(result.costs),
        ", ".join(f"{budget:g}" for budget in result.budgets),
        thousands(float(iqm(result.counts["goal count"]))),
        _interval(summarize(safe)),
        thousands(safe.min()),
        thousands(oracle.safe_goal_count) if oracle else UNKNOWN,
        f"{last.mean():.3f}",
        f"{last.min():.3f}",
        f"{oracle.exploring.safe_goal_rate:.3f}" if oracle else UNKNOWN,
    )


def ablation_table(results: Sequence[Result]) -> TextTable:
    """Safe goals with the diamond costs, with one part removed at a time."""
    named = {WHOLE: "none", **_ablations()}
    found: Mapping[tuple[str, str], Result] = {
        (result.path.name, result.layout): result for result in results if result.costs == ("diamond",)
    }
    lines = []
    for folder, taken in named.items():
        here = [found.get((folder, layout)) for layout in ROOM_NAMES]
        if any(here):
            lines.append((taken, *(_ablated(result) if result else UNKNOWN for result in here)))
    note = "Safe goals with the diamond costs: IQM over seeds with a 95 % bootstrap interval; then the worst seed."
    return TextTable("Ablations: one part removed at a time", ("removed part", *ROOM_NAMES), lines, note)


def _ablated(result: Result) -> str:
    safe = result.counts["safe goal count"]
    return f"{_interval(summarize(safe))}; {thousands(safe.min())}"


def _interval(found: Summary) -> str:
    return f"{thousands(found.iqm)} ({thousands(found.low)} … {thousands(found.high)})"
