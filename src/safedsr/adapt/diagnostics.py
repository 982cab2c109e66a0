"""Checks before adaptation: how well φ represents the new costs, and where φ was not trained."""

import numpy as np

from safedsr.adapt.closed import GOOD_R2, Expressed, expressed, regular
from safedsr.adapt.combination import beside_known
from safedsr.adapt.costs import Costs, experience_of, fit_set
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.layout import Layout
from safedsr.runs.experience import Experience
from safedsr.runs.policy import TrainedPolicy

HIGH_LEVERAGE = 8.0  # times the mean; it was below 6 in cells that trained agents had visited
_WITHIN = (0.17, 0.5, 0.83)  # positions along a cell at which leverage is computed


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
    found = Expressed((), ())
    if fitted:
        fit = fit_set(agent, costs)
        helped = beside_known(agent, costs, fit)
        found = expressed(helped.fit if helped else fit)
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
