"""Linear fits in closed form, and how good they are."""

import functools
from typing import NamedTuple

import numpy as np

from safedsr.adapt.costs import FitSet

# Ridge per step; features have length 1. Directions of φ that hardly occur contribute little to the fit, but large
# weights on them multiply the errors of M: with a ridge of 1e-6, agents act worse on new costs than with this one.
RIDGE = 1e-4
GOOD_R2 = 0.6  # below this R², new cost weights alone did not suffice in our experiments


def ridge(phi: np.ndarray, gram: np.ndarray, targets: np.ndarray, strength: float) -> np.ndarray:
    """Weights [J, d] that minimise |targets - Φ·wᵀ|² + strength·n·|w|²; all J share one Cholesky factor."""
    inverse = _inverse_factor(gram.tobytes(), len(gram), len(phi), strength)
    # Not with BLAS: it starts its threads for each of these small products, which takes longer on a busy machine.
    moments = np.einsum("nd,nj->jd", phi, targets)
    return np.einsum("id,ji->jd", inverse, np.einsum("id,jd->ji", inverse, moments))


@functools.lru_cache(maxsize=16)
def _inverse_factor(gram: bytes, size: int, count: int, strength: float) -> np.ndarray:
    """L⁻¹, where L·Lᵀ is the Gram matrix with its ridge; cached for policies that adapt repeatedly."""
    matrix = np.frombuffer(gram).reshape(size, size)
    return np.linalg.inv(np.linalg.cholesky(regular(matrix, count, strength)))


def regular(gram: np.ndarray, count: int, strength: float = RIDGE) -> np.ndarray:
    """The Gram matrix of `count` steps with the ridge on its diagonal."""
    return gram + strength * count * np.eye(len(gram))


def rank(gram: np.ndarray, count: int) -> int:
    """Number of directions in which the steps outweigh the ridge."""
    return int((np.linalg.eigvalsh(gram) > RIDGE * count).sum())


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
