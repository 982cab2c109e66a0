"""highway-env with a closed lane: a demonstration with about 25 steps a second, so the copies run in processes.

pip install "safedsr[envs]"
H="--env highway-fast-v0 --cost-fn examples/highway_lane.py:closed"
safedsr train safedsr-plus $H --budget 3 --chance 0.02 --steps 5000 --chunk 500 --out runs/highway
safedsr adapt runs/highway $H --cost-arg lane=2 --from-memory --out runs/highway-2
safedsr certify runs/highway-2 $H --episodes 60 --require 0.8
"""


def closed(obs, action, next_obs, reward, info, lane=0.0, lanes=3.0):
    """1 in each step that ends on the closed lane; `next_obs[0, 2]` is the car's distance from the first lane."""
    return abs(next_obs[0, 2] * lanes - lane) < 0.5
