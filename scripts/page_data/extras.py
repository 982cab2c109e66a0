"""The further experiments in the text of Sec. 5.3: results/extras."""

from functools import cache

import numpy as np

from page_data import counts, formats, sources
from page_data.registry import text
from safedsr.paper.experiments import LAGRANGIAN, ON_POLICY
from safedsr.runs.metrics import summarize
from safedsr.runs.results import Result, trend


@cache
def _extra(folder: str, layout: str) -> Result | None:
    try:
        return sources.result(folder, layout, "diamond", "extras")
    except KeyError:
        return None


def _rate(result: Result) -> float:
    """Safe goal rate of the last 20 000 steps, as in Fig. 6."""
    return float(trend(result, "safe")[-1])


def _safe(result: Result) -> float:
    """IQM of safe goals."""
    return float(summarize(result.counts[counts.SAFE]).iqm)


@text
def five_times() -> str:
    """Each baseline: safe goal rate at the end and its largest during training, 500 000 steps → 2 500 000 steps."""
    lines = []
    for name in sorted(ON_POLICY):
        if _extra(f"{name}-five-times", "one-room") is None:
            continue
        cells = []
        for layout in sources.ROOMS:
            usual, longer = sources.result(name, layout, "diamond"), _extra(f"{name}-five-times", layout)
            if longer is None:
                cells.append("not run")
                continue
            ends, bests = ([f(one) for one in (usual, longer)] for f in (_rate, _largest))
            cells.append(f"{_pair(ends)} ({_pair(bests)})")
        lines.append([sources.NAMES[name], *cells])
    return formats.table_of_runs(["", *sources.ROOMS.values()], lines)


@text
def five_times_missing() -> str:
    """The baselines that were not run with five times the steps."""
    names = [sources.NAMES[name] for name in sorted(ON_POLICY) if _extra(f"{name}-five-times", "three-rooms") is None]
    return ", ".join(names) or "none"


def _largest(result: Result) -> float:
    return float(np.nanmax(trend(result, "safe")))


def _pair(rates: list[float]) -> str:
    return " → ".join(formats.percent(rate) for rate in rates)


@text
def longer_safedqn() -> str:
    """SafeDQN in two rooms: safe goal rate at the end and its largest, 500 000 → 2 500 000 steps."""
    longer = _extra("safedqn-long", "two-rooms")
    if longer is None:
        return formats.NOT_RUN
    usual = sources.result("safedqn", "two-rooms", "diamond")
    ends, bests = ([f(one) for one in (usual, longer)] for f in (_rate, _largest))
    return f"{_pair(ends)} % ({_pair(bests)} %)."


@text
def late_penalty() -> str:
    """Safe goals of the four Lagrangian baselines, as usual → with λ tuned from step 100 000 on."""
    return _beside([(name, f"{name}-late-penalty", sources.NAMES[name]) for name in LAGRANGIAN])


@text
def no_delay() -> str:
    """Safe goals of SafeDSR, λ tuned from step 100 000 on → from the start."""
    pairs = (("cut", "safedsr-no-delay"), ("absorb", "safedsr-absorb-no-delay"))
    return _beside([(f"safedsr-{terminal}", other, f"SafeDSR, `{terminal}`") for terminal, other in pairs])


def _beside(pairs: list[tuple[str, str, str]]) -> str:
    lines = []
    for usual, other, label in pairs:
        found = [_extra(other, layout) for layout in sources.ROOMS]
        cells = [_both(usual, layout, one) for layout, one in zip(sources.ROOMS, found, strict=True)]
        if any(found):
            lines.append([label, *cells])
    return formats.table_of_runs(["", *sources.ROOMS.values()], lines)


def _both(usual: str, layout: str, other: Result | None) -> str:
    if other is None:
        return formats.UNKNOWN
    before = sources.summary(usual, layout, "diamond", counts.SAFE).iqm
    return f"{formats.count(before)} → {formats.count(_safe(other))}"
