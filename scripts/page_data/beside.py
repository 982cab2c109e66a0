"""Our results beside the paper's tables: docs/results.md and docs/algorithms/onpolicy.md."""

from functools import cache

import numpy as np

from page_data import counts, formats, sources
from page_data.registry import text
from safedsr.paper import doubled
from safedsr.paper.tables import TABLES
from safedsr.report.tables import TableRow, report

MARKS = {"agrees": "", "ranges overlap": " ~", "differs": " ✗", "": ""}
ROWS = ("safedsr", "safedsr (absorb)", "safedqn", *sources.BASELINES)


@cache
def _rows() -> dict[tuple[int, str, str], TableRow]:
    """By number of the table, map and row."""
    found = report([sources.RESULTS / "baselines"]).rows
    return {
        (row.table.number, row.environment.partition(",")[0], row.label.removesuffix(" (paper)")): row
        for row in found
        if row.environment.partition(", ")[2] in ("none", "diamond")
    }


@text
def paper_table(number: str) -> str:
    """One of Tables 3 to 7: IQM of ours / the paper's, with a mark."""
    shown = [[row, *(_cell(_rows()[int(number), layout, row]) for layout in sources.ROOMS)] for row in ROWS]
    return formats.table(["", *sources.ROOMS.values()], shown)


def _cell(row: TableRow) -> str:
    counted = row.table.metric.endswith("count")
    values = [row.found.iqm, *([row.paper.iqm] if row.paper else [])]
    return " / ".join(formats.count(x) if counted else formats.fixed(x, 1) for x in values) + MARKS[row.verdict]


@text
def verdicts(which: str = "") -> str:
    """How many cells have a verdict (agrees, ranges-overlap, differs), or how many the paper has."""
    found = [_rows()[table.number, layout, row].verdict for table in TABLES for layout in sources.ROOMS for row in ROWS]
    return str(sum(verdict == which.replace("-", " ") if which else bool(verdict) for verdict in found))


@text
def baselines_without_costs() -> str:
    """Goals without costs: ours / the paper's, and the difference in percent."""
    lines = []
    for name in sources.BASELINES:
        cells = []
        for layout in sources.ROOMS:
            ours, paper = sources.summary(name, layout, "none").iqm, sources.paper(sources.FREE, layout, name).iqm
            cells.append(f"{formats.count(ours)} / {formats.count(paper)} ({formats.change(ours / paper)})")
        lines.append([sources.NAMES[name], *cells])
    return formats.table(["ours / paper", *sources.ROOMS.values()], lines)


def _means(names: tuple[str, ...], condition: str) -> dict[str, np.ndarray]:
    """Mean goals and safe goals over seeds in one room, under a condition of `doubled`."""
    costs, safe = doubled.CONDITIONS[condition]
    return {
        name: np.array([sources.seeds(name, doubled.LAYOUT, costs, what).mean() for what in ("goal count", safe)])
        for name in names
    }


@cache
def _misfits() -> dict[str, doubled.Misfit]:
    runs = [sources.result(name, doubled.LAYOUT, costs) for name in doubled.BASELINES for costs in _COSTS]
    found = doubled.misfits(runs)
    assert found
    return found


_COSTS = tuple(dict.fromkeys(costs for costs, _ in doubled.CONDITIONS.values()))


@text
def doubled_costs() -> str:
    """Mean goals / safe goals in one room under three readings of the paper's costs, for all eleven baselines."""
    others = tuple(name for name in sources.BASELINES if name not in doubled.BASELINES)
    lines = [_doubled_line(name) for name in doubled.BASELINES]
    fits = (
        f"{formats.fixed(x.value, 2)} [{formats.fixed(x.low, 2)}, {formats.fixed(x.high, 2)}]"
        for x in _misfits().values()
    )
    lines.append(["**sum of absolute log ratios, these seven**", "", *fits])
    lines += [_doubled_line(name) for name in others]
    all_eleven = (formats.fixed(doubled.misfit(_means(sources.BASELINES, one)), 2) for one in doubled.CONDITIONS)
    lines.append(["**sum of absolute log ratios, all eleven**", "", *all_eleven])
    return formats.table(["mean goals / safe goals", "paper", *doubled.CONDITIONS], lines)


def _fit(found: doubled.Misfit) -> str:
    value, low, high = (formats.fixed(one, 2) for one in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def _doubled_line(name: str) -> list[str]:
    paper = [sources.paper(key, doubled.LAYOUT, name).mean for key in (sources.GOALS, sources.SAFE)]
    ours = [_means((name,), condition)[name] for condition in doubled.CONDITIONS]
    return [sources.NAMES[name], *(" / ".join(map(formats.count, pair)) for pair in (paper, *ours))]


@text
def doubled_best() -> str:
    """The share of bootstrap samples in which the middle reading fits best, in percent."""
    return formats.percent(_misfits()["cost 1, safety counted at 2"].best)


@text
def best_baseline(layout: str, costs: str = "diamond") -> str:
    """The largest IQM of safe goals of the eleven baselines on a map, and who has it."""
    found = {name: sources.summary(name, layout, costs, counts.SAFE).iqm for name in sources.BASELINES}
    most = max(found.values())
    names = ", ".join(sources.NAMES[name] for name, value in found.items() if value == most)
    return f"{formats.count(most)} ({names})"
