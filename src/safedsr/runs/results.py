"""What tables and figures read: one record for each environment of each run folder, full or packed (Sec. 5.2).

Nothing is averaged over folders here. What differs from an algorithm's defaults, from float32, a budget of 5 or 500 000
steps is part of a result's label, so that different things stay in different rows.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.errors import UserError
from safedsr.runs import metrics, storage
from safedsr.runs.folder import Run, load_run, load_trajectories
from safedsr.runs.labels import label_of
from safedsr.runs.metrics import Episodes
from safedsr.runs.tracks import with_breaks

HALVED = "half-budget safe goal count"  # what a safe goal count is if costs are counted twice
COUNTS = ("goal count", "safe goal count", HALVED, "last reward")


class Result(NamedTuple):
    """What one run folder says about one environment; S seeds, T points in time."""

    path: Path
    algorithm: str
    label: str  # the algorithm, and what differs from its defaults in brackets
    layout: str
    costs: tuple[str, ...]
    budgets: tuple[float, ...]
    seeds: tuple[int, ...]
    steps: int  # that were taken, also if the run is to go on
    counts: dict[str, np.ndarray]  # [S] each: COUNTS, last cost NAME
    points: np.ndarray  # [T] environment steps: every 200, of a packed folder every 2000
    series: dict[str, np.ndarray]  # [S, T] each: reward, cost (all of them together), safe, goal; NaN before the first
    positions: np.ndarray | None  # [n, 2] in cells, the last steps of the best seed; a row of NaN after each episode
    config: Mapping[str, Any]  # the run's
    params: Mapping[str, Any]  # the task's, as config.json has them
    middle: dict[str, np.ndarray] | None = None  # [T] each: the IQM of a series over seeds, taken every 200 steps

    @property
    def environment(self) -> str:
        """The map and its costs in a few words."""
        return ", ".join([self.layout, *self.costs])


def trend(result: Result, name: str) -> np.ndarray:
    """A series over training as the paper draws it: IQM over seeds at each point, then the mean of 20 000 steps."""
    return smooth(result, result.middle[name] if result.middle else metrics.over_seeds(result.series[name]))


def smooth(result: Result, values: np.ndarray, window: int = metrics.WINDOW) -> np.ndarray:
    """Mean over the `window` environment steps up to each point of the result's grid, along the last axis."""
    spacing = int(result.points[0]) if len(result.points) else metrics.SPACING
    return metrics.window_mean(values, window, spacing)


def best_seed(counts: Mapping[str, np.ndarray]) -> int:
    """The index of the best seed, see `metrics.first_best`."""
    return metrics.first_best(list(zip(counts["safe goal count"], counts["goal count"], strict=True)))


def read_run(folder: Path, remarks: list[str]) -> dict[int, Result]:
    """The results of a full run folder, by environment; also while it is still being written."""
    run = load_run(folder)
    if not run.episodes or not len(run.episodes["seed"]):
        raise UserError(f"{folder} has no finished episode; train it further")
    steps = int(run.curves.get("step", run.episodes["end_step"]).max())
    tracks = _tracks(folder, run.config, remarks)
    results = {}
    for index, about in enumerate(run.config["tasks"]):
        kept = {seed: one for seed, one in zip(run.seeds, run.by_seed(index), strict=True) if len(one.end_step)}
        if kept:
            result = _result(run, about, kept, steps)
            if tracks:
                best = index, run.seeds.index(result.seeds[best_seed(result.counts)])
                result = result._replace(
                    positions=with_breaks(*(tracks[name][:, *best] for name in ("position", "done")))
                )
            results[index] = result
    return results


def _result(run: Run, about: Mapping[str, Any], kept: Mapping[int, Episodes], steps: int) -> Result:
    budgets, costs, episodes = tuple(about["budgets"]), tuple(about["costs"]), list(kept.values())
    values: dict[str, Callable[[Episodes], np.ndarray]] = {
        "reward": lambda e: e.ret,
        "cost": lambda e: e.cost.sum(1),
        "safe": lambda e: metrics.safe(e, budgets),
        "goal": lambda e: e.success,
    }
    series = {
        name: np.stack([metrics.interpolate(e.end_step, value(e), steps) for e in episodes])
        for name, value in values.items()
    }
    return Result(
        path=run.path,
        algorithm=run.config["algorithm"],
        label=label_of(run.config, budgets, steps),
        layout=about["name"],
        costs=costs,
        budgets=budgets,
        seeds=tuple(kept),
        steps=steps,
        counts=_counts(episodes, budgets, costs),
        points=metrics.support(steps),
        series={name: found.astype(np.float32) for name, found in series.items()},
        positions=None,
        config=run.config,
        params=about["params"],
        middle={name: metrics.over_seeds(found) for name, found in series.items()},
    )


def _counts(episodes: list[Episodes], budgets: Sequence[float], costs: Sequence[str]) -> dict[str, np.ndarray]:
    return {
        "goal count": np.array([metrics.goal_count(e) for e in episodes], np.float64),
        "safe goal count": np.array([metrics.safe_goal_count(e, budgets) for e in episodes], np.float64),
        HALVED: np.array([metrics.safe_goal_count(e, [b / 2 for b in budgets]) for e in episodes], np.float64),
        "last reward": metrics.last(episodes, lambda e: e.ret),
        **{f"last cost {name}": metrics.last(episodes, lambda e, j=j: e.cost[:, j]) for j, name in enumerate(costs)},
    }


def _tracks(folder: Path, config: Mapping[str, Any], remarks: list[str]) -> storage.Columns:
    if not config["train"].get("trajectories"):
        return {}
    try:
        return load_trajectories(folder)
    except UserError as error:
        remarks.append(f"no positions: {error}")
        return {}
