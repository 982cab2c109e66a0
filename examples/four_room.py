"""four-room of MO-Gymnasium: three kinds of things to collect, one of which is forbidden.

    pip install "safedsr[envs]"
    F="--env four-room-v0 --reward-entries 0 1"
    safedsr train safedsr-plus $F --cost-entries 2 --budget 0.5 --steps 100000 --out runs/rooms
    safedsr adapt runs/rooms --cost-fn examples/four_room.py:forbidden --cost-arg kind=1 --out runs/rooms-2

The reward has an entry for each kind. Entries 0 and 1 are the reward; entry 2 is the cost. Later, kind 1 is forbidden.
"""


def forbidden(obs, action, next_obs, reward, info, kind=2.0):
    """1 for each thing of the forbidden kind."""
    return sum(amount * (kind == number) for number, amount in enumerate(reward))
