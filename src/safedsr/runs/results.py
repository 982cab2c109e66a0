"""What tables and figures read: one record for each environment of each run folder, full or packed (Sec. 5.2).

Nothing is averaged over folders here. What differs from an algorithm's defaults, from float32, a budget of 5 or 500 000
steps is part of a result's label, so that different things stay in different rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.errors import UserError
from safedsr.runs import metrics, storage
from safedsr.runs.folder import Run, load_run, load_trajectories
from safedsr.runs.labels import label_of
from safedsr.runs.metrics import Episodes

PACKED = "packed-1"  # the format that the manifest of a packed folder gives
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
    grid: np.ndarray  # [T] environment steps: every 200, of a packed folder every 2000
    series: dict[str, np.ndarray]  # [S, T] each: reward, cost (all of them together), safe, goal; NaN before the first
    positions: np.ndarray | None  # [n, 2] in cells, the last steps of the best seed; a row of NaN after each episode
    middle: dict[str, np.ndarray] | None = None  # [T] each: the IQM of a series over seeds, taken every 200 steps

    @property
    def environment(self) -> str:
        """The map and its costs in a few words."""
        return ", ".join([self.layout, *self.costs])


def load_results(paths: Sequence[str | Path], remarks: list[str] | None = None) -> list[Result]:
    """The results of run folders, or of folders that hold some; `remarks` gets what is missing or was left out."""
    remarks = [] if remarks is None else remarks
    results: list[Result] = []
    for folder in find_runs(paths, remarks):
        try:
            results.extend(_read(folder, remarks))
        except (UserError, OSError) as error:
            remarks.append(f"left out: {error}")
        except (KeyError, TypeError) as error:
            remarks.append(f"left out: {folder} is damaged: {error!r}")
    return _told_apart(results, remarks)


def trend(result: Result, name: str) -> np.ndarray:
    """A series over training as the paper draws it: IQM over seeds at each point, then the mean of 20 000 steps."""
    return smooth(result, result.middle[name] if result.middle else metrics.over_seeds(result.series[name]))


def smooth(result: Result, values: np.ndarray, window: int = metrics.WINDOW) -> np.ndarray:
    """Mean over the `window` environment steps up to each point of the result's grid, along the last axis."""
    spacing = int(result.grid[0]) if len(result.grid) else metrics.GRID_STEP
    return metrics.window_mean(values, window, spacing)


def best_seed(counts: Mapping[str, np.ndarray]) -> int:
    """The index of the seed with the largest safe goal count, then the largest goal count (Fig. 7)."""
    return int(np.lexsort((counts["goal count"], counts["safe goal count"]))[-1])


def find_runs(paths: Sequence[str | Path], remarks: list[str]) -> list[Path]:
    """The run folders among `paths` and below them, each once; `remarks` gets the paths without any."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        inside = sorted(manifest.parent for manifest in path.rglob("manifest.json"))
        if not inside:
            what = "no manifest.json in or below it" if path.is_dir() else "no such folder"
            remarks.append(f"left out: {path} is no run folder ({what}); give what 'safedsr train --out' wrote")
        for folder in inside:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def read_run(folder: Path, remarks: list[str]) -> dict[int, Result]:
    """The results of a full run folder, by environment; also while it is still being written."""
    run = load_run(folder)
    if not run.episodes or not len(run.episodes["seed"]):
        raise UserError(f"{folder} has no finished episode; train it further")
    steps = int(run.curves.get("step", run.episodes["end_step"]).max())
    tracks = _tracks(folder, run.config, remarks)
    results = {}
    for index, about in enumerate(run.config["environments"]):
        kept = {seed: one for seed, one in zip(run.seeds, run.by_seed(index), strict=True) if len(one.end_step)}
        if kept:
            result = _result(run, about, kept, steps)
            if tracks:
                best = index, run.seeds.index(result.seeds[best_seed(result.counts)])
                result = result._replace(positions=_track(*(tracks[name][:, *best] for name in ("position", "done"))))
            results[index] = result
    return results


def _read(folder: Path, remarks: list[str]) -> list[Result]:
    manifest = storage.read_json(folder / "manifest.json", ["format", "seeds"])
    config = storage.read_json(folder / "config.json", ["algorithm", "environments", "train"])
    if manifest["format"] == PACKED:
        from safedsr.runs.pack import read_packed

        results = read_packed(folder)
    else:
        results = read_run(folder, remarks)
    remarks.extend(_shortcomings(folder, config, manifest["seeds"], results))
    return list(results.values())


def _result(run: Run, about: Mapping[str, Any], kept: Mapping[int, Episodes], steps: int) -> Result:
    budgets, costs, episodes = tuple(about["budgets"]), tuple(about["costs"]), list(kept.values())
    values: dict[str, Callable[[Episodes], np.ndarray]] = {
        "reward": lambda e: e.ret,
        "cost": lambda e: e.cost.sum(1),
        "safe": lambda e: metrics.safe(e, budgets),
        "goal": lambda e: e.reached,
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
        grid=metrics.support(steps),
        series={name: found.astype(np.float32) for name, found in series.items()},
        positions=None,
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


def _tracks(folder: Path, config: Mapping[str, Any], remarks: list[str]) -> storage.Table:
    if not config["train"].get("trajectories"):
        return {}
    try:
        return load_trajectories(folder)
    except UserError as error:
        remarks.append(f"no positions: {error}")
        return {}


def _track(position: np.ndarray, done: np.ndarray) -> np.ndarray:
    """One seed's positions with a row of NaN after each episode, where a drawn line must break."""
    return np.insert(position.astype(np.float32), np.flatnonzero(done) + 1, np.nan, axis=0)


