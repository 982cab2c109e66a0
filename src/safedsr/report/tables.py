"""Results beside the paper's tables: the rows and their verdicts (Sec. 5.2, Tables 3 to 7)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.paper.doubled import Misfit, misfits
from safedsr.paper.tables import BUDGET, SEEDS, STEPS, TABLES, PaperTable, Reported, reported
from safedsr.runs.collect import load_results
from safedsr.runs.labels import nearest_preset
from safedsr.runs.metrics import Summary, summarize
from safedsr.runs.results import Result

NEAR = 0.07  # as a share of the paper's IQM
ROUNDING = 0.05  # the paper's numbers have one decimal
VERDICTS = {
    "agrees": "the paper's IQM lies in our 95 % interval (a wide interval is weak evidence), or our IQM differs from "
    f"it by at most {NEAR:.0%}, or only by rounding",
    "ranges overlap": "it does not agree, but our range from the 25th to the 75th percentile overlaps the paper's",
    "differs": "it does not agree, and the ranges do not overlap",
}


class TableRow(NamedTuple):
    """One algorithm on one task: our result over seeds, and the paper's."""

    table: PaperTable
    environment: str  # with the name of the shown cost, if there are several costs
    label: str
    seeds: int
    found: Summary
    paper: Reported | None  # if the run is an experiment of the paper

    @property
    def ratio(self) -> float | None:
        """Our IQM divided by the paper's."""
        return self.found.iqm / self.paper.iqm if self.paper and self.paper.iqm else None

    @property
    def verdict(self) -> str:
        """One of VERDICTS; empty if the paper has no such row."""
        return verdict(self.found, self.paper) if self.paper else ""


class PlainRow(NamedTuple):
    """One run in an environment that the paper does not have: statistics over seeds by the names of their columns."""

    environment: str
    label: str
    seeds: int
    found: dict[str, Summary]


class Report(NamedTuple):
    """All tables, and remarks on what is missing or left out."""

    rows: list[TableRow]
    remarks: list[str]
    results: list[Result]
    doubled: dict[str, Misfit] | None  # how well each way to count costs fits the paper, if the results allow it
    plain: list[PlainRow]  # of environments other than the grid

    def of(self, table: PaperTable) -> list[TableRow]:
        """The rows of one table."""
        return [row for row in self.rows if row.table == table]


def report(paths: Sequence[str | Path]) -> Report:
    """The tables of run folders, or of folders that contain run folders."""
    remarks: list[str] = []
    results = sorted(load_results(paths, remarks), key=_place)
    grid = [result for result in results if result.on_grid]
    rows = [row for table in TABLES for result in grid for row in _rows(table, result)]
    plain = [plain_row(result) for result in results if not result.on_grid]
    doubled = misfits([result for result in grid if result.terms.goals])
    return Report(rows, [*remarks, *_mixtures(grid)], results, doubled, plain)


def plain_row(result: Result) -> PlainRow:
    """Goals and safe goals, or episodes and the share of safe ones if none can succeed; the last return and costs."""
    counts, terms = result.counts, result.terms
    goals, safe = counts["goal count"], counts["safe goal count"]
    shown = {"goals": goals, "safe goals": safe}
    if not terms.success:
        shown = {"episodes": goals, "safe episodes": safe / np.maximum(goals, 1)}
    cost = "last discounted cost" if terms.on_mean else "last cost"
    shown |= {"last return": counts["last reward"]}
    shown |= {f"{cost} ({name})": counts[f"last cost {name}"] for name in result.costs}
    found = {name: summarize(values) for name, values in shown.items()}
    return PlainRow(result.title, result.label, len(result.seeds), found)


def verdict(found: Summary, paper: Reported) -> str:
    """How a result compares with the paper's: see VERDICTS."""
    near = abs(found.iqm - paper.iqm) <= max(NEAR * abs(paper.iqm), ROUNDING)
    if near or found.low - ROUNDING <= paper.iqm <= found.high + ROUNDING:
        return "agrees"
    overlap = found.p25 - ROUNDING <= paper.p75 and paper.p25 <= found.p75 + ROUNDING
    return "ranges overlap" if overlap else "differs"


def is_papers_experiment(result: Result) -> bool:
    """Whether algorithm, map, costs, budget, steps and settings of a result are those of the paper."""
    if not result.terms.goals or reported(TABLES[0].key, result.layout, result.algorithm) is None:
        return False
    same = result.steps == STEPS and result.costs in (("none",), ("diamond",)) and result.budgets == (BUDGET,)
    preset, changes = nearest_preset(result.config)
    return same and preset in ("", "paper") and not changes


def _rows(table: PaperTable, result: Result) -> Iterator[TableRow]:
    if table.with_costs == _costless(result):
        return
    paper = reported(table.key, result.layout, result.algorithm) if is_papers_experiment(result) else None
    for metric, values in result.counts.items():
        if metric.startswith(table.metric):
            several = table.metric != metric and len(result.costs) > 1
            name = f"{result.environment}: {metric.removeprefix('last ')}" if several else result.environment
            yield TableRow(table, name, result.label, len(result.seeds), summarize(values), paper)


def _costless(result: Result) -> bool:
    return all(name.partition("-")[0] == "none" for name in result.costs)


def _place(result: Result) -> tuple:
    """A key for sorting: the paper's maps first, then by costs and algorithm."""
    rooms = ROOM_NAMES.index(result.layout) if result.layout in ROOM_NAMES else len(ROOM_NAMES)
    return rooms, result.layout, result.costs, result.algorithm, result.label


def _mixtures(results: Sequence[Result]) -> Iterator[str]:
    """Remarks on different budgets, different numbers of steps, and fewer seeds than the paper's."""
    budgets = sorted({budget for result in results for budget in result.budgets})
    steps = sorted({result.steps for result in results})
    for what, values, usual in (("budgets", budgets, BUDGET), ("numbers of steps", steps, STEPS)):
        if len(values) > 1:
            given = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
            yield f"different {what} ({given}): in separate rows; only rows with {usual:.0f} have the paper's values"
    for result in results:
        if is_papers_experiment(result) and len(result.seeds) < SEEDS:
            plural = "s" * (len(result.seeds) > 1)
            yield f"{result.label} in {result.environment}: {len(result.seeds)} seed{plural}; the paper has {SEEDS}"
