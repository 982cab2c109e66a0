"""Reward against cost over λ, from one trained model: acting with another λ needs no training."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from safedsr.adapt.costs import Costs, learner_of, task_of
from safedsr.adapt.penalty import LADDER, with_lam
from safedsr.engine.evaluate import run_episodes
from safedsr.runs.policy import TrainedPolicy
from safedsr.validation import require


class Point(NamedTuple):
    """What one λ leads to, mean over episodes."""

    lam: float  # the same for all costs
    reward: float
    cost: tuple[float, ...]
    goal_rate: float
    length: float


class Front(NamedTuple):
    """The points in the order of λ, which of them no other beats, and which to take for each budget."""

    points: tuple[Point, ...]
    best: tuple[bool, ...]  # no other point has more reward at no more cost
    chosen: dict[float, Point | None]  # budget -> most reward among the points whose mean costs keep it


def front(
    agent: TrainedPolicy,
    budgets: Sequence[float],
    costs: Costs | None = None,
    lams: Sequence[float] = LADDER,
    episodes: int = 256,
    epsilon: float = 0.0,
    seed: int = 0,
) -> Front:
    """Simulated episodes for each λ; a budget is that of each cost."""
    learner_of(agent)  # only its kind acts by λ
    require(len(lams) >= 1 and min(lams) >= 0, "lams", list(lams), "give at least one, none below 0")
    task = task_of(agent, costs)
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
    """The point of most reward whose mean costs keep the budget, if there is one."""
    return max((p for p in points if max(p.cost, default=0.0) <= budget), key=lambda p: p.reward, default=None)


def _beats(one: Point, other: Point) -> bool:
    no_worse = one.reward >= other.reward and all(a <= b for a, b in zip(one.cost, other.cost, strict=True))
    return no_worse and (one.reward, one.cost) != (other.reward, other.cost)
