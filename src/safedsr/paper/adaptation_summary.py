"""The summary of the experiment with changing costs: one small file for tables and figures."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.errors import UserError
from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_arms import arm_curves, arm_rows, find_arms, rung_rows
from safedsr.paper.adaptation_plan import Scale
from safedsr.paper.adaptation_rungs import oracles
from safedsr.paper.adaptation_runs import read_timings, stages
from safedsr.paper.adaptation_walks import write_walks
from safedsr.paper.tables import BUDGET
from safedsr.runs import metrics, storage
from safedsr.runs.folder import Run, load_run
from safedsr.runs.metrics import Episodes

FOLDER, FILE = "summary", "adaptation.json"
SPACING = 2_000  # environment steps between the points of a curve
DIGITS = 4
OLDER_NAME = ("goes on", "fine-tuning")  # of a method, in summaries written before

Numbers = dict[str, Any]


def summarize_all(scale: Scale, out: Path) -> Path:
    """Write the summary of all trainings so far; return its folder."""
    trained = {
        variant.name: timelines(out, variant.name)
        for variant in plan.VARIANTS
        if (out / f"safedsr-{variant.name}-after" / "manifest.json").exists()
    }
    arms = find_arms(stages(scale), out)
    if not trained and not arms:
        raise UserError(
            f"{out} has no finished part of the experiment; run one first, for example --parts before after"
        )
    oracle = oracles(scale, out)
    data = {
        "quick": scale.quick,
        "shorten": scale.shorten,
        "budget": BUDGET,
        "phases": [row for name, found in trained.items() for row in phase_rows(name, found, scale)],
        "curves": [row for name, found in trained.items() for row in curve_rows(name, found, scale)],
        "arms": [row for arm in arms for row in arm_rows(arm, oracle, scale)],
        "arm_curves": [row for arm in arms for row in arm_curves(arm, scale)],
        "rungs": rung_rows(out),
        "oracle": oracle,
        "timings": read_timings(out),
    }
    folder = out / FOLDER
    storage.make_folder(folder)
    write_walks(folder, {name: out / f"safedsr-{name}-after" for name in trained}, scale)
    storage.write_json(folder / FILE, data)
    return folder


def read_summary(folder: Path) -> dict[str, Any]:
    """Read the file that `summarize_all` wrote."""
    inside = folder / FOLDER
    path = (inside if inside.is_dir() else folder) / FILE
    data = storage.read_json(path, ["phases", "curves", "arms", "arm_curves", "rungs", "oracle"])
    for row in (*data["arms"], *data["arm_curves"]):
        row["arm"] = row["arm"].replace(*OLDER_NAME)
    return data


class Timeline(NamedTuple):
    """One change of one variant, from step 0 on."""

    seeds: list[int]
    episodes: list[Episodes]  # of each seed
    lams: dict[tuple[int, int], float]  # λ by seed and step, at the ends of chunks


def make_timeline(before: Run, after: Run, change: int) -> Timeline:
    """The episodes before a change and after it; several changes may share the part before."""
    lanes = ((before, plan.LANES[change]), (after, change))
    episodes = zip(*(run.by_seed(lane) for run, lane in lanes), strict=True)
    lams = {key: lam for run, lane in lanes for key, lam in multipliers(run.curves, lane)}
    return Timeline(before.seeds, [join(first, second) for first, second in episodes], lams)


def multipliers(curves: storage.Columns, lane: int) -> Iterator[tuple[tuple[int, int], float]]:
    """λ by seed and step in one task of a run."""
    here = curves["environment"] == lane
    for seed, step, lam in zip(*(curves[name][here].tolist() for name in ("seed", "step", "lam_0")), strict=True):
        yield (seed, step), lam


def timelines(out: Path, variant: str, trained: str | None = None) -> list[Timeline]:
    """The changes of a variant, in the order of the plan; its agents may have been `trained` as another one."""
    before, after = (load_run(out / f"safedsr-{name}") for name in (f"{trained or variant}-before", f"{variant}-after"))
    return [make_timeline(before, after, change) for change in range(len(plan.CHANGES))]


def join(first: Episodes, second: Episodes) -> Episodes:
    """Episodes one after the other."""
    return Episodes(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))


def part(episodes: Episodes, start: int, end: int) -> Episodes:
    """The episodes that ended after `start` and up to `end`."""
    inside = (episodes.end_step > start) & (episodes.end_step <= end)
    return Episodes(*(field[inside] for field in episodes))


def phase_rows(variant: str, found: Sequence[Timeline], scale: Scale) -> Iterator[Numbers]:
    """One row for each change, phase and seed: means over its episodes, and λ at the end of the phase."""
    phases = plan.phases(scale)
    ends = [phase.start for phase in phases[1:]] + [scale.of(plan.END)]
    for change, timeline in enumerate(found):
        for phase, end in zip(phases, ends, strict=True):
            for seed, episodes in zip(timeline.seeds, timeline.episodes, strict=True):
                here = part(episodes, phase.start, end)
                if count := len(here.end_step):
                    yield {
                        "variant": variant,
                        "change": change,
                        "phase": phase.number,
                        "seed": seed,
                        "episodes": count,
                        "safe": short(metrics.safe(here, [BUDGET]).mean()),
                        "goal": short(here.success.mean()),
                        "cost": short(here.cost[:, 0].mean()),
                        "lam": short(timeline.lams.get((seed, end), np.nan)),
                    }


def curve_rows(variant: str, found: Sequence[Timeline], scale: Scale) -> Iterator[Numbers]:
    """Fig. 23: the safe goal rate over all phases, averaged as the paper does, and as plain means."""
    total, window = scale.of(plan.END), max(scale.of(metrics.WINDOW), metrics.SPACING)
    points = metrics.support(total)
    every = max(scale.of(SPACING) // metrics.SPACING, 1)
    chosen = np.arange(every - 1, len(points), every)
    for change, timeline in enumerate(found):
        series = np.stack(
            [
                metrics.interpolate(e.end_step, metrics.safe(e, [BUDGET]).astype(np.float64), total)
                for e in timeline.episodes
            ]
        )
        lines = {
            "iqm": metrics.window_mean(metrics.over_seeds(series), window),
            "mean": metrics.window_mean(metrics.over_seeds(series, robust=False), window),
        }
        seeds = metrics.window_mean(series, window)[:, chosen]
        known = np.isfinite(seeds).all(0)
        quartiles = np.full((2, len(chosen)), np.nan)
        quartiles[:, known] = np.percentile(seeds[:, known], (25, 75), axis=0)
        yield {
            "variant": variant,
            "change": change,
            "step": points[chosen].tolist(),
            **{name: shorts(line[chosen]) for name, line in lines.items()},
            **{name: shorts(line) for name, line in zip(("low", "high"), quartiles, strict=True)},
        }


def short(value: Any) -> float | None:
    """A rounded number; None for NaN, which JSON does not allow."""
    return round(float(value), DIGITS) if np.isfinite(value) else None


def shorts(values: np.ndarray) -> list[float | None]:
    """Rounded numbers."""
    return [short(value) for value in values]
