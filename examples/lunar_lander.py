"""LunarLander with fuel as a cost.

    pip install "safedsr[envs]"
    safedsr train safedqn --env LunarLander-v3 --cost-fn examples/lunar_lander.py:fuel --budget 60 \\
        --success-fn examples/lunar_lander.py:landed --steps 200000 --out runs/lander
    safedsr evaluate runs/lander --cost-fn examples/lunar_lander.py:fuel --success-fn examples/lunar_lander.py:landed
"""


def fuel(obs, action, next_obs, reward, info, main=1.0, side=0.1):
    """What a step burns: the main engine is action 2, the side engines are 1 and 3."""
    return main * (action == 2) + side * ((action == 1) | (action == 3))


def landed(obs, action, next_obs, reward, info):
    """Both legs are on the ground, and the episode ends with the reward of a landing."""
    return (next_obs[6] > 0) & (next_obs[7] > 0) & (reward >= 100)
