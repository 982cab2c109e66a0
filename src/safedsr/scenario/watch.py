"""Changes that nobody announces: a sequential test on predicted against observed costs, and new labels after an alarm.

The prediction is φ(s, a)·w, with w fitted to what is remembered. Its mean squared error over a chunk of steps is
compared with that of the chunks before by Page's cumulative sum: the sum of the excess over one standard deviation
grows after a change, and an alarm is given above a limit. After an alarm, recursive least squares fits w to the steps
since the sum began to grow, and every stored step gets the cost that the new w predicts.
"""

from typing import Any

import numpy as np

from safedsr.adapt.costs import experience_of
from safedsr.adapt.recursive import Recursion, learn_steps
from safedsr.adapt.refit import RIDGE, regular, ridge
from safedsr.agent import Agent
from safedsr.runs.experience import FIT_STEPS
from safedsr.types import Transition

CALIBRATION = 10  # chunks from which the usual error is known
SLACK, LIMIT, MOST = 1.0, 8.0, 10.0  # of the cumulative sum, in standard deviations; the most that a chunk adds
LEAST_SPREAD = 0.25  # the standard deviation is at least this share of the mean
FORGETTING = 0.999


class Watch:
    """The sequential test of one agent."""

    def __init__(self, agent: Agent, chunks: list[Transition]) -> None:
        self.agent = agent
        experience = experience_of(agent)
        phi = agent.features(experience.steps.obs[:FIT_STEPS], experience.steps.action[:FIT_STEPS])
        cost = np.asarray(experience.steps.cost[:FIT_STEPS], np.float64)
        weights = ridge(phi, experience.gram, cost, RIDGE)  # [J, d]
        self.recursion = Recursion(experience.gram, np.zeros_like(weights), weights)
        self.weights = weights
        usual = [self.error(chunk) for chunk in chunks]
        self.mean = float(np.mean(usual))
        self.spread = max(float(np.std(usual)), LEAST_SPREAD * self.mean, 1e-9)
        self.sum = 0.0
        self.fresh: list[Transition] = []  # chunks since the sum began to grow

    def predict(self, obs: Any, action: Any) -> np.ndarray:
        """The expected costs [n, J]."""
        return np.maximum(self.agent.features(obs, action) @ self.weights.T, 0.0)

    def error(self, chunk: Transition) -> float:
        """The mean squared error of the prediction."""
        guess = self.predict(chunk.obs, chunk.action)
        return float(np.mean((np.asarray(chunk.cost, np.float64) - guess) ** 2))

    def alarm(self, chunk: Transition) -> bool:
        """Whether the costs have changed, after one more chunk of steps."""
        self.sum = max(0.0, self.sum + min((self.error(chunk) - self.mean) / self.spread, MOST) - SLACK)
        self.fresh = [*self.fresh, chunk] if self.sum > 0 else []
        return self.sum > LIMIT

    def learn(self) -> None:
        """Fit the weights to the fresh chunks; where there are none, they stay."""
        for chunk in self.fresh:
            phi = self.agent.features(chunk.obs, chunk.action)
            self.recursion = learn_steps(self.recursion, phi, np.asarray(chunk.cost, np.float64), FORGETTING)
        r = self.recursion
        change = np.linalg.solve(regular(r.gram, experience_of(self.agent).fitted), r.moment.T).T
        self.weights = r.start + change
