"""Costs that are sums and multiples of costs that the agent knows: their K is the same combination of rows of M.

Examples are another price of the same cost, or the sum of two costs. Nothing is fitted then, so there is no new error.
Costs that only resemble known ones are fitted on φ and on the known costs together, if φ alone expresses them poorly.
"""

from typing import Any, NamedTuple

import numpy as np

from safedsr.adapt.closed import GOOD_R2, expressed
from safedsr.adapt.costs import FitSet, Samples, experience_of, learner_of, stored_steps
from safedsr.envs.environment import Task
from safedsr.envs.grid.layout import Layout
from safedsr.runs.policy import TrainedPolicy

EXACT = 1e-5  # largest error of a remembered cost, in units of the largest; costs are stored in 32 bits


def combination(agent: TrainedPolicy, task: Task) -> np.ndarray | None:
    """Factors [new, known] that make the task's costs from the agent's own, in every remembered step; None if none do.

    The agent must have rows of K in M. It has none as long as its costs are expressed by codes or features.
    """
    if not _has_rows(agent) or not len(task.budgets):
        return None
    known, new = (np.asarray(stored_steps(agent, one).cost, np.float64) for one in (agent.task, task))
    factors = np.linalg.lstsq(known, new)[0]
    error = np.abs(known @ factors - new).max(0)
    return factors.T if (error <= EXACT * new.max(0)).all() else None


class Helped(NamedTuple):
    """A fit on φ and on known costs, each divided by its spread."""

    fit: FitSet
    spread: np.ndarray  # [known]


def beside_known(agent: TrainedPolicy, costs: Any, fit: FitSet) -> Helped | None:
    """The fit with known costs beside φ, if φ alone expresses a new cost poorly and both together do it well.

    The K of known costs is a row of M, learnt directly, and so it is better than one that is put together from codes.
    An example is a cost of actions, which codes of the next state hardly tell apart. On the grid, costs are functions
    of the position, and a known cost says nothing of another place.
    """
    if isinstance(costs, Samples) or isinstance(agent.task.params, Layout):
        return None
    if not _has_rows(agent) or not fit.cost.shape[1]:
        return None
    if min(expressed(fit).r2) >= GOOD_R2:
        return None
    known = np.asarray(stored_steps(agent, agent.task, len(fit.phi)).cost, np.float64)
    spread = np.sqrt(np.maximum((known**2).mean(0), 1e-12))
    both = np.hstack([fit.phi, known / spread])
    helped = FitSet(both, both.T @ both, fit.cost)
    return Helped(helped, spread) if min(expressed(helped).r2) >= GOOD_R2 else None


def _has_rows(agent: TrainedPolicy) -> bool:
    """Whether K of each cost of the agent's task is a row of M."""
    if not agent.knows_costs:
        return False
    w_c = np.asarray(learner_of(agent).weights.w_c)
    return bool(len(w_c)) and not w_c[:, : len(experience_of(agent).gram)].any()


def as_words(factors: np.ndarray, known: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """One sentence for each new cost."""
    least = EXACT * np.abs(factors).max()
    words = []
    for row, cost in zip(factors, new, strict=True):
        parts = [f"{factor:.3g} × {name}" for factor, name in zip(row, known, strict=True) if abs(factor) > least]
        total = " + ".join(parts) or "zero in every remembered step"
        words.append(f"{cost} is {total}, so its K follows from the K of known costs, without a fit")
    return tuple(words)
