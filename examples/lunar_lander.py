"""LunarLander with fuel as a cost.

    pip install "safedsr[envs]"
    L="--cost-fn examples/lunar_lander.py:fuel --success-fn examples/lunar_lander.py:landed"
    safedsr train safedsr-plus --env examples/lunar_lander.py:lander $L --budget 120 --steps 400000 \\
        --epsilon-end 0.02 --plan-epsilon 0.02 --epsilon-from 0 --epsilon-to 40000 --learning-rate 2.5e-5 \\
        --batch-size 128 --buffer-size 100000 --train-start 2000 --train-every 4 --update-steps 4 --sync-every 2000 \\
        --octaves 0 --points 64 --even-share 0 --idle-share 0 --beta-m 1e-6 --beta-c 0.0025 --lam-start 0.05 \\
        --rule mean --aim 80 --lam-step 0.002 --lam-most 0.25 --penalty-start 100000 --out runs/lander
    safedsr adapt runs/lander --env examples/lunar_lander.py:lander $L --cost-arg side=0.3 --require 0.5 \\
        --episodes 500 --highest memory --out runs/lander-side

Gymnasium's bounds of the observations (10 for speeds) are far larger than what occurs in a landing. Agents get
observations that are scaled by their bounds, so `lander` has narrower ones.
"""

import gymnasium as gym
import numpy as np


def lander() -> gym.Env:
    """LunarLander whose observations are clipped to 1.5; the last two say which legs touch the ground."""
    bounds = gym.spaces.Box(np.array([-1.5] * 6 + [0.0] * 2, np.float32), np.array([1.5] * 6 + [1.0] * 2, np.float32))
    env = gym.make("LunarLander-v3", disable_env_checker=True)
    return gym.wrappers.TransformObservation(env, lambda obs: np.clip(obs, bounds.low, bounds.high), bounds)


def fuel(obs, action, next_obs, reward, info, main=1.0, side=0.1):
    """What a step burns: the main engine is action 2, the side engines are 1 and 3."""
    return main * (action == 2) + side * ((action == 1) | (action == 3))


def landed(obs, action, next_obs, reward, info):
    """Both legs are on the ground, and the episode ends with the reward of a landing."""
    return (next_obs[6] > 0) & (next_obs[7] > 0) & (reward >= 100)
