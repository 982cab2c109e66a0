"""The benchmark of changing constraints: results/changing-v1, for docs/benchmark.md."""

from functools import cache

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import Summary
from safedsr.scenario.contestants import CONTESTANTS, enters
from safedsr.scenario.results import Row, read_results, rows
from safedsr.scenario.sets import changing_v1

SEEDS = 10
OURS = "safedsr-plus"
LEARNERS = tuple(name for name, one in CONTESTANTS.items() if one.kind in ("learner", "restart"))


@cache
def _rows() -> dict[str, dict[str, Row]]:
    """The rows of each scenario by contestant, in the order of the set; those with fewer seeds are left out."""
    found: dict[str, dict[str, Row]] = {one.name: {} for one in changing_v1()}
    for row in rows(read_results(sources.RESULTS / "changing-v1")):
        if row.seeds >= SEEDS:
            found[row.scenario][row.contestant] = row
    return found


@cache
def _expected() -> dict[str, list[str]]:
    """The contestants of each scenario."""
    silent = {one.name: not all(part.values.get("announced", True) for part in one.changes) for one in changing_v1()}
    return {name: [c.name for c in CONTESTANTS.values() if enters(c, quiet)] for name, quiet in silent.items()}


def _cell(found: Summary, digits: int = 0) -> str:
    middle, low, high = (
        formats.fixed(x, digits) if digits else formats.count(x) for x in (found.iqm, found.low, found.high)
    )
    return f"{middle} ({low} … {high})"


def _until(row: Row) -> str:
    return formats.UNKNOWN if row.steps_until is None else formats.count(row.steps_until)


@text
def changing_table(scenario: str) -> str:
    """The contestants of a scenario, the least regret first: IQM over ten seeds and its 95 % interval."""
    head = ["contestant", "violations", "excess", "regret", "safe share", "near", "steps until", "simulated", "updates"]
    lines = []
    for row in sorted(_rows()[scenario].values(), key=lambda row: row.regret.iqm):
        spent = [formats.count(x) for x in (row.simulated_steps + row.memory_steps, row.updates)]
        share = [_cell(row.safe_share, 3), formats.fixed(row.reached, 2), _until(row)]
        lines.append(
            [f"`{row.contestant}`", _cell(row.violations), _cell(row.excess), _cell(row.regret), *share, *spent]
        )
    return formats.table(head, lines)


@text
def changing_missing() -> str:
    """Which contestants have no results of ten seeds yet, by scenario."""
    lines = []
    for scenario, names in _expected().items():
        missing = [name for name in names if name not in _rows()[scenario]]
        if missing:
            every = len(missing) == len(names)
            lines.append([f"`{scenario}`", "all" if every else ", ".join(f"`{name}`" for name in missing)])
    return formats.table(["scenario", "not run yet"], lines) if lines else "Every contestant has run in every scenario."


@text
def changing_done() -> str:
    """How many rows there are, of all."""
    done = sum(len([name for name in names if name in _rows()[one]]) for one, names in _expected().items())
    return f"{done} of {sum(map(len, _expected().values()))}"


@text
def changing_target() -> str:
    """Where the recommended agent stands beside every contestant that goes on learning or starts again."""
    head = ["scenario", "compared with", "fewer violations than", "less regret than", "place by regret", "not below"]
    lines = []
    for scenario, found in _rows().items():
        others = [found[name] for name in LEARNERS if name in found]
        if OURS not in found or not others:
            continue
        own = found[OURS]
        fewer = [row for row in others if own.violations.high < row.violations.low]
        less = [row for row in others if own.regret.high < row.regret.low]
        place = 1 + sum(row.regret.iqm < own.regret.iqm for row in others)
        left = [f"`{row.contestant}`" for row in others if row not in fewer or row not in less]
        shown = [str(len(others)), str(len(fewer)), str(len(less)), str(place), ", ".join(left) or "nobody"]
        lines.append([f"`{scenario}`", *shown])
    return formats.table(head, lines)
