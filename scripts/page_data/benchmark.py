"""The benchmark of changing constraints: results/changing-v1, for docs/benchmark.md."""

from functools import cache
from typing import Any

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs import labels
from safedsr.scenario.contestants import CONTESTANTS, ORACLE
from safedsr.scenario.results import read_results
from safedsr.scenario.tables import Row, rows
from safedsr.scenario.target import Verdict, verdicts

FOLDER = sources.RESULTS / "changing-v1"
HEAD = ["contestant", "seeds", "violations", "regret", "safe share", "near", "steps until"]
SPENT = ["simulated steps", "steps from memory", "updates"]


@cache
def _results() -> list[dict[str, Any]]:
    return read_results(FOLDER) if FOLDER.is_dir() else []


@cache
def _rows() -> list[Row]:
    return rows(_results())


@cache
def _verdicts() -> list[Verdict]:
    return verdicts(_results())


def _row(scenario: str, contestant: str) -> Row:
    found = [row for row in _rows() if (row.scenario, row.contestant) == (scenario, contestant)]
    if not found:
        raise KeyError(f"no result of {contestant} in {scenario}")
    return found[0]


@text
def benchmark_table(scenario: str) -> str:
    """Every contestant in a scenario: sums over the phases after the first change."""
    here = [row for row in _rows() if row.scenario == scenario]
    return formats.table_of_runs([*HEAD, *SPENT], [_line(row) for row in here])


def _line(row: Row) -> list[str]:
    name = f"**{row.contestant}**" if row.contestant == "safedsr-plus" else row.contestant
    results = [formats.interval(row.violations), formats.interval(row.regret), labels.interval(row.safe_share, 3)]
    until = [formats.fixed(row.near, 2), formats.count(row.steps_until)]
    spent = [formats.count(value) for value in (row.simulated_steps, row.memory_steps, row.updates)]
    return [name, str(row.seeds), *results, *until, *spent]


@text
def benchmark_aim() -> str:
    """Whether the recommended agent is ahead in each scenario, and of whom it is not."""
    lines = [
        [
            one.scenario,
            "yes" if one.reached else "no",
            f"{one.violations_rank} / {one.regret_rank}",
            ", ".join(one.not_ahead) or formats.UNKNOWN,
        ]
        for one in _verdicts()
    ]
    return formats.table_of_runs(["scenario", "reached", "rank in violations / regret", "not ahead of"], lines)


@text
def benchmark_value(scenario: str, contestant: str, column: str) -> str:
    """IQM of a column of the tables: violations, excess, regret or safe_share."""
    value = getattr(_row(scenario, contestant), column).iqm
    return formats.fixed(value, 3) if column == "safe_share" else formats.count(value)


@text
def benchmark_missing() -> str:
    """The contestants that have no result in any scenario."""
    known = {row.contestant for row in _rows()}
    return ", ".join(f"`{name}`" for name in CONTESTANTS if name not in known and name != ORACLE) or "none"
