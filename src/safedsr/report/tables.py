"""Results beside the printed tables: the rows, and what is said about each (Sec. 5.2, Tables 3 to 7)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.paper.doubled import Misfit, misfits
from safedsr.paper.tables import BUDGET, SEEDS, STEPS, TABLES, PaperTable, Reported, printed
from safedsr.runs.collect import load_results
from safedsr.runs.labels import nearest_preset
from safedsr.runs.metrics import Summary, summarize
from safedsr.runs.results import Result

NEAR = 0.07  # share of the printed IQM
ROUNDING = 0.05  # printed numbers have one decimal
VERDICTS = {
    "agrees": f"the printed IQM lies in our 95 % interval (a wide one says little), or ours within {NEAR:.0%} of it, "
    "or within its rounding",
    "ranges overlap": "not that, but the ranges from the 25th to the 75th percentile have something in common",
    "differs": "neither",
}


class TableRow(NamedTuple):
    """One algorithm in one environment: ours over its seeds, and what is printed."""

    table: PaperTable
    environment: str  # of several costs, with the name of the one that is shown
    label: str
    seeds: int
    found: Summary
    printed: Reported | None  # where the run is the paper's experiment

    @property
    def ratio(self) -> float | None:
        """Our IQM in units of the printed one."""
        return self.found.iqm / self.printed.iqm if self.printed and self.printed.iqm else None

    @property
    def verdict(self) -> str:
        """One of VERDICTS, or nothing where nothing is printed."""
        return verdict(self.found, self.printed) if self.printed else ""


class Report(NamedTuple):
    """Every table with ours beside it, and what a reader has to know of what is missing or was left out."""

    rows: list[TableRow]
    remarks: list[str]
    results: list[Result]
    doubled: dict[str, Misfit] | None  # which reading of the printed costs fits best, where the results tell

    def of(self, table: PaperTable) -> list[TableRow]:
        """The rows of one table."""
        return [row for row in self.rows if row.table == table]


def report(paths: Sequence[str | Path]) -> Report:
    """The tables of run folders, or of folders that hold some."""
    remarks: list[str] = []
    results = sorted(load_results(paths, remarks), key=_place)
    rows = [row for table in TABLES for result in results for row in _rows(table, result)]
    return Report(rows, [*remarks, *_mixtures(results)], results, misfits(results))


def verdict(found: Summary, paper: Reported) -> str:
    """How a result compares with the printed one: see VERDICTS."""
    near = abs(found.iqm - paper.iqm) <= max(NEAR * abs(paper.iqm), ROUNDING)
    if near or found.low - ROUNDING <= paper.iqm <= found.high + ROUNDING:
        return "agrees"
    overlap = found.p25 - ROUNDING <= paper.p75 and paper.p25 <= found.p75 + ROUNDING
    return "ranges overlap" if overlap else "differs"


def is_printed(result: Result) -> bool:
    """Whether a result is an experiment of the paper: its budget, its steps, and settings it may have used."""
    same = result.steps == STEPS and result.costs in (("none",), ("diamond",)) and result.budgets == (BUDGET,)
    preset, changes = nearest_preset(result.config)
    return same and preset in ("", "paper") and not changes


def _rows(table: PaperTable, result: Result) -> Iterator[TableRow]:
    if table.with_costs == _costless(result):
        return
    paper = printed(table.key, result.layout, result.algorithm) if is_printed(result) else None
    for metric, values in result.counts.items():
        if metric.startswith(table.metric):
            several = table.metric != metric and len(result.costs) > 1
            name = f"{result.environment}: {metric.removeprefix('last ')}" if several else result.environment
            yield TableRow(table, name, result.label, len(result.seeds), summarize(values), paper)


def _costless(result: Result) -> bool:
    return all(name.partition("-")[0] == "none" for name in result.costs)


def _place(result: Result) -> tuple:
    """The paper's maps first, and its algorithms by name as the paper has them."""
    rooms = ROOM_NAMES.index(result.layout) if result.layout in ROOM_NAMES else len(ROOM_NAMES)
    return rooms, result.layout, result.costs, result.algorithm, result.label


def _mixtures(results: Sequence[Result]) -> Iterator[str]:
    """Where rows come from different budgets, different numbers of steps or fewer seeds than the printed ones."""
    budgets = sorted({budget for result in results for budget in result.budgets})
    steps = sorted({result.steps for result in results})
    for what, values, usual in (("budgets", budgets, BUDGET), ("numbers of steps", steps, STEPS)):
        if len(values) > 1:
            given = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
            yield f"different {what} ({given}): in rows of their own; printed values stand beside {usual:.0f} only"
    for result in results:
        if is_printed(result) and len(result.seeds) < SEEDS:
            plural = "s" * (len(result.seeds) > 1)
            yield f"{result.label} in {result.environment}: {len(result.seeds)} seed{plural} where {SEEDS} are printed"
