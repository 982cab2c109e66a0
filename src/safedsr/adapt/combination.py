"""Costs that are sums and multiples of costs that the agent knows: their K is the same combination of rows of M.

Examples are another price of the same cost, or the sum of two costs. Nothing is fitted then, so there is no new error.
"""

from typing import Any

import numpy as np

from safedsr.adapt.costs import Arguments, experience_of, learner_of, stored_steps
from safedsr.envs.environment import Task
from safedsr.runs.policy import TrainedPolicy

EXACT = 1e-5  # largest error of a remembered cost, in units of the largest; costs are stored in 32 bits


def factors_for(agent: TrainedPolicy, costs: Any, task: Task) -> np.ndarray | None:
    """As `combination`; None if other cost functions replaced those of the agent, whose costs are then unknown."""
    return None if isinstance(costs, Arguments) and costs.anew else combination(agent, task)


def combination(agent: TrainedPolicy, task: Task) -> np.ndarray | None:
    """Factors [new, known] that make the task's costs from the agent's own, in every remembered step; None if none do.

    The agent must have rows of K in M. It has none as long as its costs are expressed by codes or features.
    """
    w_c = np.asarray(learner_of(agent).weights.w_c)
    if not len(w_c) or not len(task.budgets) or w_c[:, : len(experience_of(agent).gram)].any():
        return None
    known, new = (np.asarray(stored_steps(agent, one).cost, np.float64) for one in (agent.task, task))
    factors = np.linalg.lstsq(known, new)[0]
    error = np.abs(known @ factors - new).max(0)
    return factors.T if (error <= EXACT * new.max(0)).all() else None


def as_words(factors: np.ndarray, known: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """One sentence for each new cost."""
    least = EXACT * np.abs(factors).max()
    words = []
    for row, cost in zip(factors, new, strict=True):
        parts = [f"{factor:.3g} × {name}" for factor, name in zip(row, known, strict=True) if abs(factor) > least]
        total = " + ".join(parts) or "zero in every remembered step"
        words.append(f"{cost} is {total}, so its K follows from the K of known costs, without a fit")
    return tuple(words)
