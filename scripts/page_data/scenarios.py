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
    """The rows of each scenario by contestant, in the order of the set."""
    found: dict[str, dict[str, Row]] = {one.name: {} for one in changing_v1()}
    for row in rows(read_results(sources.RESULTS / "changing-v1")):
        found[row.scenario][row.contestant] = row
    return found


def _complete(scenario: str, contestant: str) -> bool:
    """Whether all seeds have run."""
    row = _rows()[scenario].get(contestant)
    return row is not None and row.seeds >= SEEDS


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
    """The contestants of a scenario, the least regret first: IQM over seeds and its 95 % interval."""
    head = [
        "contestant",
        "seeds",
        "violations",
        "excess",
        "regret",
        "safe share",
        "near",
        "steps until",
        "simulated",
        "updates",
    ]
    lines = []
    for row in sorted(_rows()[scenario].values(), key=lambda row: row.regret.iqm):
        spent = [formats.count(x) for x in (row.simulated_steps + row.memory_steps, row.updates)]
        share = [_cell(row.safe_share, 3), formats.fixed(row.reached, 2), _until(row)]
        lines.append(
            [f"`{row.contestant}`", _cell(row.violations), _cell(row.excess), _cell(row.regret), *share, *spent]
        )
    return formats.table(head, lines)


@text
def changing_done() -> str:
    """How many rows there are with ten seeds, with fewer, and in all."""
    pairs = [(scenario, name) for scenario, names in _expected().items() for name in names]
    done = sum(_complete(*pair) for pair in pairs)
    begun = sum(name in _rows()[scenario] for scenario, name in pairs)
    return (
        f"Of {len(pairs)} rows, {done} have ten seeds, {begun - done} have fewer, and {len(pairs) - begun} are missing."
    )


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
