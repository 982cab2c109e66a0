"""What both sides of `other_envs.py` share: sizes of the trainings, turns of a worker, and an environment that waits.

A worker is a process that works for as many seconds as each line of its standard input says, and prints the number of
steps that it took. This module needs Gymnasium alone, since PyTorch and rejax live in environments of their own.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

HIDDEN = (64, 64)
GAMMA = 0.99
DQN = {
    "learning_rate": 1e-3,
    "batch_size": 64,
    "buffer_size": 50_000,
    "start": 1_000,  # steps before the first update
    "every": 4,  # steps between two updates
    "sync": 500,  # steps between two updates of the target network
    "explore": 10_000,  # steps until ε is at its end
    "epsilon": 0.05,
}
PPO = {"steps": 2_048, "minibatch": 64, "passes": 10, "learning_rate": 3e-4, "gae_lambda": 0.95, "clip": 0.2}
PPO_EPOCHS = 8  # of one call
WARM_UP = 2_000  # steps of a Q-learner before its first turn: updates have begun
PROCESSOR_TIME = "BENCHMARK_PROCESSOR_TIME"  # set: seconds are those of the processor, of all threads of a worker
EPISODE = 200  # steps of an episode of the environment that waits


def serve(take: Callable[[], int], began: float) -> None:
    """Tell how long the start took since `began`; then call `take`, which returns its steps, again and again."""
    clock = time.process_time if os.environ.get(PROCESSOR_TIME) else time.perf_counter
    _say(start=time.perf_counter() - began)
    for line in sys.stdin:
        steps, first, seconds = 0, clock(), float(line)
        while (spent := clock() - first) < seconds:
            steps += take()
        _say(steps=steps, seconds=spent)


def _say(**numbers: float) -> None:
    print(json.dumps(numbers), flush=True)


class Waiting(gymnasium.Env):
    """An environment whose step takes a given time of a core."""

    def __init__(self, seconds: float) -> None:
        self.observation_space, self.action_space = spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(2)
        self.seconds, self.taken = seconds, 0
        self.obs = np.zeros(4, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """A new episode."""
        super().reset(seed=seed)
        self.taken = 0
        return self.obs, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Keep the core busy; nothing changes. The time in which others have the core does not count."""
        end = time.thread_time() + self.seconds
        self.taken += 1
        while time.thread_time() < end:
            pass
        return self.obs, 1.0, False, self.taken >= EPISODE, {}
