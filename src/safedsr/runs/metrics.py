"""The paper's metrics from the episodes of a run (Sec. 5.2): counts of Eq. (17), rates, time series, statistics."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from safedsr.errors import UserError
from safedsr.runs.config import Terms

SPACING = 200  # environment steps between the points of a time series
WINDOW = 20_000  # environment steps of the trailing mean
LATE = 0.75  # the best seed is found in the episodes after this share of the steps, if the return is what counts
LEAST_EPISODES = 5  # from which a share of safe episodes is computed
EQUAL = 0.05  # shares of safe episodes that differ by at most this count as equal


class Episodes(NamedTuple):
    """The finished episodes of one seed, in the order in which they ended."""

    end_step: np.ndarray  # [n] environment step at which the episode ended, counted from 1
    length: np.ndarray  # [n]
    ret: np.ndarray  # [n] sum of rewards
    cost: np.ndarray  # [n, J] sum of each cost
    success: np.ndarray  # [n] bool, the goal was reached


class Summary(NamedTuple):
    """Statistics over seeds: the five columns of the paper's tables, and a 95 % bootstrap interval of the IQM."""

    mean: float
    std: float
    p25: float
    iqm: float
    p75: float
    low: float
    high: float


def within(cost: np.ndarray, budgets: Sequence[float] | np.ndarray) -> np.ndarray:
    """Whether all costs [n, J] of each episode are within their budgets, which are rounded like the costs."""
    return np.asarray((cost <= np.asarray(budgets, cost.dtype)).all(-1))


def safe(episodes: Episodes, budgets: Sequence[float]) -> np.ndarray:
    """Whether each episode reached the goal with every cost within its budget: the indicator of Eq. (17)."""
    count = episodes.cost.shape[1]
    if len(budgets) != count:
        raise UserError(f"{len(budgets)} budgets for {count} costs; give one per cost")
    return episodes.success.astype(bool) & within(episodes.cost, budgets)


def goal_count(episodes: Episodes) -> int:
    """Number of episodes that reached the goal."""
    return int(np.count_nonzero(episodes.success))


def safe_goal_count(episodes: Episodes, budgets: Sequence[float]) -> int:
    """Eq. (17): number of episodes that reached the goal with every cost within its budget."""
    return int(np.count_nonzero(safe(episodes, budgets)))


def excess(cost: np.ndarray, budgets: Sequence[float]) -> float:
    """The amounts by which mean costs [J] exceed their budgets, which are rounded like the costs, summed."""
    return float(np.maximum(cost - np.asarray(budgets, np.float32), 0).sum())


def best_place(each: Sequence[Episodes], budgets: Sequence[float], terms: Terms = Terms()) -> int:
    """Index of the best seed: see `first_best`, or `_best_late` if the return is what counts."""
    if not terms.goals:
        return _best_late(each, budgets, terms)
    return first_best([(safe_goal_count(one, budgets), goal_count(one)) for one in each])


def _best_late(each: Sequence[Episodes], budgets: Sequence[float], terms: Terms) -> int:
    """Index of the largest mean return in the last quarter of the steps, among the safest seeds.

    These are the seeds with the largest share of safe episodes, to within 5 points; or those whose mean costs exceed
    their budgets least. A seed without an episode in that quarter is judged by its last one.
    """
    known = [i for i, one in enumerate(each) if len(one.end_step)]
    if not known:
        return 0
    begin = LATE * max(each[i].end_step[-1] for i in known)
    late = {i: np.flatnonzero(each[i].end_step > begin) for i in known}
    late = {i: rows if len(rows) else np.array([-1]) for i, rows in late.items()}
    if terms.on_mean:
        safety = {i: -excess(each[i].cost[rows].mean(0, dtype=np.float64), budgets) for i, rows in late.items()}
    else:
        safety = {i: float(safe(each[i], budgets)[rows].mean()) for i, rows in late.items()}
    least = max(safety.values()) - (0.0 if terms.on_mean else EQUAL)
    safest = [i for i in known if safety[i] >= least]
    return max(safest, key=lambda i: float(each[i].ret[late[i]].mean()))


def first_best(counts: Sequence[tuple[float, float]]) -> int:
    """Index of the largest safe goal count, ties by goal count (Fig. 7), then by the first index."""
    return max(range(len(counts)), key=lambda i: tuple(counts[i]))


