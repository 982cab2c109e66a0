"""From the episodes of a run to the paper's numbers (Sec. 5.2): counts (17), rates, time series, statistics."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from safedsr.errors import UserError

SPACING = 200  # environment steps between the points of a time series
WINDOW = 20_000  # environment steps of the trailing mean


class Episodes(NamedTuple):
    """The finished episodes of one seed, in the order in which they ended."""

    end_step: np.ndarray  # [n] environment step at which it ended, counted from 1
    length: np.ndarray  # [n]
    ret: np.ndarray  # [n] sum of rewards
    cost: np.ndarray  # [n, J] sum of each cost
    success: np.ndarray  # [n] bool, the goal was reached


class Summary(NamedTuple):
    """One cell of a printed table: five columns, and a 95 % bootstrap interval of the IQM."""

    mean: float
    std: float
    p25: float
    iqm: float
    p75: float
    low: float
    high: float


def within(cost: np.ndarray, budgets: Sequence[float] | np.ndarray) -> np.ndarray:
    """Per episode [n, J]: is every cost within its budget? Budgets are rounded as costs are."""
    return np.asarray((cost <= np.asarray(budgets, cost.dtype)).all(-1))


def safe(episodes: Episodes, budgets: Sequence[float]) -> np.ndarray:
    """Per episode: did it reach the goal with every cost within its budget? The indicator of Eq. (17)."""
    count = episodes.cost.shape[1]
    if len(budgets) != count:
        raise UserError(f"{len(budgets)} budgets for {count} costs; give one a cost")
    return episodes.success.astype(bool) & within(episodes.cost, budgets)


def goal_count(episodes: Episodes) -> int:
    """How many episodes reached the goal."""
    return int(np.count_nonzero(episodes.success))


def safe_goal_count(episodes: Episodes, budgets: Sequence[float]) -> int:
    """Eq. (17): how many episodes reached the goal without breaking a budget."""
    return int(np.count_nonzero(safe(episodes, budgets)))


def best_place(each: Sequence[Episodes], budgets: Sequence[float]) -> int:
    """The place of the best seed, see `first_best`."""
    return first_best([(safe_goal_count(one, budgets), goal_count(one)) for one in each])


def first_best(counts: Sequence[tuple[float, float]]) -> int:
    """The place of the largest safe goal count, then of the largest goal count (Fig. 7); of equals, the first."""
    return max(range(len(counts)), key=lambda i: tuple(counts[i]))


def iqm(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Interquartile mean: the mean of what is left when a quarter is cut off at either end."""
    from scipy.stats import trim_mean

    return trim_mean(values, 0.25, axis=axis)


def summarize(values: Sequence[float] | np.ndarray, seed: int = 0) -> Summary:
    """The statistics the paper prints, over seeds."""
    x = np.asarray(values, np.float64)
    if not len(x):
        raise UserError("no values to summarise; the run has no seeds or no finished episode")
    p25, p75 = np.percentile(x, (25, 75))
    low, high = _iqm_interval(x, seed)
    return Summary(x.mean(), x.std(ddof=1) if len(x) > 1 else 0.0, p25, float(iqm(x)), p75, low, high)


def _iqm_interval(x: np.ndarray, seed: int) -> tuple[float, float]:
    from scipy.stats import bootstrap

    if np.ptp(x) == 0:  # nothing to resample
        return float(x[0]), float(x[0])
    found = bootstrap((x,), iqm, vectorized=True, method="percentile", rng=np.random.default_rng(seed))
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def support(total: int) -> np.ndarray:
    """The environment steps at which time series have their points."""
    return np.arange(SPACING, total + 1, SPACING)


def interpolate(end_step: np.ndarray, values: np.ndarray, total: int) -> np.ndarray:
    """One seed's events at the points of `support`, linear between them; NaN before the first."""
    if not len(end_step):
        return np.full(len(support(total)), np.nan)
    return np.interp(support(total), end_step, values, left=np.nan)


def window_mean(series: np.ndarray, window: int = WINDOW, spacing: int = SPACING) -> np.ndarray:
    """Mean over the `window` environment steps up to each point, along the last axis; missing points do not count."""
    size = max(window // spacing, 1)
    known = np.isfinite(series)
    sums = np.cumsum(np.where(known, series, 0.0), -1)
    counts = np.cumsum(known, -1)
    sums[..., size:] -= sums[..., :-size].copy()
    counts[..., size:] -= counts[..., :-size].copy()
    return np.divide(sums, counts, out=np.full(series.shape, np.nan), where=counts > 0)


def over_seeds(series: np.ndarray, *, robust: bool = True) -> np.ndarray:
    """The average over seeds [S, T] at each point, of those that have a value there: the IQM, or the plain mean."""
    average = np.full(series.shape[1], np.nan)
    for count in np.unique(np.isfinite(series).sum(0)):
        if count:
            at = np.isfinite(series).sum(0) == count
            known = np.sort(series[:, at], axis=0)[:count]  # NaNs sort to the end
            average[at] = iqm(known) if robust else known.mean(0)
    return average


def last(runs: Sequence[Episodes], value: Callable[[Episodes], np.ndarray]) -> np.ndarray:
    """A metric at the end of training: the last recorded event of each seed that has one."""
    return np.array([value(run)[-1] for run in runs if len(run.end_step)], np.float64)
