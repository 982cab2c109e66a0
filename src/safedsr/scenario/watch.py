"""Changes that nobody announces: a sequential test on predicted against observed costs, and new labels after an alarm.

The prediction is φ(s, a)·w, with w fitted to what is remembered. Its mean squared error over a chunk of steps is
compared with that of the chunks before by Page's cumulative sum: the sum of the excess over one standard deviation
grows after a change, and an alarm is given above a limit. After an alarm, recursive least squares fits w to the steps
since the sum began to grow, and every stored step gets the cost that the new w predicts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from safedsr.adapt.closed import RIDGE, regular, ridge
from safedsr.adapt.recursive import Recursion, learn_steps

CALIBRATION = 10  # chunks from which the usual error is known
SLACK, LIMIT, MOST = 1.0, 8.0, 10.0  # of the cumulative sum, in standard deviations; the most that a chunk adds
LEAST_SPREAD = 0.25  # the standard deviation is at least this share of the mean
FORGETTING = 0.999

Chunk = tuple[np.ndarray, np.ndarray]  # φ [n, d] and costs [n, J] of steps, in the order of time


class Watch(NamedTuple):
    """The sequential test of one agent, whose φ stays as it was when the test began."""

    gram: np.ndarray  # [d, d] of the `fitted` steps that w was fitted to
    fitted: int
    weights: np.ndarray  # [J, d] w
    mean: float  # of the error of a chunk
    spread: float
    sum: float = 0.0
    fresh: int = 0  # steps since the sum began to grow


def begin(phi: np.ndarray, cost: np.ndarray, chunks: Sequence[Chunk], known: Watch | None = None) -> Watch:
    """A new test: w is fitted to stored steps, the usual error comes from chunks, and is at least that of `known`."""
    gram = phi.T @ phi
    weights = ridge(phi, gram, np.asarray(cost, np.float64), RIDGE)
    usual = [error(weights, chunk) for chunk in chunks]
    mean = max(float(np.mean(usual)), known.mean if known else 0.0)
    spread = max(float(np.std(usual)), LEAST_SPREAD * mean, known.spread if known else 1e-9)
    return Watch(gram, len(phi), weights, mean, spread)


def predict(weights: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """The expected costs [n, J]."""
    return np.maximum(phi @ weights.T, 0.0)


def error(weights: np.ndarray, chunk: Chunk) -> float:
    """The mean squared error of the prediction."""
    phi, cost = chunk
    return float(np.mean((np.asarray(cost, np.float64) - predict(weights, phi)) ** 2))


def after(watch: Watch, chunk: Chunk) -> Watch:
    """The test after one more chunk."""
    excess = min((error(watch.weights, chunk) - watch.mean) / watch.spread, MOST)
    total = max(0.0, watch.sum + excess - SLACK)
    return watch._replace(sum=total, fresh=watch.fresh + len(chunk[0]) if total > 0 else 0)


def alarmed(watch: Watch) -> bool:
    """Whether the costs have changed."""
    return watch.sum > LIMIT


def learn(watch: Watch, chunk: Chunk) -> np.ndarray:
    """The weights [J, d] fitted to the fresh steps; where there are none, they stay."""
    phi, cost = chunk
    start = Recursion(watch.gram, np.zeros_like(watch.weights), watch.weights)
    r = learn_steps(start, phi, np.asarray(cost, np.float64), FORGETTING)
    return r.start + np.linalg.solve(regular(r.gram, watch.fitted), r.moment.T).T


def to_arrays(watch: Watch) -> dict[str, np.ndarray]:
    """The test as arrays, to be saved."""
    return {name: np.asarray(value) for name, value in watch._asdict().items()}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Watch:
    """The test that `to_arrays` made arrays of."""
    values: dict[str, Any] = {name: arrays[name] for name in Watch._fields}
    return Watch(**{name: x if x.ndim else x.item() for name, x in values.items()})
