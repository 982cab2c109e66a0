"""The experiment with changing costs: results/adaptation, for docs/adaptation.md and README.md."""

from functools import cache
from typing import Any

import numpy as np

from page_data import formats, sources
from page_data.registry import text
from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_arms import RUNG_NAMES
from safedsr.paper.adaptation_readings import READINGS
from safedsr.paper.adaptation_tables import EVALUATIONS
from safedsr.runs.metrics import iqm
from safedsr.runs.storage import read_json

CHANGES = {change.after: number for number, change in enumerate(plan.CHANGES)}  # named by the new costs
WINDOW = 5_000  # environment steps over which an agent has to be safe; also the first moment possible


@cache
def _data() -> dict[str, Any]:
    return read_json(sources.RESULTS / "adaptation" / "adaptation.json")


def rate(value: float) -> str:
    """A rate with two digits; small ones with three, zero as 0."""
    if 0 < value < 0.0005:
        return "< 0.001"
    return "0" if value == 0 else formats.fixed(value, 2 if value >= 0.0095 else 3)


def _column(rows: list[dict[str, Any]], name: str) -> np.ndarray:
    found = np.array([row[name] for row in rows if row[name] is not None], np.float64)
    if not len(found):
        raise KeyError(f"no {name} is stored")
    return found


def phase(variant: str, costs: str, number: int) -> list[dict[str, Any]]:
    """The rows of a phase, one a seed."""
    key = (variant, CHANGES[costs], number)
    return [row for row in _data()["phases"] if (row["variant"], row["change"], row["phase"]) == key]


def _middle(rows: list[dict[str, Any]], name: str) -> float:
    return float(iqm(_column(rows, name)))


@text
def adaptation_phases() -> str:
    """Every evaluation phase of every variant: safe goal rate / goal rate / cost / λ."""
    lines = []
    for change in plan.CHANGES:
        for number, one in enumerate(EVALUATIONS):
            if one.number == 2 and change.after == "inverse-diamond":
                continue  # the same agents as before the square
            first = not lines or number == 0 or (number == 1 and change.after == "inverse-diamond")
            cells = [_phase_cell(phase(variant.name, change.after, one.number)) for variant in plan.VARIANTS]
            lines.append([change.name if first else "", f"{one.number} {one.name.split()[0]}", *cells])
    return formats.table(["change", "evaluation", *(variant.name for variant in plan.VARIANTS)], lines)


def _phase_cell(rows: list[dict[str, Any]]) -> str:
    safe, goal, cost, lam = (_middle(rows, name) for name in ("safe", "goal", "cost", "lam"))
    return f"{rate(safe)} / {formats.fixed(goal, 2)} / {formats.fixed(cost, 0)} / {formats.fixed(lam, 1)}"


@text
def phase_rate(variant: str, costs: str, number: str) -> str:
    """IQM of the safe goal rate in a phase; COSTS are the new ones."""
    return rate(_middle(phase(variant, costs, int(number)), "safe"))


@text
def phase_lam(variant: str, costs: str, number: str) -> str:
    """IQM of λ at the end of a phase."""
    return formats.fixed(_middle(phase(variant, costs, int(number)), "lam"), 1)


@text
def largest_mean_rate(costs: str) -> str:
    """The largest mean safe goal rate of all variants in phases 3, 5 and 7."""
    found = (_column(phase(v.name, costs, n), "safe").mean() for v in plan.VARIANTS for n in (3, 5, 7))
    return formats.fixed(float(max(found)), 3)


@text
def phase_costs(costs: str, end: str) -> str:
    """The least or the largest IQM of an episode's cost in phases 3 and 5; END is least or largest."""
    found = [_middle(phase(v.name, costs, n), "cost") for v in plan.VARIANTS for n in (3, 5)]
    return formats.fixed({"least": min, "largest": max}[end](found), 0)


def rung(variant: str, level: str, costs: str) -> list[dict[str, Any]]:
    """The rows of a level without environment steps (none, cost, penalty, memory), one an agent."""
    key = (variant, level, CHANGES[costs])
    return [row for row in _data()["rungs"] if (row["variant"], row["level"], row["change"]) == key]


@text
def rung_rate(variant: str, level: str, costs: str) -> str:
    """IQM of the safe goal rate after a level without environment steps."""
    return rate(_middle(rung(variant, level, costs), "safe"))


@text
def rung_extreme(variant: str, level: str, costs: str, end: str) -> str:
    """The safe goal rate of the worst or best agent after a level; END is least or most."""
    return rate({"least": np.min, "most": np.max}[end](_column(rung(variant, level, costs), "safe")))


@text
def rung_seconds(level: str, end: str) -> str:
    """Seconds of a level over all agents and changes; END is least, median or most."""
    found = _column([row for row in _data()["rungs"] if row["level"] == level], "seconds")
    value = {"least": np.min, "median": np.median, "most": np.max}[end](found)
    return formats.fixed(value, 0 if value >= 1 else 1)


@text
def rungs_with_less_cost(costs: str) -> str:
    """How many of the twenty agents have a lower mean cost after new cost weights."""
    pairs = [
        (before["cost"], after["cost"])
        for variant in plan.COMPARED
        for before in rung(variant.name, "none", costs)
        for after in rung(variant.name, "cost", costs)
        if before["seed"] == after["seed"]
    ]
    return f"{sum(after < before for before, after in pairs)} of {len(pairs)}"


def arm(owner: str, name: str, costs: str) -> list[dict[str, Any]]:
    """The rows of a method with environment steps; NAME is its letter."""
    key = (owner, f"({name})", CHANGES[costs])
    return [row for row in _data()["arms"] if (row["owner"], row["arm"].partition(" ")[0], row["change"]) == key]


