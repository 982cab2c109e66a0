"""Results for tables and figures: one record for each environment of each run folder, full or packed (Sec. 5.2).

Results are not averaged over folders. The label of a result contains all differences from the algorithm's defaults,
float32, a budget of 5 and 500 000 steps, so that different settings get different rows.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.envs.grid.config import GRID
from safedsr.errors import UserError
from safedsr.runs import metrics, storage
from safedsr.runs.config import Terms, terms_of
from safedsr.runs.folder import Run, load_run, load_trajectories
from safedsr.runs.labels import label_of
from safedsr.runs.metrics import Episodes
from safedsr.runs.tracks import with_breaks

HALVED = "half-budget safe goal count"  # the safe goal count if every cost counts twice
COUNTS = ("goal count", "safe goal count", HALVED, "last reward")


class Result(NamedTuple):
    """Results of one run folder in one environment; S seeds, T points in time."""

    path: Path
    algorithm: str
    label: str  # the algorithm, and in brackets what differs from its defaults
    layout: str
    costs: tuple[str, ...]
    budgets: tuple[float, ...]
    seeds: tuple[int, ...]
    steps: int  # taken so far; fewer than planned in an unfinished run
    counts: dict[str, np.ndarray]  # [S] each: COUNTS, last cost NAME
    points: np.ndarray  # [T] environment steps: every 200, in packed folders every 2000
    series: dict[
        str, np.ndarray
    ]  # [S, T] each: reward, cost (sum), cost NAME if several, safe, goal; NaN before the first
    positions: np.ndarray | None  # [n, 2] in cells, the last steps of the best seed; a row of NaN after each episode
    config: Mapping[str, Any]  # of the run
    params: Mapping[str, Any]  # of the task, as in config.json
    middle: dict[str, np.ndarray] | None = None  # [T] each: the IQM of a series over seeds, computed every 200 steps

    @property
    def environment(self) -> str:
        """The names of the map and its costs."""
        return ", ".join([self.layout, *self.costs])

    @property
    def title(self) -> str:
        """The name of the environment, of the task unless it has the same, and of its costs."""
        name = self.config["environment"]["name"]
        return self.environment if self.environment.startswith(name) else f"{name}: {self.environment}"

    @property
    def on_grid(self) -> bool:
        """Whether the run was trained on the grid, as the paper's."""
        return self.config.get("environment", {}).get("name", GRID) == GRID

    @property
    def terms(self) -> Terms:
        """The terms on which episodes are judged. If they cannot succeed, all count as goals."""
        return terms_of(self.config)


def trend(result: Result, name: str, window: int = metrics.WINDOW) -> np.ndarray:
    """A series as in the paper's figures: IQM over seeds at each point, then the mean over the last steps."""
    return smooth(result, result.middle[name] if result.middle else metrics.over_seeds(result.series[name]), window)


def smooth(result: Result, values: np.ndarray, window: int = metrics.WINDOW) -> np.ndarray:
    """Mean over the last `window` environment steps at each point of the result, along the last axis."""
    spacing = int(result.points[0]) if len(result.points) else metrics.SPACING
    return metrics.window_mean(values, window, spacing)


def best_seed(counts: Mapping[str, np.ndarray]) -> int:
    """The index of the best seed, see `metrics.first_best`."""
    return metrics.first_best(list(zip(counts["safe goal count"], counts["goal count"], strict=True)))


def read_run(folder: Path, remarks: list[str]) -> dict[int, Result]:
    """The results of a full run folder by environment; it may still be in training."""
    run = load_run(folder)
    if not run.episodes or not len(run.episodes["seed"]):
        raise UserError(f"{folder} has no finished episode; continue its training")
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
    if len(costs) > 1:
        values |= {f"cost {name}": lambda e, j=j: e.cost[:, j] for j, name in enumerate(costs)}
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
