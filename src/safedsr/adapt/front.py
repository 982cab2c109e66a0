"""Reward against cost over λ for one trained agent; acting with another λ needs no training."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from safedsr.adapt.costs import Costs, learner_of, task_of
from safedsr.adapt.penalty import LADDER, lam_unit, with_lam
from safedsr.engine.evaluate import run_episodes
from safedsr.runs.policy import TrainedPolicy
from safedsr.validation import parse_budgets, require


class Point(NamedTuple):
    """Mean results of simulated episodes with one λ."""

    lam: float  # the same for all costs
    reward: float
    cost: tuple[float, ...]
    goal_rate: float  # 1 where episodes cannot succeed
    length: float


class Front(NamedTuple):
    """The points in the order of λ, which of them are Pareto-optimal, and the best point for each budget."""

    points: tuple[Point, ...]
    best: tuple[bool, ...]  # Pareto-optimal in reward and costs
    chosen: dict[float, Point | None]  # budget -> point of most reward with all mean costs within it


def front(
    agent: TrainedPolicy,
    budgets: Sequence[float],
    costs: Costs | None = None,
    lams: Sequence[float] | None = None,
    episodes: int = 256,
    epsilon: float = 0.0,
    seed: int = 0,
) -> Front:
    """Simulate episodes for each λ (default: `LADDER` in its unit); each budget applies to every cost."""
    learner_of(agent)  # raises for agents that cannot act with another λ
    task, budgets = task_of(agent, costs), parse_budgets(tuple(budgets), len(budgets))
    if lams is None:
        lams = [value * float(lam_unit(agent, task).max(initial=0.0)) for value in LADDER]
    require(len(lams) >= 1 and min(lams) >= 0, "lams", list(lams), "give at least one, none below 0")
    points = []
    for lam in sorted(lams):
        moved = with_lam(agent, np.full(len(task.budgets), lam))
        o = run_episodes(moved, task, episodes, epsilon, seed)
        mean_cost = tuple(map(float, o.cost.mean(0)))
        points.append(
            Point(float(lam), float(o.ret.mean()), mean_cost, float(o.success.mean()), float(o.length.mean()))
        )
    return Front(
        points=tuple(points),
        best=tuple(not any(_beats(other, point) for other in points) for point in points),
        chosen={float(budget): choose(points, budget) for budget in budgets},
    )


def choose(points: Sequence[Point], budget: float) -> Point | None:
    """The point of most reward with all mean costs within the budget, or None."""
    return max((p for p in points if max(p.cost, default=0.0) <= budget), key=lambda p: p.reward, default=None)


def _beats(one: Point, other: Point) -> bool:
    no_worse = one.reward >= other.reward and all(a <= b for a, b in zip(one.cost, other.cost, strict=True))
    return no_worse and (one.reward, one.cost) != (other.reward, other.cost)
