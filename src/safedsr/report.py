"""Run folders as tables of the paper's end-of-training statistics (Sec. 5.2)."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from safedsr.errors import UserError
from safedsr.metrics import Episodes, Summary, goal_count, last, safe_goal_count, summarize
from safedsr.runs import Run, load_run


class Line(NamedTuple):
    """One metric of one environment of one run, over its seeds."""

    run: str
    environment: str
    metric: str
    seeds: int
    found: Summary


def report(paths: Sequence[str | Path]) -> list[Line]:
    """Goal count, safe goal count, and the reward and costs of the last episodes, for every environment."""
    return [line for path in paths for line in _lines(load_run(path))]


def _lines(run: Run) -> list[Line]:
    lines = []
    for index, about in enumerate(run.config.get("environments", [])):
        seeds = run.by_seed(index)
        if not seeds or not all(len(episodes.end_step) for episodes in seeds):
            raise UserError(f"{run.path} has seeds without a finished episode; train it further before reporting")
        name = ", ".join([about["name"], *about["costs"]])
        for metric, values in _metrics(seeds, about["budgets"], about["costs"]).items():
            lines.append(Line(run.path.name, name, metric, len(seeds), summarize(values)))
    return lines


def _metrics(seeds: list[Episodes], budgets: list[float], costs: list[str]) -> dict[str, Sequence[float]]:
    metrics: dict[str, Sequence[float]] = {
        "goal count": [goal_count(episodes) for episodes in seeds],
        "safe goal count": [safe_goal_count(episodes, budgets) for episodes in seeds],
        "last reward": list(last(seeds, lambda episodes: episodes.ret)),
    }
    for j, name in enumerate(costs):
        metrics[f"last cost of {name}"] = list(last(seeds, lambda episodes, j=j: episodes.cost[:, j]))
    return metrics
