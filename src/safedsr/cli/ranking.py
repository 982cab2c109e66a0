"""The ranking of a sweep, for the commands sweep and report."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from safedsr.cli.terminal import print_json, print_table

if TYPE_CHECKING:
    from safedsr.sweep.ranking import Ranked

Metric = Literal["safe-goal-rate", "goal-rate", "return", "cost"]
SWEEP_FILE = "sweep.json"


def is_sweep(path: Path) -> bool:
    """Whether a folder is that of a sweep."""
    return (path / SWEEP_FILE).is_file()


def ranking_columns(metric: str) -> tuple[str, ...]:
    """The columns of a ranking."""
    others = tuple(name for name in ("safe-goal-rate", "return", "cost") if name != metric)
    return ("", "configuration", metric, "95 % interval", "seeds", *others, "steps")


def ranking_rows(found: "list[Ranked]", metric: str) -> list[tuple[object, ...]]:
    """The rows of a ranking; the metric is the interquartile mean over seeds."""
    rows = []
    for place, one in enumerate(found, 1):
        value = f"{one.summary.iqm:.4g}" if one.summary else "no episode"
        interval = f"{one.summary.low:.4g} to {one.summary.high:.4g}" if one.summary and one.seeds > 1 else "–"
        others = [f"{one.means[n]:.4g}" if n in one.means else "–" for n in ranking_columns(metric)[5:-1]]
        steps = f"{one.steps}" if one.whole else f"{one.steps} of {one.planned}: stopped early or not finished"
        rows.append((place, one.configuration, value, interval, one.seeds, *others, steps))
    return rows


def report_sweep(path: Path, metric: str | None, out: Path | None, as_json: bool) -> None:
    """Print the ranking of a sweep; with `out`, also write it as text and CSV, with a figure for each setting."""
    print_ranking(path, metric, as_json)
    if out is None:
        return
    from safedsr.figures.sweep import save_figures
    from safedsr.sweep.ranking import metric_of, rank, write_ranking

    found, metric = rank(path, metric), metric_of(path, metric)
    made = [write_ranking(found, metric, out), *save_figures(found, metric, out / "figures")]
    if not as_json:
        print("\n".join(f"written: {file}" for file in made))


def print_ranking(out: Path, metric: str | None, as_json: bool, failed: dict[str, str] | None = None) -> None:
    """Print the configurations of a sweep, best first."""
    from safedsr.sweep.ranking import metric_of, rank

    found, metric = rank(out, metric), metric_of(out, metric)
    if as_json:
        return print_json(
            {
                "sweep": str(out),
                "metric": metric,
                "ranking": [{**one._asdict(), "summary": one.summary and one.summary._asdict()} for one in found],
                "failed": failed or {},
            }
        )
    print_table(ranking_columns(metric), ranking_rows(found, metric), title=f"{out}, by {metric}")
    print(f"{metric}: interquartile mean over seeds, of the episodes in the last quarter of the steps")
    print(f"the command of the best: safedsr sweep --best --out {out}")
