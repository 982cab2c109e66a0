"""Rank the configurations of a sweep by a metric of the last quarter of their steps, from run folders alone."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import numpy as np

from safedsr.errors import UserError, unknown
from safedsr.runs import storage
from safedsr.runs.config import EPISODE, terms_of
from safedsr.runs.folder import Run, is_file, load_run, read_config
from safedsr.runs.metrics import LATE, Episodes, Summary, excess, safe, summarize
from safedsr.runs.schema import MANIFEST
from safedsr.sweep.plan import FILE, METRICS, read_sweep


class Ranked(NamedTuple):
    """A configuration and what its seeds reached."""

    configuration: str
    algorithm: str
    settings: dict[str, Any]  # those that are varied
    seeds: int
    steps: int  # of the run with the fewest
    planned: int  # steps of a whole run
    summary: Summary | None  # of the metric, over seeds; None without an episode
    means: dict[str, float]  # of all metrics
    within: bool  # whether the mean costs keep the budgets

    @property
    def whole(self) -> bool:
        """Whether all steps are done; else it was stopped early or still runs."""
        return self.steps >= self.planned


def rank(out: Path, metric: str | None = None, until: int | None = None) -> list[Ranked]:
    """The configurations that have begun, best first; `until` leaves out what happened after that step.

    By return, configurations whose mean costs are within the budgets come first. Ties keep the order of the sweep.
    """
    about = _content(out)
    chosen = metric_of(out, metric)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in about:
        if is_file(out / one["name"] / MANIFEST):
            groups.setdefault(one["configuration"], []).append(one)
    if not groups:
        raise UserError(f"no run of the sweep in {out} has begun; run it first: safedsr sweep --out {out}")
    found = []
    for configuration, runs in groups.items():
        loaded = [load_run(out / one["name"]) for one in runs]
        found.append(_ranked(configuration, runs[0]["settings"], loaded, chosen, until))
    return sorted(found, key=lambda one: _key(one, chosen))


def metric_of(out: Path, metric: str | None = None) -> str:
    """The metric that counts: the given one, that of the sweep, or safe goals; the return if there are no goals."""
    metric = metric or read_sweep(out).metric
    if metric is None:
        begun = (out / one["name"] for one in _content(out) if is_file(out / one["name"] / MANIFEST))
        first = next(begun, None)
        return "safe-goal-rate" if first is None or terms_of(read_config(first)).goals else "return"
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    return metric


def commands(out: Path, one: Ranked) -> list[str]:
    """The commands that train a configuration again: one for each budget."""
    sweep = read_sweep(out)
    words = [f"safedsr train {one.algorithm}"]
    for name, value in sweep.env.items():
        flag = f"--{name.replace('_', '-')}"
        repeated = name in ("env_arg", "cost_fn", "cost_arg")
        words += [f"{flag} {quote(text)}" for text in value] if repeated else [_flag(name, value)]
    words += [_flag(name, getattr(sweep, name)) for name in ("layout", "costs", "preset") if getattr(sweep, name)]
    words += [_flag("budget_kind", sweep.budget_kind)] if sweep.budget_kind != EPISODE else []
    words += [_flag("seeds", sweep.seeds), _flag("first_seed", sweep.first_seed)]
    words += [_flag(name, value) for name, value in {**sweep.own("set", one.algorithm), **one.settings}.items()]
    places = [str(out.with_name(f"{out.name}-best"))]
    if len(sweep.budget) > 1:
        places = [f"{places[0]}-{budget}" for budget in sweep.budget]
    budgets = [f" --budget {budget}" for budget in sweep.budget] or [""]
    return [f"{' '.join(words)}{budget} --out {quote(place)}" for budget, place in zip(budgets, places, strict=True)]


def _flag(name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join([f"--{flag}", *(quote(str(one)) for one in values)])


def write_ranking(found: Sequence[Ranked], metric: str, out: Path) -> Path:
    """Write a ranking as ranking.csv: a row for each configuration, with its settings and all metrics."""
    names = list(dict.fromkeys(name for one in found for name in one.settings))
    head = ["place", "configuration", "algorithm", *names, f"{metric} (IQM)", "low", "high", *METRICS]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*head, "seeds", "steps", "planned steps"])
    for place, one in enumerate(found, 1):
        middle = [one.summary.iqm, one.summary.low, one.summary.high] if one.summary else [""] * 3
        settings = [one.settings.get(name, "") for name in names]
        others = [one.means.get(name, "") for name in METRICS]
        writer.writerow(
            [place, one.configuration, one.algorithm, *settings, *middle, *others, one.seeds, one.steps, one.planned]
        )
    storage.make_folder(out)
    storage.write_text(out / "ranking.csv", file.getvalue())
    return out / "ranking.csv"


def _content(out: Path) -> list[dict[str, Any]]:
    if not is_file(out / FILE):
        raise UserError(f"{out} is not the folder of a sweep (no {FILE}); give the folder of 'safedsr sweep --out'")
    return storage.read_json(out / FILE, ["sweep", "runs"])["runs"]


def _key(one: Ranked, metric: str) -> tuple[bool, bool, float]:
    value = one.summary.iqm if one.summary else 0.0
    over = metric == "return" and not one.within
    return one.summary is None, over, value if metric == "cost" else -value


def _ranked(
    configuration: str, settings: dict[str, Any], runs: Sequence[Run], metric: str, until: int | None
) -> Ranked:
    values: dict[str, dict[int, list[float]]] = {name: {} for name in METRICS}
    over = []
    reached = []
    for run in runs:
        steps = int(run.curves["step"].max()) if len(run.curves.get("step", ())) else 0
        reached.append(steps)
        for index, task in enumerate(run.config["tasks"]):
            for seed, episodes in zip(run.seeds, run.by_seed(index), strict=False):
                late = _late(episodes, min(until or steps, steps))
                if len(late.end_step):
                    over.append(excess(late.cost.mean(0, dtype=np.float64), task["budgets"]))
                for name, value in _values(late, task["budgets"]).items():
                    values[name].setdefault(seed, []).append(value)
    seeds = {seed for run in runs for seed in run.seeds}
    means = {name: float(np.mean([np.mean(v) for v in each.values()])) for name, each in values.items() if each}
    each = [float(np.mean(found)) for found in values[metric].values()]
    return Ranked(
        configuration,
        runs[0].config["algorithm"],
        settings,
        len(seeds),
        min(reached),
        int(runs[0].config["train"]["steps"]),
        summarize(each) if each else None,
        means,
        bool(over) and float(np.mean(over)) <= 0,
    )


def _late(episodes: Episodes, end: int) -> Episodes:
    """The episodes that ended in the last quarter before `end`; the last one if there is none."""
    before = np.flatnonzero(episodes.end_step <= end)
    rows = before[episodes.end_step[before] > LATE * end]
    rows = rows if len(rows) else before[-1:]
    return Episodes(*(column[rows] for column in episodes))


def _values(late: Episodes, budgets: Sequence[float]) -> dict[str, float]:
    if not len(late.end_step):
        return {"safe-goal-rate": 0.0, "goal-rate": 0.0}  # no episode has ended, so none was a success
    return {
        "safe-goal-rate": float(safe(late, budgets).mean()),
        "goal-rate": float(late.success.mean()),
        "return": float(late.ret.mean()),
        "cost": float(late.cost.sum(1).mean()) if late.cost.shape[1] else 0.0,
    }
