"""The aim of the benchmark: the recommended agent has fewer violations and less regret than who goes on or restarts.

On scenarios whose changes are all announced, this has to hold outside the 95 % intervals, against every contestant that
goes on learning or restarts. On the others, the agent has to be first or second in both.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from safedsr.scenario.contestants import CONTESTANTS, ORACLE
from safedsr.scenario.tables import Row, markdown, rows, table_text

RECOMMENDED = "safedsr-plus"
KINDS = ("learner", "restart")
COLUMNS = ("scenario", "reached", "rank in violations", "rank in regret", "not ahead of")


class Verdict(NamedTuple):
    """The aim in one scenario."""

    scenario: str
    reached: bool
    violations_rank: int  # among all but the oracle; 1 is the best
    regret_rank: int
    not_ahead: tuple[str, ...]  # contestants that go on or restart, with what the agent is not ahead in


def verdicts(results: Sequence[dict[str, Any]]) -> list[Verdict]:
    """The aim in each scenario that the recommended agent ran with others; quick runs do not count."""
    every, found = rows(results), []
    for scenario in dict.fromkeys(row.scenario for row in every):
        here = [row for row in every if row.scenario == scenario and row.contestant != ORACLE]
        own = next((row for row in here if row.contestant == RECOMMENDED), None)
        rivals = [row for row in here if row.contestant in CONTESTANTS and CONTESTANTS[row.contestant].kind in KINDS]
        quick = any(one["quick"] for one in results if one["scenario"] == scenario)
        if own and rivals and not quick:
            ranks = _rank(own, here, "violations"), _rank(own, here, "regret")
            behind = tuple(
                f"{row.contestant} ({name})"
                for row in rivals
                for name in ("violations", "regret")
                if not getattr(own, name).high < getattr(row, name).low
            )
            reached = not behind if own.told == "tasks" else max(ranks) <= 2
            found.append(Verdict(scenario, reached, *ranks, behind))
    return found


def _rank(own: Row, rows: Sequence[Row], name: str) -> int:
    return 1 + sum(getattr(row, name).iqm < getattr(own, name).iqm for row in rows)


def verdict_cells(verdict: Verdict) -> tuple[str, ...]:
    """A verdict as text."""
    return (
        verdict.scenario,
        "yes" if verdict.reached else "no",
        str(verdict.violations_rank),
        str(verdict.regret_rank),
        ", ".join(verdict.not_ahead) or "–",
    )


def report_text(results: Sequence[dict[str, Any]]) -> str:
    """All tables as Markdown, with that of the aim at the end."""
    judged = [verdict_cells(verdict) for verdict in verdicts(results)]
    aim = ["### The aim", "", *markdown(COLUMNS, judged), ""] if judged else []
    return "\n".join([table_text(results), *aim])
