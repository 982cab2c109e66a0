"""A guest of the benchmark (docs/benchmark.md): tabular Q-learning with a multiplier.

safedsr scenario run changing-v1/shapes examples/tabular.py:tabular oracle --quick
"""

import numpy as np


def tabular(world, cells=12, rate=0.2, gamma=0.98, epsilon=0.1):
    rng, lam = np.random.default_rng(world.seed), 0.1
    values, spent = {}, 0.0

    def state(obs):
        return tuple(np.floor(np.asarray(obs) * cells).astype(int))

    def q(obs):
        return values.setdefault(state(obs), np.zeros(world.actions))

    obs = world.reset()
    while not world.over:
        if world.news():  # announced tasks, with their budgets and parameters
            lam = max(lam, 0.1)
        action = rng.integers(world.actions) if rng.random() < epsilon else int(np.argmax(q(obs)))
        after, reward, costs, ended = world.step(action)
        target = reward - lam * costs.sum() + (0.0 if ended else gamma * q(after).max())
        q(obs)[action] += rate * (target - q(obs)[action])
        spent += costs.sum()
        obs = after
        if ended:
            lam = max(0.0, lam + 0.01 * np.sign(spent - sum(world.budgets)))
            obs, spent = world.reset(), 0.0
        world.spend(updates=1)
