"""Checks before adaptation: how well φ represents the new costs, and where φ was not trained."""

from typing import NamedTuple

import numpy as np

from safedsr.adapt.costs import Costs, FitSet, experience_of, fit_set
from safedsr.adapt.refit import regular
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.layout import Layout
from safedsr.runs.experience import Experience
from safedsr.runs.policy import TrainedPolicy

GOOD_R2 = 0.6  # below this R², new cost weights alone did not suffice in our experiments
HIGH_LEVERAGE = 8.0  # times the mean; it was below 6 in cells that trained agents had visited
_WITHIN = (0.17, 0.5, 0.83)  # positions along a cell at which leverage is computed


class Expressed(NamedTuple):
    """How well φ represents each cost, on the steps that weights are fitted on."""

    r2: tuple[float, ...]  # explained share of the variance, each step predicted from all others
    auc: tuple[float, ...]  # probability that a step with a cost is predicted above one without; NaN if none


def expressed(fit: FitSet) -> Expressed:
    """Leave-one-out R² and area under the ROC curve of the closed-form fit."""
    inverse = np.linalg.inv(regular(fit.gram, len(fit.phi)))
    weights = fit.phi.T @ fit.cost
    share = np.sum((fit.phi @ inverse) * fit.phi, 1, keepdims=True)  # weight of a step in its own prediction
    left_out = (fit.cost - fit.phi @ (inverse @ weights)) / np.maximum(1 - share, 1e-9)
    variance = np.maximum(fit.cost.var(0), 1e-12)
    r2 = 1 - (left_out**2).mean(0) / variance
    auc = [area_under_curve(guess, cost > 0) for guess, cost in zip((fit.cost - left_out).T, fit.cost.T, strict=True)]
    return Expressed(tuple(map(float, r2)), tuple(auc))


def area_under_curve(guess: np.ndarray, positive: np.ndarray) -> float:
    """Probability that a positive has a higher guess than a negative, ties count half; NaN if one class is empty."""
    from scipy.stats import rankdata

    count = int(positive.sum())
    if count in (0, len(positive)):
        return float("nan")
    above = rankdata(guess)[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(positive) - count)))


def visits(experience: Experience, layout: Layout) -> np.ndarray:
    """Number of steps of the replay memory that began in each cell [H, W]."""
    counts = np.zeros(layout.walls.shape, np.int64)
    column, row = np.floor(np.asarray(experience.steps.obs) * layout.scale).astype(np.int64).T
    np.add.at(counts, (row, column), 1)
    return counts


def leverage_map(agent: TrainedPolicy) -> np.ndarray:
    """Leverage of φ in each cell [H, W] as a multiple of its mean over the fitted steps; NaN in walls.

    High leverage means that φ differs from the fitted steps. Mean over all actions and nine positions in the cell.
    """
    experience, layout = experience_of(agent), scene_of(agent.task).layout
    rows, columns = np.nonzero(~layout.walls)
    x, y, action = (v.ravel() for v in np.meshgrid(_WITHIN, _WITHIN, np.arange(agent.job.environment.spec.actions)))
    obs = np.stack([columns[:, None] + x, rows[:, None] + y], -1).reshape(-1, 2) / layout.scale
    phi = agent.features(obs, np.tile(action, len(rows)))
    inverse = np.linalg.inv(regular(experience.gram, experience.fitted))
    leverage = np.sum((phi @ inverse) * phi, 1).reshape(len(rows), -1).mean(1)
    found = np.full(layout.walls.shape, np.nan)
    found[rows, columns] = leverage / (np.trace(inverse @ experience.gram) / experience.fitted)
    return found


def remarks(agent: TrainedPolicy, costs: Costs, *, fitted: bool = True) -> tuple[str, ...]:
    """Warnings as text; empty if there are none. If no weights are fitted, it does not matter what φ represents."""
    found = expressed(fit_set(agent, costs)) if fitted else Expressed((), ())
    poor = [
        f"cost {j + 1}: φ represents it poorly (R² {r2:.2f}, AUC {auc:.2f}); new cost weights alone may not be enough"
        for j, (r2, auc) in enumerate(zip(found.r2, found.auc, strict=True))
        if r2 < GOOD_R2 and np.isfinite(auc)
    ]
    if not isinstance(agent.task.params, Layout):
        return tuple(poor)
    layout, leverage = agent.task.params, leverage_map(agent)
    strange = (visits(experience_of(agent), layout) == 0) & ~layout.walls | (leverage > HIGH_LEVERAGE)
    strange[layout.goal[1], layout.goal[0]] = False  # episodes end there, so no step begins there
    if strange.any():
        row, column = np.argwhere(strange)[0] + 1
        poor.append(
            f"{strange.sum()} of {np.isfinite(leverage).sum()} cells are unknown to the agent, such as row {row}, "
            f"column {column}: its replay memory has no step there, or φ differs from that of the fitted steps"
        )
    return tuple(poor)
