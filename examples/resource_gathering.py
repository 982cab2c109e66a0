"""resource-gathering of MO-Gymnasium: gold and a gem, enemies that may kill, and a cell that closes later.

    pip install "safedsr[envs]"
    C="--env examples/resource_gathering.py:field --cost-fn examples/resource_gathering.py:danger"
    safedsr train safedsr-plus $C --reward-entries 1 2 --budget-kind discounted-mean --gamma 0.95 --budget 0.02 \\
        --steps 60000 --epsilon-end 0.1 --plan-epsilon 0.1 --out runs/gathering
    safedsr adapt runs/gathering $C --cost-arg row=2 --cost-arg column=4 --out runs/gathering-closed

The known front of discounted returns (γ = 0.95), as (death, gold, gem): (0, 0, 0.599), (0, 0.540, 0) and
(-0.070, 0.439, 0.439). So without any death 0.599 is possible with one thing, and 0.878 with both and a discounted
death of 0.070. The environment's own bounds of the flags for gold and gem are 0 and 5; here they are 0 and 1, so that
agents, which scale by bounds, see them well.
"""

import gymnasium as gym
import mo_gymnasium  # noqa: F401, registers the environments
import numpy as np


def field() -> gym.Env:
    """resource-gathering with flags between 0 and 1."""
    env = gym.make("resource-gathering-v0", disable_env_checker=True)
    bounds = gym.spaces.Box(np.zeros(4, np.int32), np.array([4, 4, 1, 1], np.int32), dtype=np.int32)
    return gym.wrappers.TransformObservation(env, lambda obs: obs, bounds)


def danger(obs, action, next_obs, reward, info, row=-1.0, column=-1.0):
    """1 for a death (entry 0 of the reward is -1 then), and 1 in each step that ends in the closed cell."""
    return (reward[0] < 0) | ((next_obs[0] == row) & (next_obs[1] == column))
