"""Costs for CartPole: the cart must not stay in some zones of the track.

    safedsr train safedsr-plus --env CartPole-v1 --time-limit 200 --cost-fn examples/zones.py:forbidden --budget 5 …

The functions use only arithmetic that NumPy and JAX share, so they also work with --env gymnax:CartPole-v1.
"""


def forbidden(obs, action, next_obs, reward, info, low=1.1, high=1.3):
    """1 in each step that ends between `low` and `high`, on the right or on the left."""
    x = abs(next_obs[0])
    return (low <= x) & (x <= high)


def one_side(obs, action, next_obs, reward, info, limit=0.3):
    """1 in each step that ends to the right of `limit`."""
    return next_obs[0] > limit


def between(obs, action, next_obs, reward, info, low=0.3, high=9.0):
    """1 in each step that ends between `low` and `high`; both may be negative."""
    return (low <= next_obs[0]) & (next_obs[0] <= high)
