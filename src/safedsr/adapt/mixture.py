"""Mixtures: each episode draws one of two λ at its start. The best policy within a mean budget may need this.

The pair and its shares follow from the mean returns and costs of all λ that were tried. A mixture lies on the line
between its two points, so the best one lies on the lower convex hull of costs over returns.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from safedsr.adapt.penalty import FINAL_BATCHES, lam_unit, outcome_of, score, steps_of, with_lam
from safedsr.engine.outcome import Outcome
from safedsr.envs.environment import Task
from safedsr.errors import UserError
from safedsr.runs.config import Terms
from safedsr.runs.metrics import within
from safedsr.runs.policy import AnyPolicy, TrainedPolicy
from safedsr.runs.policy_files import Mixture

SHARES = np.linspace(0, 1, 1001)
SURE = 2.0  # standard errors beyond the bound of a certificate, so that its episodes confirm the shares
MORE = 1e-3  # of the largest difference of returns: by this much a mixture has to be better than a single λ


class Tried(NamedTuple):
    """What is known about one λ."""

    lam: tuple[float, ...]
    reward: float  # mean return
    load: np.ndarray  # [m] mean of what is limited: the costs, or whether an episode breaks a budget
    variance: np.ndarray  # [m] of it
    episodes: int


class Pair(NamedTuple):
    """Two of the tried λ, the share of episodes for the second one, and their mean return."""

    one: Tried
    other: Tried
    share: float
    reward: float


def require_mixable(agent: TrainedPolicy) -> None:
    """Raise where a mixture cannot be better than the better one of its two λ."""
    if agent.job.terms.goals:
        raise UserError(
            "a mixture of two λ never has a larger share of safe goals than the better one of them; adapt without "
            "mixture, or train with --budget-kind discounted-mean"
        )


def best_pair(tried: Sequence[Tried], limits: np.ndarray, episodes: float = np.inf, errors: float = 0.0) -> Pair | None:
    """The pair of most return whose load is within the limits [m]; None if not even one λ is.

    `errors` standard errors of a mean over so many further episodes are added to the load.
    """
    best = None
    more = MORE * float(np.ptp([one.reward for one in tried])) if tried else 0.0
    for one, other in [*((one, one) for one in tried), *combinations(tried, 2)]:
        share = SHARES[:1] if one is other else SHARES
        load, inner = (
            np.outer(1 - share, first) + np.outer(share, second)
            for first, second in ((one.load, other.load), (one.variance, other.variance))
        )
        between = (share * (1 - share))[:, None] * (other.load - one.load) ** 2
        doubt = errors * np.sqrt((inner + between) / episodes + inner / min(one.episodes, other.episodes))
        fits = np.flatnonzero((load + doubt <= limits).all(1))
        rewards = (1 - share) * one.reward + share * other.reward
        if len(fits):
            top = fits[rewards[fits].argmax()]
            if best is None or rewards[top] > best.reward + (0.0 if one is other else more):
                best = Pair(one, other, float(share[top]), float(rewards[top]))
    return best


def mix(agent: AnyPolicy, task: Task, epsilon: float, required: float, episodes: int, confidence: float) -> AnyPolicy:
    """The agent as the best mixture of two λ; unchanged if no mixture is better.

    `episodes` and `confidence` are those of the certificate that is to confirm it.
    """
    from scipy.special import stdtrit

    require_mixable(agent)
    terms, known = agent.job.terms, {}
    limits = np.asarray(task.budgets, np.float64) if terms.on_mean else np.array([1 - required])
    # Bounds of several mean costs have to hold together.
    errors = float(stdtrit(episodes - 1, 1 - (1 - confidence) / len(limits))) + SURE

    def look(lam: Any, batches: int = 1) -> None:
        lam = tuple(float(value) for value in np.asarray(lam, np.float32))
        if lam not in known or batches > 1:
            known[lam] = _tried(lam, outcome_of(with_lam(agent, lam), task, epsilon, batches), task, terms)

    def found() -> tuple[Tried, ...]:
        pair = best_pair(list(known.values()), limits, episodes, errors)
        return (pair.one, pair.other) if pair else ()

    own, unit = np.asarray(agent.policy.lam), lam_unit(agent, task)
    ladder, factors = steps_of(terms)
    look(own)
    for j in range(len(own)):
        for value in ladder:
            look(np.where(np.arange(len(own)) == j, value * unit[j], own))
    for factor in factors:
        for one in found():
            look(np.asarray(one.lam) / factor)
            look(np.asarray(one.lam) * factor)
    both = found()
    for one in both:
        look(one.lam, FINAL_BATCHES)
    pair = best_pair([known[one.lam] for one in both], limits, episodes, errors)
    if pair is None or pair.share in (0.0, 1.0):
        return agent
    alone = score(agent, task, epsilon, FINAL_BATCHES, required=required)
    if alone.spared == 0 and alone.reward >= pair.reward:  # enough is safe with one λ
        return agent
    return with_lam(agent, pair.one.lam).changed(mixture=Mixture(pair.other.lam, pair.share))


def _tried(lam: tuple[float, ...], o: Outcome, task: Task, terms: Terms) -> Tried:
    loads = o.cost if terms.on_mean else ~within(o.cost, task.budgets)[:, None]
    loads = loads.astype(np.float64)
    return Tried(lam, float(o.ret.mean()), loads.mean(0), loads.var(0), len(loads))