def iqm(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Interquartile mean: the mean without the lowest and the highest quarter of the values."""
    from scipy.stats import trim_mean

    return trim_mean(values, 0.25, axis=axis)


def summarize(values: Sequence[float] | np.ndarray, seed: int = 0) -> Summary:
    """The statistics of the paper's tables, over seeds."""
    x = np.asarray(values, np.float64)
    if not len(x):
        raise UserError("no values to summarise; the run has no seeds or no finished episode")
    p25, p75 = np.percentile(x, (25, 75))
    low, high = _iqm_interval(x, seed)
    return Summary(x.mean(), x.std(ddof=1) if len(x) > 1 else 0.0, p25, float(iqm(x)), p75, low, high)


def _iqm_interval(x: np.ndarray, seed: int) -> tuple[float, float]:
    from scipy.stats import bootstrap

    if np.ptp(x) == 0:  # all values are equal
        return float(x[0]), float(x[0])
    found = bootstrap((x,), iqm, vectorized=True, method="percentile", rng=np.random.default_rng(seed))
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def support(total: int) -> np.ndarray:
    """The environment steps of the points of a time series."""
    return np.arange(SPACING, total + 1, SPACING)


def interpolate(end_step: np.ndarray, values: np.ndarray, total: int) -> np.ndarray:
    """Values of one seed's episodes at the points of `support`, interpolated linearly; NaN before the first."""
    if not len(end_step):
        return np.full(len(support(total)), np.nan)
    return np.interp(support(total), end_step, values, left=np.nan)


def window_mean(series: np.ndarray, window: int = WINDOW, spacing: int = SPACING) -> np.ndarray:
    """Mean over the last `window` environment steps at each point, along the last axis; NaN is ignored."""
    size = max(window // spacing, 1)
    known = np.isfinite(series)
    sums = np.cumsum(np.where(known, series, 0.0), -1)
    counts = np.cumsum(known, -1)
    sums[..., size:] -= sums[..., :-size].copy()
    counts[..., size:] -= counts[..., :-size].copy()
    return np.divide(sums, counts, out=np.full(series.shape, np.nan), where=counts > 0)


def over_seeds(series: np.ndarray, *, robust: bool = True) -> np.ndarray:
    """The average over seeds [S, T] at each point, NaN ignored: the IQM, or the plain mean."""
    average = np.full(series.shape[1], np.nan)
    for count in np.unique(np.isfinite(series).sum(0)):
        if count:
            at = np.isfinite(series).sum(0) == count
            known = np.sort(series[:, at], axis=0)[:count]  # NaNs sort to the end
            average[at] = iqm(known) if robust else known.mean(0)
    return average


def last(runs: Sequence[Episodes], value: Callable[[Episodes], np.ndarray]) -> np.ndarray:
    """A metric at the end of training: its value in the last episode of each seed that has episodes."""
    return np.array([value(run)[-1] for run in runs if len(run.end_step)], np.float64)


class PhaseNumbers(NamedTuple):
    """What happened between two changes of the task, in the episodes that ended there."""

    episodes: int
    violations: int  # episodes with some cost over its budget
    excess: float  # costs above their budgets, summed over episodes and costs
    goals: int  # episodes that reached the goal
    safe: int  # episodes that reached the goal within every budget; without goals, those within every budget
    safe_share: float  # of the episodes; 0 without any
    worth: float  # returns of safe episodes, each times the steps of its episode


def phase_of(episodes: Episodes, start: int, end: int, budgets: Sequence[float]) -> PhaseNumbers:
    """The numbers of the episodes that ended in the steps from `start` to `end`."""
    here = between(episodes, start, end)
    over = np.maximum(here.cost.astype(np.float64) - np.asarray(budgets, np.float32), 0)
    fine = safe(here, budgets)
    return PhaseNumbers(
        episodes=len(fine),
        violations=int((~within(here.cost, budgets)).sum()),
        excess=float(over.sum()),
        goals=goal_count(here),
        safe=int(fine.sum()),
        safe_share=float(fine.mean()) if len(fine) else 0.0,
        worth=float((here.ret * here.length)[fine].sum()),
    )


def between(episodes: Episodes, start: int, end: int) -> Episodes:
    """The episodes that ended in the steps after `start`, up to `end`."""
    inside = (episodes.end_step > start) & (episodes.end_step <= end)
    return Episodes(*(field[inside] for field in episodes))


def regret(found: PhaseNumbers, oracle: PhaseNumbers, steps: int, terms: Terms) -> float:
    """What was lost against the oracle of a phase of so many steps.

    In safe goals, where there are goals. Else in steps: the steps, times the share of the oracle's worth that is
    missing; a return counts for as long as its episode lasts, and not at all if a budget was broken.
    """
    if terms.goals:
        return float(oracle.safe - found.safe)
    return steps * (1 - found.worth / oracle.worth) if oracle.worth > 0 else 0.0


def steps_until(
    episodes: Episodes, start: int, end: int, budgets: Sequence[float], enough: float, window: int
) -> int | None:
    """Steps after `start` until a share `enough` of the episodes that end in the next `window` steps is safe.

    0 if this holds from the start on; None if it never does, or never with `LEAST_EPISODES` episodes.
    """
    fine = np.concatenate([[0], np.cumsum(safe(episodes, budgets))])
    points = np.arange(start, end - window + 1, max(window // 5, 1))
    first, last = (np.searchsorted(episodes.end_step, at, side="right") for at in (points, points + window))
    count = last - first
    share = (fine[last] - fine[first]) / np.maximum(count, 1)
    reached = np.flatnonzero((share >= enough) & (count >= LEAST_EPISODES))
    return int(points[reached[0]]) - start if len(reached) else None


def safe_curve(
    episodes: Episodes, ends: Sequence[int], budgets: Sequence[Sequence[float]], points: int
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of episodes and of safe ones that ended in each of `points` equal parts of a run.

    `ends` are the last steps of its phases, each with its budgets.
    """
    edges = np.linspace(0, ends[-1], points + 1)
    counts, fine = np.zeros(points, int), np.zeros(points, int)
    for start, end, limits in zip([0, *ends[:-1]], ends, budgets, strict=True):
        here = between(episodes, start, end)
        counts += np.histogram(here.end_step, edges)[0]
        fine += np.histogram(here.end_step[safe(here, limits)], edges)[0]
    return counts, fine
