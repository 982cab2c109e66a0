"""Single numbers for sentences: counts of published runs, of the paper and of the oracle, and what divides what."""

import numpy as np

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import iqm
from safedsr.runs.results import trend

SAFE = "safe goal count"


@text
def goals(folder: str, layout: str, costs: str) -> str:
    """IQM of goals of a run folder in results/baselines."""
    return formats.count(sources.summary(folder, layout, costs).iqm)


@text
def safe_goals(folder: str, layout: str, costs: str) -> str:
    """IQM of safe goals of a run folder in results/baselines."""
    return formats.count(sources.summary(folder, layout, costs, SAFE).iqm)


@text
def least_goals(folder: str, layout: str, costs: str) -> str:
    """Goals of the worst seed; folders joined by + are one sample."""
    return formats.count(sources.seeds(folder, layout, costs).min())


@text
def most_goals(folder: str, layout: str, costs: str) -> str:
    """Goals of the best seed; folders joined by + are one sample."""
    return formats.count(sources.seeds(folder, layout, costs).max())


@text
def spread(folder: str, layout: str, costs: str) -> str:
    """Standard deviation of goals over seeds."""
    return formats.count(sources.summary(folder, layout, costs).std)


@text
def paper_spread(algorithm: str, layout: str) -> str:
    """The paper's standard deviation of goals without costs."""
    return formats.count(sources.paper(sources.FREE, layout, algorithm).std)


@text
def paper_safe_goals(algorithm: str, layout: str) -> str:
    """The paper's IQM of safe goals with the diamond."""
    return formats.count(sources.paper(sources.SAFE, layout, algorithm).iqm)


def ratio(what: str, algorithm: str, folder: str, layout: str) -> float:
    """Our IQM divided by the paper's: `free` (goals, no costs), `goals` or `safe` (with the diamond)."""
    key = {"free": sources.FREE, "goals": sources.GOALS, "safe": sources.SAFE}[what]
    count = SAFE if what == "safe" else "goal count"
    ours = sources.summary(folder, layout, "none" if what == "free" else "diamond", count)
    return ours.iqm / sources.paper(key, layout, algorithm).iqm


@text
def by_paper(what: str, algorithm: str, layout: str, folder: str = "") -> str:
    """Our IQM divided by the paper's, as a factor; WHAT is free, goals or safe."""
    return formats.factor(ratio(what, algorithm, folder or algorithm, layout))


@text
def beside_paper(what: str, algorithm: str, layout: str, folder: str = "") -> str:
    """Our IQM beside the paper's, as a difference in percent; WHAT is free, goals or safe."""
    return formats.change(ratio(what, algorithm, folder or algorithm, layout))


@text
def differences(what: str, algorithm: str, folder: str = "") -> str:
    """By how many percent our IQM differs from the paper's in one, two and three rooms."""
    found = [abs(ratio(what, algorithm, folder or algorithm, layout) - 1) for layout in sources.ROOMS]
    one, two, three = (formats.percent(share, 1) for share in found)
    return f"{one}, {two} and {three} %"


@text
def rate_at_end(folder: str, layout: str) -> str:
    """The safe goal rate of the last 20 000 steps as in Fig. 6, in percent (diamond)."""
    return formats.percent(float(trend(sources.result(folder, layout, "diamond"), "safe")[-1]))


@text
def rate_largest(folder: str, layout: str) -> str:
    """The largest safe goal rate of a training as in Fig. 6, in percent (diamond)."""
    return formats.percent(float(np.nanmax(trend(sources.result(folder, layout, "diamond"), "safe"))))


@text
def rate_largest_of_baselines(layout: str) -> str:
    """The largest safe goal rate that any of the eleven baselines ever has, as in Fig. 6, in percent (diamond)."""
    found = [np.nanmax(trend(sources.result(name, layout, "diamond"), "safe")) for name in sources.BASELINES]
    return formats.percent(float(max(found)))


@text
def seven_locate_the_goal() -> str:
    """The seven with most safe goals in one room in the paper: when 95 % of their episodes first reach it."""
    folders = {**{name: name for name in sources.BASELINES}, "safedqn": "safedqn", "safedsr": "safedsr-cut"}
    best = sorted(folders, key=lambda name: -sources.paper(sources.SAFE, "one-room", name).iqm)[:7]
    return ", ".join(f"{sources.ALL_NAMES[name]} {_locates(folders[name])}" for name in best)


def _locates(folder: str) -> str:
    found = sources.result(folder, "one-room", "diamond")
    high = np.nonzero(trend(found, "goal") >= 0.95)[0]
    return formats.count(float(found.points[high[0]])) if len(high) else "never"


@text
def unsafe_share(folder: str, layout: str) -> str:
    """The share of goals with the diamond that are over the budget, in percent: of the two IQMs."""
    safe, all_goals = (sources.summary(folder, layout, "diamond", what).iqm for what in (SAFE, "goal count"))
    return formats.percent(1 - safe / all_goals)


@text
def oracle_safe_goals(layout: str, costs: str, plan: str = "without-random") -> str:
    """Safe goals of the oracle; PLAN is without-random or with-random, what its planner accounts for."""
    return formats.count(_oracle(layout, costs, plan))


@text
def oracle_share(folder: str, layout: str, costs: str = "diamond") -> str:
    """Safe goals divided by those of the oracle that plans without random actions, in percent."""
    found = sources.summary(folder, layout, costs, SAFE).iqm
    return formats.percent(found / _oracle(layout, costs, "without-random"))


def _oracle(layout: str, costs: str, plan: str) -> float:
    random = {"without-random": False, "with-random": True}[plan]
    return sources.oracle(layout, costs, accounts_for_random=random).safe_goal_count


@text
def iqm_of_ten(folder: str, layout: str, costs: str, end: str) -> str:
    """Where the IQM of goals of ten seeds lies in 95 % of draws with replacement; END is low or high."""
    values, rng = sources.seeds(folder, layout, costs), np.random.default_rng(0)
    found = iqm(rng.choice(values, (10, 10_000)))
    return formats.count(float(np.percentile(found, {"low": 2.5, "high": 97.5}[end])))
