"""Scaling of observations: by bounds, or by the statistics of the first steps."""

import jax.numpy as jnp
import numpy as np

from safedsr.core import scaling

BOUNDS = ((0.0, -np.inf, -1.0), (10.0, np.inf, np.inf))


def after(samples):
    """Statistics after these observations."""
    scale = scaling.init(BOUNDS)
    for sample in samples:
        scale = scaling.push(scale, jnp.asarray(sample))
    return scale


def test_bounds_become_minus_one_and_one():
    scale = after([])
    ends = [scaling.apply(scale, jnp.array([x, 0.0, 0.0]), BOUNDS)[0] for x in (0.0, 5.0, 10.0)]
    np.testing.assert_allclose(ends, [-1, 0, 1])


def test_without_bounds_mean_and_deviation_decide():
    samples = np.random.default_rng(0).normal([5.0, 100.0, 3.0], [1.0, 20.0, 0.5], (500, 3)).astype(np.float32)
    scaled = scaling.apply(after(samples), jnp.asarray(samples), BOUNDS)
    np.testing.assert_allclose(scaled[:, 1:].mean(0), [0, 0], atol=1e-3)
    np.testing.assert_allclose(scaled[:, 1:].std(0), [1, 1], atol=0.01)
    np.testing.assert_allclose(scaled[:, 0], samples[:, 0] / 5 - 1, atol=1e-6)


def test_a_batch_is_scaled_as_each_of_its_rows():
    scale, obs = after(np.ones((3, 3)) * [[1], [2], [4]]), jnp.arange(12.0).reshape(2, 2, 3)
    found = scaling.apply(scale, obs, BOUNDS)
    for place in np.ndindex(2, 2):
        np.testing.assert_allclose(found[place], scaling.apply(scale, obs[place], BOUNDS), rtol=1e-6)


def test_the_range_after_scaling():
    low, high = scaling.scaled_bounds(BOUNDS)
    assert high == (1.0, 3.0, 3.0) and low == (-1.0, -3.0, -3.0)
