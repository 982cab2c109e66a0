"""four-room of MO-Gymnasium: three kinds of things to collect, one of which is forbidden; and the maze of SFT-CoP.

    pip install "safedsr[envs]"
    S="--budget 0.5 --steps 50000 --gamma 0.95 --epsilon-end 0.1 --plan-epsilon 0.1 --chance 0.02"
    F="--env examples/four_room.py:rooms --cost-fn examples/four_room.py:forbidden"
    safedsr train safedsr-plus $F $S --reward-entries 0 1 --out runs/rooms
    safedsr adapt runs/rooms $F --cost-arg kind=1 --level full --steps 50000 --out runs/rooms-2

    M="--env examples/four_room.py:maze --cost-fn examples/four_room.py:traps"
    safedsr train safedsr-plus $M $S --reward-entries 0 1 2 --out runs/maze
    safedsr adapt runs/maze $M --cost-arg right=4 --out runs/maze-2

The reward has an entry for each kind. In `rooms`, kind 2 is forbidden, later kind 1. In `maze`, traps cost 1 a step
(Feng et al., 2023); later all of them lie four cells to the right. The environment's own bounds of the flags that say
what has been collected are 0 and 13, so that an agent that scales by bounds would hardly see them; here they are 0
and 1.
"""

import gymnasium as gym
import mo_gymnasium  # noqa: F401, registers the environments
import numpy as np

MAZE = """
1....2X2T...G
......XT.....
......1......
.............
......XT....T
2....3X1T..T3
XX3.XXXXX.1XX
1T..T3X2....3
T....TX......
.............
......2......
.....TX......
_...T2X3....1
"""
CELLS = np.array([list(row) for row in MAZE.split()])
TRAPS = np.argwhere(CELLS == "T")


def rooms(**settings) -> gym.Env:
    """four-room with flags between 0 and 1."""
    env = gym.make("four-room-v0", disable_env_checker=True, **settings)
    high = np.ones(env.observation_space.shape, np.int32)  # type: ignore[arg-type]
    high[:2] = env.observation_space.high[:2] - 1  # type: ignore[attr-defined]
    return gym.wrappers.TransformObservation(
        env, lambda obs: obs, gym.spaces.Box(np.zeros_like(high), high, dtype=np.int32)
    )


def maze() -> gym.Env:
    """The maze of SFT-CoP."""
    return rooms(maze=CELLS)


def forbidden(obs, action, next_obs, reward, info, kind=2.0):
    """1 for each thing of the forbidden kind."""
    return sum(amount * (kind == number) for number, amount in enumerate(reward))


def traps(obs, action, next_obs, reward, info, right=0.0):
    """1 for each step into a trap; all traps may lie some cells farther to the right."""
    entered = (next_obs[:2] != obs[:2]).any()
    return entered & ((TRAPS[:, 0] == next_obs[0]) & (TRAPS[:, 1] + right == next_obs[1])).any()
