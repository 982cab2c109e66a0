"""A report on runs: a comparison of one's own runs, or results beside the paper's tables (Sec. 5.2, Tables 3 to 7)."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.paper.doubled import Misfit, misfits
from safedsr.paper.tables import BUDGET, SEEDS, STEPS, TABLES, PaperTable, Reported, reported
from safedsr.report.own import FindEnvironment, OwnTable, own_tables
from safedsr.runs.collect import read_results, told_apart, without_copies
from safedsr.runs.compare import Comparison, comparisons
from safedsr.runs.labels import nearest_preset
from safedsr.runs.metrics import Summary, summarize
from safedsr.runs.reference import References
from safedsr.runs.results import Result
from safedsr.runs.storage import read_json

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


class Report(NamedTuple):
    """All tables, and remarks on what is missing or left out."""

    rows: list[TableRow]  # beside the paper's; empty for one's own runs
    remarks: list[str]
    results: list[Result]  # of these rows
    doubled: dict[str, Misfit] | None  # how well each way to count costs fits the paper, if the results allow it
    compared: list[Comparison]  # one's own runs
    own: list[OwnTable]  # their tables
    references: References  # the oracle on their maps

    def of(self, table: PaperTable) -> list[TableRow]:
        """The rows of one table."""
        return [row for row in self.rows if row.table == table]


class Evaluating(NamedTuple):
    """How the trained agents of one's own runs are evaluated."""

    epsilon: float = 0.0
    episodes: int | None = None  # for each seed
    oracle: Callable[[Sequence[Result]], References] = lambda results: {}
    """One result of each map -> the oracle's results."""
    find: FindEnvironment = lambda path: None
    """A run folder -> its environment, if its cost functions are the user's."""


def report(paths: Sequence[str | Path], paper: bool = False, how: Evaluating = Evaluating()) -> Report:
    """The tables of run folders, or of folders that contain run folders.

    The paper's tables are used for runs on maps on request, or if most of the runs are experiments of the paper.
    """
    remarks: list[str] = []
    read = read_results(paths, remarks)
    paper = paper or 2 * sum(map(_is_reproduction, read)) > len(read)
    beside = [result for result in read if paper and result.on_grid]
    results = sorted(told_apart(beside, remarks), key=_place)
    rows = [row for table in TABLES for result in results for row in _rows(table, result)]
    doubled = misfits([result for result in results if result.terms.goals]) if results else None
    remarks += _mixtures(results)
    compared = comparisons(without_copies([one for one in read if not (paper and one.on_grid)], remarks))
    maps = [one.results[0] for one in compared if one.results[0].on_grid and one.terms.goals and one.costs]
    references = how.oracle(maps) if maps else {}
    own = [
        table for one in compared for table in own_tables(one, how.epsilon, how.episodes, references, remarks, how.find)
    ]
    return Report(rows, remarks, results, doubled, compared, own, references)


def _is_reproduction(result: Result) -> bool:
    """Whether a run is an experiment of the paper, or was made by `safedsr reproduce`."""
    if not result.on_grid:
        return False
    command = str(read_json(result.path / "manifest.json").get("command", ""))
    return is_papers_experiment(result) or " reproduce " in command


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
