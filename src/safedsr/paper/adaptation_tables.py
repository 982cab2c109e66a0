"""The tables of the experiment with changing costs, made from its summary."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.agents.value_based.trainer import EVALUATE
from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_arms import RUNG_NAMES
from safedsr.runs.labels import fixed, interval
from safedsr.runs.metrics import Summary, summarize
from safedsr.runs.storage import write_text

EVALUATIONS = tuple(phase for phase in plan.PHASES if phase.mode == EVALUATE)
NOT_COMPARABLE = "QUICK: two seeds, 1/50 of the steps; these numbers are NOT comparable with the paper or with --full."
NONE = "–"  # violations of agents that take no environment steps

Numbers = dict[str, Any]


class TextTable(NamedTuple):
    """A table as text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join([f"## {self.title}", "", *(f"| {' | '.join(line)} |" for line in lines), "", self.note, ""])


def write_tables(path: Path, tables: Sequence[TextTable], above: str = "") -> None:
    """Write tables as a Markdown file; `above` is the first line, if given."""
    text = "\n".join([*([above + "\n"] if above else []), *(table.markdown() for table in tables)])
    write_text(path, text)


def tables(data: dict[str, Any]) -> list[TextTable]:
    """All tables for which the summary has numbers."""
    changes = range(len(plan.CHANGES))
    found = [phase_table(data, change) for change in changes] + [comparison_table(data, change) for change in changes]
    return [table for table in found if table.rows]


def phase_table(data: dict[str, Any], change: int) -> TextTable:
    """Every evaluation phase of every variant, over seeds."""
    lines, seeds = [], 0
    for variant in plan.VARIANTS:
        mine = [row for row in data["phases"] if (row["variant"], row["change"]) == (variant.name, change)]
        for phase in EVALUATIONS:
            here = [row for row in mine if row["phase"] == phase.number]
            if here:
                seeds = max(seeds, len(here))
                safe, goal, cost, lam = (over_seeds(here, name) for name in ("safe", "goal", "cost", "lam"))
                numbers = (
                    interval(safe, 3),
                    fixed(safe.mean, 3),
                    interval(goal, 3),
                    interval(cost, 1),
                    fixed(lam.iqm, 2),
                )
                lines.append((variant.name, f"{phase.number} {phase.name}", *numbers))
    columns = ("SafeDSR", "phase", "safe goal rate", "mean", "goal rate", "cost", "λ")
    note = f"IQM over {seeds} seeds with a 95 % bootstrap interval. Mean: of the safe goal rate. ε = 0.25."
    return TextTable(f"Evaluation phases, {plan.CHANGES[change].name}", columns, lines, note)


def over_seeds(rows: Sequence[Numbers], name: str) -> Summary:
    """Summary of a number over seeds; seeds without the number are left out."""
    values = [row[name] for row in rows if row[name] is not None]
    return summarize(values or [np.nan])


def comparison_table(data: dict[str, Any], change: int) -> TextTable:
    """Every method after a change of costs: time until it is safe, violations until then, final safe goal rate."""
    rate = data["oracle"][plan.CHANGES[change].after]["safe_goal_rate"]
    lines = [*_rung_lines(data["rungs"], change, rate / 2), *_arm_lines(data["arms"], change)]
    columns = ("agent", "method", "seeds safe", "steps to safe", "seconds to safe", "violations", "safe goal rate")
    note = (
        "A seed is safe once its safe goal rate over the last 5000 steps is at least half of the oracle's. Steps and "
        "seconds are medians over seeds; ∞: most seeds are never safe. Violations: episodes over the budget until the "
        "seed is safe, or in all 200 000 steps; methods without environment steps have none. Safe goal rate: IQM over "
        "seeds with a 95 % bootstrap interval, in the last 20 000 steps, or in 1000 episodes at ε = 0.25 for methods "
        "without environment steps. PPO-Lag and TRPO-PID explore with their stochastic policy, without ε. The seconds "
        "of (a) to (b′) are for one agent; those of the others are for all agents that are trained in parallel."
    )
    return TextTable(f"After {plan.CHANGES[change].name} (oracle {fixed(rate, 3)})", columns, lines, note)


def _rung_lines(rows: Sequence[Numbers], change: int, enough: float) -> Iterator[tuple[str, ...]]:
    for variant in plan.COMPARED:
        for level, name in RUNG_NAMES.items():
            here = [r for r in rows if (r["variant"], r["change"], r["level"]) == (variant.name, change, level)]
            if here:
                safe = [row["safe"] >= enough for row in here]
                seconds = [row["seconds"] if fine else None for row, fine in zip(here, safe, strict=True)]
                steps = [0 if fine else None for fine in safe]
                done = f"{sum(safe)} of {len(safe)}"
                rate = interval(over_seeds(here, "safe"), 3)
                yield f"safedsr-{variant.name}", name, done, middle(steps), middle(seconds, 1), NONE, rate


def _arm_lines(rows: Sequence[Numbers], change: int) -> Iterator[tuple[str, ...]]:
    here = [row for row in rows if row["change"] == change]
    for arm, owner in sorted({(row["arm"], row["owner"]) for row in here}):
        mine = [row for row in here if (row["arm"], row["owner"]) == (arm, owner)]
        steps, seconds = ([row[name] for row in mine] for name in ("steps", "seconds"))
        done = f"{sum(step is not None for step in steps)} of {len(steps)}"
        violations = fixed(float(np.median([row["violations"] for row in mine])), 0)
        yield owner, arm, done, middle(steps), middle(seconds, 1), violations, interval(over_seeds(mine, "last"), 3)


def middle(values: Sequence[float | None], digits: int = 0) -> str:
    """The median as text; a missing value counts as infinite."""
    found = float(np.median([np.inf if value is None else value for value in values]))
    return "∞" if np.isinf(found) else f"{found:.{digits}f}"