def _shortcomings(
    folder: Path, config: Mapping[str, Any], seeds: list[int], results: Mapping[int, Result]
) -> Iterator[str]:
    """What a folder promises and does not hold."""
    for index, about in enumerate(config["environments"]):
        there = results[index].seeds if index in results else ()
        if missing := [seed for seed in seeds if seed not in there]:
            name = ", ".join([about["name"], *about["costs"]])
            yield f"{folder}: no finished episode in {name} of {_numbers('seed', missing)}: left out"
    planned = config["train"].get("steps", 0)
    for steps in {result.steps for result in results.values()}:
        if steps < planned:
            yield f"{folder}: only {steps} of its {planned} steps are done"


def _told_apart(results: list[Result], remarks: list[str]) -> list[Result]:
    """A label that is taken in an environment gets the seeds or the folder added; the same run counts once."""
    taken: dict[tuple[str, str], Result] = {}
    said: dict[str, list[str]] = {}  # what happened to a folder's results, and in which environments
    for result in results:
        first = taken.get((result.label, result.environment))
        if first and _same(first, result):
            said.setdefault(f"{result.path} is the run of {first.path} again: counted once", []).append("")
            result = result if first.positions is None and result.positions is not None else first
        elif first:
            label = _free_label(result, first, taken)
            what = f"{result.path} repeats {result.label} of {first.path}: shown apart as '{label}'"
            said.setdefault(what, []).append(result.environment)
            result = result._replace(label=label)
        taken[result.label, result.environment] = result
    remarks.extend(what + f" in {'; '.join(where)}" * any(where) for what, where in said.items())
    return list(taken.values())


def _same(one: Result, other: Result) -> bool:
    """Whether two results are of one run, perhaps in another form."""
    same = (one.seeds, one.steps, one.budgets) == (other.seeds, other.steps, other.budgets)
    return same and all(np.array_equal(one.counts[name], other.counts[name]) for name in one.counts)


def _free_label(result: Result, first: Result, taken: Mapping[tuple[str, str], Result]) -> str:
    words = [result.path.name, str(result.path)]
    if not set(first.seeds) & set(result.seeds):
        words.insert(0, _numbers("seed", result.seeds))
    labels = (_with_word(result.label, word) for word in words)
    return next((label for label in labels if (label, result.environment) not in taken), str(result.path))


def _with_word(label: str, word: str) -> str:
    return f"{label[:-1]}, {word})" if label.endswith(")") else f"{label} ({word})"


def _numbers(name: str, values: Sequence[int]) -> str:
    """Seeds in few words: a range where they follow on each other."""
    if len(values) == 1:
        return f"{name} {values[0]}"
    if list(values) == list(range(values[0], values[-1] + 1)):
        return f"{name}s {values[0]}–{values[-1]}"
    return f"{name}s {', '.join(map(str, values))}"