@text
def arm_rate(owner: str, name: str, costs: str) -> str:
    """IQM of the safe goal rate of the last 20 000 steps of a method with environment steps."""
    return rate(_middle(arm(owner, name, costs), "last"))


@text
def arm_violations(owner: str, name: str, costs: str) -> str:
    """Median of the episodes over the budget until safe, or in all 200 000 steps."""
    return formats.count(float(np.median(_column(arm(owner, name, costs), "violations"))))


@text
def arm_steps(owner: str, name: str, costs: str) -> str:
    """Steps until safe of every seed that was ever safe, in order."""
    return ", ".join(formats.count(step) for step in np.sort(_column(arm(owner, name, costs), "steps")))


@text
def adaptation_oracle(costs: str) -> str:
    """The oracle's safe goal rate at ε = 0.25."""
    return formats.fixed(_data()["oracle"][costs]["safe_goal_rate"], 2)


@text
def adaptation_comparison() -> str:
    """Every method after every change: safe goal rate; seeds ever safe; median step."""
    lines = []
    for level, name in RUNG_NAMES.items():
        for v in plan.COMPARED:
            lines.append([name, f"safedsr-{v.name}", *(_rung_cell(v.name, level, costs) for costs in CHANGES)])
    first = [row for row in _data()["arms"] if row["change"] == 0]
    for name, owner in sorted({(row["arm"], row["owner"]) for row in first}):
        letter = name[1]
        lines.append([name, owner, *(_arm_cell(arm(owner, letter, costs)) for costs in CHANGES)])
    return formats.table(["method", "agent", *CHANGES], lines)


def _rung_cell(variant: str, level: str, costs: str) -> str:
    rows, enough = rung(variant, level, costs), _data()["oracle"][costs]["safe_goal_rate"] / 2
    return _cell(_middle(rows, "safe"), [0 if row["safe"] >= enough else None for row in rows])


def _arm_cell(rows: list[dict[str, Any]]) -> str:
    return _cell(_middle(rows, "last"), [row["steps"] for row in rows])


def _cell(value: float, steps: list[int | None]) -> str:
    safe = [step for step in steps if step is not None]
    if not safe:
        return rate(value)
    middle = float(np.median([np.inf if step is None else step for step in steps]))
    shown = formats.UNKNOWN if np.isinf(middle) else formats.count(middle)
    return f"{rate(value)}, {len(safe)} of {len(steps)}, {shown}"


@cache
def _readings() -> list[dict[str, Any]]:
    path = sources.RESULTS / "readings" / "adaptation.json"
    return read_json(path)["rows"] if path.exists() else []


def _read(name: str, costs: str, number: int, epsilon: float) -> list[dict[str, Any]]:
    key = (name, CHANGES[costs], number, epsilon)
    return [row for row in _readings() if (row["reading"], row["change"], row["phase"], row["epsilon"]) == key]


@text
def adaptation_readings(costs: str) -> str:
    """Every reading: safe goal rate at ε = 0.25 and at ε = 0, and cost, in each evaluation; COSTS are the new ones."""
    lines = []
    for name in dict.fromkeys(row["reading"] for row in _readings()):
        cells = [_reading_cell(name, costs, one.number) for one in EVALUATIONS]
        lines.append([f"`{name}`", *cells])
    return formats.table_of_runs(["reading", *(f"{one.number} {one.name.split()[0]}" for one in EVALUATIONS)], lines)


def _safe_ones(name: str, costs: str, number: str) -> list[int]:
    return [row["seed"] for row in _read(name, costs, int(number), 0.0) if row["safe"] >= 0.9]


@text
def reading_safe_seeds(name: str, costs: str, number: str) -> str:
    """Seeds of a reading whose agents, at ε = 0, are safe in nine of ten episodes of an evaluation."""
    return f"{len(_safe_ones(name, costs, number))} of {len(_read(name, costs, int(number), 0.0))}"


@text
def reading_safe_rates(name: str, costs: str, number: str) -> str:
    """The safe goal rates of these agents at ε = 0.25."""
    return _of_safe_ones(name, costs, number, "safe")


@text
def reading_lams(name: str, costs: str, number: str) -> str:
    """λ of these agents."""
    return _of_safe_ones(name, costs, number, "lam")


def _of_safe_ones(name: str, costs: str, number: str, what: str) -> str:
    seeds = _safe_ones(name, costs, number)
    rows = _read(name, costs, int(number), 0.25)
    return " and ".join(formats.fixed(row[what], 2) for row in rows if row["seed"] in seeds)


@text
def adaptation_readings_missing() -> str:
    """The readings of changing costs that were not run."""
    known = {row["reading"] for row in _readings()}
    return ", ".join(f"`{one.name}`" for one in READINGS if one.name not in known) or "none"


@text
def adaptation_readings_feasible(costs: str) -> str:
    """How many readings have an agent that is safe in nine of ten episodes at ε = 0 after phase 7: 2 of 14."""
    names = list(dict.fromkeys(row["reading"] for row in _readings()))
    return f"{sum(bool(_safe_ones(name, costs, '7')) for name in names)} of {len(names)}"


def _reading_cell(name: str, costs: str, number: int) -> str:
    found = [_read(name, costs, number, epsilon) for epsilon in (0.25, 0.0)]
    rates = (rate(_middle(rows, "safe")) if rows else formats.UNKNOWN for rows in found)
    spent = (formats.fixed(_middle(rows, "cost"), 0) if rows else formats.UNKNOWN for rows in found)
    return f"{' / '.join(rates)} ({' / '.join(spent)})"
