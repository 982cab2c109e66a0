"""The tables of the benchmark, made of the results of all seeds."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from safedsr.runs import metrics
from safedsr.runs.labels import fixed, interval
from safedsr.runs.metrics import summarize
from safedsr.scenario.provenance import in_words
from safedsr.scenario.results import grouped


class Row(NamedTuple):
    """A contestant in a scenario, over seeds: IQM and 95 % interval of the phases after the first change, and means."""

    scenario: str
    contestant: str
    seeds: int
    told: str  # of the changes: all, none, or how many
    violations: metrics.Summary
    excess: metrics.Summary
    regret: metrics.Summary
    safe_share: metrics.Summary
    near: float  # share of changes after which the safe share came near the reachable one
    steps_until: float  # restricted means: a change after which it never does counts with the length of the phase
    seconds_until: float
    updates_until: float
    real_steps: float
    simulated_steps: float
    memory_steps: float
    updates: float
    relabelled: float
    violations_in_all: float  # of the first phase, too
    excess_in_all: float
    false_alarms: float  # in the first phase


COLUMNS = (
    "contestant",
    "seeds",
    "told",
    "violations",
    "excess",
    "regret",
    "safe share",
    "near",
    "steps until",
    "seconds until",
    "updates until",
    "real steps",
    "simulated",
    "from memory",
    "updates",
    "relabelled",
    "violations in all",
    "excess in all",
    "false alarms",
)


def rows(results: Sequence[dict[str, Any]]) -> list[Row]:
    """One row for each contestant in each scenario, the least regret first."""
    found = [_row(*key, ones) for key, ones in grouped(results).items()]
    order = list(dict.fromkeys(one["scenario"] for one in results))
    return sorted(found, key=lambda row: (order.index(row.scenario), row.regret.iqm))


def _row(scenario: str, contestant: str, ones: Sequence[dict[str, Any]]) -> Row:
    after = [one["phases"][1:] or one["phases"] for one in ones]
    whole = [one["phases"] for one in ones]

    def total(name: str, phases: Sequence[Any] = after) -> metrics.Summary:
        return summarize([sum(phase[name] for phase in some) for some in phases])

    def middle(name: str) -> float:
        return float(np.mean([np.mean([phase[name] for phase in phases]) for phases in after]))

    shares = [sum(p["safe"] for p in phases) / max(sum(p["episodes"] for p in phases), 1) for phases in after]
    spent = ("real_steps", "simulated_steps", "memory_steps", "updates", "relabelled")
    return Row(
        scenario=scenario,
        contestant=contestant,
        seeds=len(ones),
        told=_told(after[0]),
        violations=total("violations"),
        excess=total("excess"),
        regret=total("regret"),
        safe_share=summarize(shares),
        **{name: middle(name) for name in ("near", "steps_until", "seconds_until", "updates_until")},
        **{name: total(name).mean for name in spent},
        violations_in_all=total("violations", whole).mean,
        excess_in_all=total("excess", whole).mean,
        false_alarms=float(np.mean([phases[0]["alarms"] for phases in whole])),
    )


def _told(phases: Sequence[Any]) -> str:
    """What was told of the changes: the task of announced ones, of silent ones only the budgets."""
    count = sum(phase["told"] for phase in phases)
    return {len(phases): "tasks", 0: "budgets"}.get(count, f"{count} of {len(phases)} tasks, budgets")


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    return (
        row.contestant,
        str(row.seeds),
        row.told,
        interval(row.violations, 0),
        interval(row.excess, 0),
        interval(row.regret, 0),
        interval(row.safe_share, 3),
        fixed(row.near, 2),
        fixed(row.steps_until, 0),
        fixed(row.seconds_until, 1),
        *(fixed(getattr(row, name), 0) for name in row._fields[row._fields.index("updates_until") : -1]),
        fixed(row.false_alarms, 1),
    )


def table_text(results: Sequence[dict[str, Any]]) -> str:
    """All rows as Markdown: for each scenario a table of all changes together, and one of each change."""
    lines, every = [], rows(results)
    for scenario in dict.fromkeys(row.scenario for row in every):
        found = [row for row in every if row.scenario == scenario]
        here = [one for one in results if one["scenario"] == scenario]
        unit = "safe goals" if here[0]["goals"] else "steps"
        quick = "; QUICK, NOT COMPARABLE" if here[0]["quick"] else ""
        lines += [f"### {scenario} (regret in {unit}{quick})", "", *markdown(COLUMNS, map(cells, found)), ""]
        lines += ["Violations / excess in the first phase and after each change, means over seeds:", ""]
        lines += [*markdown(*change_table(here, [row.contestant for row in found])), ""]
    return "\n".join([*lines, *made_lines(results), ""])


def markdown(head: Sequence[str], found: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in found)]


def change_table(results: Sequence[dict[str, Any]], order: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table of one scenario: violations and excess of each contestant in each phase."""
    phases = results[0]["phases"]
    head = ["contestant", *(f"{p['start']}: {p['change']}{'' if p['told'] else ' (silent)'}" for p in phases)]
    found = []
    for name in order:
        own = [one["phases"] for one in results if one["contestant"] == name]
        means = [[float(np.mean([some[n][key] for some in own])) for n in range(len(phases))] for key in PARTS]
        found.append([name, *(f"{fixed(broken, 0)} / {fixed(over, 0)}" for broken, over in zip(*means, strict=True))])
    return head, found


PARTS = ("violations", "excess")


def made_lines(results: Sequence[dict[str, Any]]) -> list[str]:
    """With which versions, on which devices and in which precision the results were made."""
    counts: dict[str, int] = {}
    for one in results:
        words = in_words(one["made"])
        counts[words] = counts.get(words, 0) + 1
    return [f"made with {words}: {count} results" for words, count in sorted(counts.items())]
