"""The methods compared after the change of costs: steps and seconds until each is safe, and violations until then."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_plan import Scale
from safedsr.paper.adaptation_rungs import BEFORE, FOLDER
from safedsr.paper.adaptation_runs import Stage, read_timings
from safedsr.paper.tables import BUDGET
from safedsr.runs import metrics, storage
from safedsr.runs.folder import load_run
from safedsr.runs.metrics import Episodes
from safedsr.sweep.finish import standing

WINDOW, SPACING = 5_000, 1_000  # environment steps over which a rate is computed, and between two rates
LAST_WINDOWS = 4  # over which the final rate is computed
DRAWN = 5  # every fifth rate is saved for figures
RUNG_NAMES = {
    BEFORE: "not adapted",
    "cost": "(a) refit",
    "penalty": "(b) refit, λ",
    "memory": "(b′) refit, λ, M from memory",
}
KIND_NAMES = {"finetune": "fine-tuning", "scratch": "(f) from scratch"}
LETTERS = {"safedqn": "(d)", "ppo-lag": "(e)", "trpo-pid": "(e)"}

Numbers = dict[str, Any]


class Arm(NamedTuple):
    """One method after one change of costs: the episodes of each seed, with steps counted from the change on."""

    owner: str
    kind: str
    change: int
    seeds: Sequence[int]
    episodes: list[Episodes]
    step_seconds: float | None  # of all agents in parallel
    change_seconds: float

    @property
    def name(self) -> str:
        """The name in tables: a letter and the method."""
        if self.kind == "scratch":
            return KIND_NAMES[self.kind]
        return f"{LETTERS.get(self.owner, '(c)')} {KIND_NAMES[self.kind]}"


def find_arms(stages: Sequence[Stage], out: Path) -> list[Arm]:
    """All finished trainings after a change of costs, or from scratch with the new costs."""
    by_name = {stage.name: stage for stage in stages}
    timings = read_timings(out)
    arms = []
    for stage in stages:
        if stage.kind in KIND_NAMES and _done(stage, out):
            for change, costs in enumerate(plan.NEW_COSTS):
                source = stage
                if stage.kind == "scratch" and costs in plan.FIRST_COSTS:
                    source = by_name[f"{stage.owner}-before"]  # these costs are its first costs
                if _done(source, out):
                    arms.append(_arm(stage, source, change, costs, out, timings))
    return arms


def _done(stage: Stage, out: Path) -> bool:
    return (out / stage.name).exists() and standing(stage.planned.job, out / stage.name) == "done"


def _arm(stage: Stage, source: Stage, change: int, costs: str, out: Path, timings: Mapping[str, Any]) -> Arm:
    run = load_run(out / source.name)
    lane = change if stage.kind == "finetune" else [e["costs"] for e in run.config["tasks"]].index([costs])
    steps = stage.job.train.steps - stage.first_step
    time = timings.get(stage.name, {})
    episodes = [since(one, stage.first_step, steps) for one in run.by_seed(lane)]
    pace, once = time.get("step_seconds"), time.get("change_seconds", 0.0)
    return Arm(stage.owner, stage.kind, change, run.seeds, episodes, pace, once)


def since(episodes: Episodes, first: int, steps: int) -> Episodes:
    """The episodes that ended in the `steps` steps after `first`, with steps counted from there."""
    inside = (episodes.end_step > first) & (episodes.end_step <= first + steps)
    cut = Episodes(*(field[inside] for field in episodes))
    return cut._replace(end_step=cut.end_step - first)


def windowed(episodes: Episodes, steps: int, window: int, spacing: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps, the first after one whole window, and the safe goal rate of the episodes that ended in each window."""
    points = np.arange(window, steps + 1, spacing)
    safe = np.concatenate([[0], np.cumsum(metrics.safe(episodes, [BUDGET]))])
    last = np.searchsorted(episodes.end_step, points, side="right")
    before = np.searchsorted(episodes.end_step, points - window, side="right")
    return points, (safe[last] - safe[before]) / np.maximum(last - before, 1)


def time_to_safe(episodes: Episodes, enough: float, steps: int, window: int, spacing: int) -> int | None:
    """The first step at which the windowed rate is at least `enough`; None if it never is."""
    points, rates = windowed(episodes, steps, window, spacing)
    reached = np.flatnonzero(rates >= enough)
    return int(points[reached[0]]) if len(reached) else None


def arm_rows(arm: Arm, oracle: Mapping[str, Mapping[str, float]], scale: Scale) -> Iterator[Numbers]:
    """One row for each seed: the first step at which it is safe, and the number of violations until then."""
    steps, sizes = scale.of(plan.AFTERWARDS), _sizes(scale)
    enough = oracle[plan.NEW_COSTS[arm.change]]["safe_goal_rate"] / 2
    for seed, episodes in zip(arm.seeds, arm.episodes, strict=True):
        when = time_to_safe(episodes, enough, steps, *sizes)
        until = episodes.end_step <= (steps if when is None else when)
        seconds = None if when is None or arm.step_seconds is None else when * arm.step_seconds + arm.change_seconds
        yield {
            "owner": arm.owner,
            "arm": arm.name,
            "change": arm.change,
            "seed": seed,
            "steps": when,
            "seconds": seconds,
            "violations": int((~metrics.within(episodes.cost[until], [BUDGET])).sum()),
            "last": round(_last_rate(episodes, steps - LAST_WINDOWS * sizes[0]), 4),
        }


def _last_rate(episodes: Episodes, after: int) -> float:
    """The safe goal rate of the episodes that ended after a step."""
    late = episodes.end_step > after
    return float(metrics.safe(episodes, [BUDGET])[late].mean()) if late.any() else 0.0


def arm_curves(arm: Arm, scale: Scale) -> Iterator[Numbers]:
    """The windowed rate over the steps after the change: mean and quartiles of the seeds."""
    window, spacing = _sizes(scale)
    found = [windowed(one, scale.of(plan.AFTERWARDS), window, spacing * DRAWN) for one in arm.episodes]
    points, rates = found[0][0], np.stack([rates for _, rates in found])
    lines = {"mean": rates.mean(0), "low": np.percentile(rates, 25, 0), "high": np.percentile(rates, 75, 0)}
    yield {
        "owner": arm.owner,
        "arm": arm.name,
        "change": arm.change,
        "step": points.tolist(),
        "step_seconds": arm.step_seconds,
        "change_seconds": arm.change_seconds,
        **{name: line.round(4).tolist() for name, line in lines.items()},
    }


def _sizes(scale: Scale) -> tuple[int, int]:
    """Window and spacing. The window of a quick experiment shrinks less than its steps, as it has few episodes."""
    return (WINDOW, SPACING) if not scale.quick else (scale.of(plan.AFTERWARDS) // 4, scale.of(plan.AFTERWARDS) // 20)


def rung_rows(out: Path) -> list[Numbers]:
    """The saved rows of the methods without environment steps."""
    files = sorted((out / FOLDER).glob("*.json"))
    return [row for file in files for row in storage.read_json(file, ["rows"])["rows"]]
