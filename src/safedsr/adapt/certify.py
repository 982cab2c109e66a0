"""Certificate of a policy from simulated episodes: shares with Clopper–Pearson bounds, mean costs with Student bounds.

The certificate assumes that the simulator is right, that the policy is fixed and that episodes are independent.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from safedsr.adapt.config import CertificateConfig
from safedsr.adapt.costs import Costs, task_of
from safedsr.engine.evaluate import Outcome, run_keys
from safedsr.envs.environment import Task
from safedsr.runs.metrics import within
from safedsr.runs.policy import TrainedPolicy

BATCH = 1000  # episodes between two checks whether the certificate can still pass
ASSUMES = "the simulator is right, the policy stays as it is, episodes are independent"


class Bound(NamedTuple):
    """An estimate and its one-sided bound on the unfavourable side."""

    value: float
    bound: float


class Certificate(NamedTuple):
    """Whether a policy passed, and the numbers behind it."""

    passed: bool
    environment: str
    budgets: tuple[float, ...]
    episodes: int  # simulated; fewer than requested only if it could no longer pass
    confidence: float
    require: float
    epsilon: float
    safe_goal_rate: Bound  # lower bound; goal reached within every budget
    goal_rate: Bound  # lower bound
    violation: Bound  # upper bound; share of episodes with some cost over its budget
    cost: tuple[Bound, ...]  # upper bound of each mean
    reward: float  # mean
    length: float  # mean
    assumes: str = ASSUMES

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        bounds = {name: getattr(self, name)._asdict() for name in ("safe_goal_rate", "goal_rate", "violation")}
        return {**self._asdict(), **bounds, "cost": [cost._asdict() for cost in self.cost]}


def certify(agent: TrainedPolicy, costs: Costs | None = None, budget: Any = None, **settings: Any) -> Certificate:
    """Certify the policy for these costs (default: its own); settings are those of `CertificateConfig`."""
    return certify_in(agent, task_of(agent, costs, budget), CertificateConfig(**settings))


def certify_in(agent: TrainedPolicy, task: Task, config: CertificateConfig) -> Certificate:
    """Run episodes in batches until all are done or the certificate can no longer pass."""
    keys = jax.random.split(jax.random.key(config.episode_seed), config.episodes)
    found: list[Outcome] = []
    safe = walked = 0
    while walked < config.episodes:
        outcome = run_keys(agent, task, keys[walked : walked + BATCH], config.epsilon)
        found.append(outcome)
        walked += len(outcome.success)
        safe += int((outcome.success & within(outcome.cost, task.budgets)).sum())
        if lower_bound(safe + config.episodes - walked, config.episodes, config.confidence) < config.require:
            break
    return _judge(Outcome(*(np.concatenate(field) for field in zip(*found, strict=True))), task, config)


def _judge(outcome: Outcome, task: Task, config: CertificateConfig) -> Certificate:
    fine = within(outcome.cost, task.budgets)
    safe = _at_least(outcome.success & fine, config)
    broken = ~fine
    return Certificate(
        passed=len(fine) == config.episodes and safe.bound >= config.require,
        environment=task.title,
        budgets=task.budgets,
        episodes=len(fine),
        confidence=config.confidence,
        require=config.require,
        epsilon=config.epsilon,
        safe_goal_rate=safe,
        goal_rate=_at_least(outcome.success, config),
        violation=Bound(float(broken.mean()), upper_bound(int(broken.sum()), len(broken), config.confidence)),
        cost=tuple(_mean_at_most(cost, config.confidence) for cost in outcome.cost.T),
        reward=float(outcome.ret.mean()),
        length=float(outcome.length.mean()),
    )


def _at_least(hits: np.ndarray, config: CertificateConfig) -> Bound:
    return Bound(float(hits.mean()), lower_bound(int(hits.sum()), len(hits), config.confidence))


def lower_bound(hits: int, count: int, confidence: float) -> float:
    """Clopper–Pearson lower bound of a share at the given confidence."""
    from scipy.special import betaincinv

    return float(betaincinv(hits, count - hits + 1, 1 - confidence)) if hits else 0.0


def upper_bound(hits: int, count: int, confidence: float) -> float:
    """Clopper–Pearson upper bound of a share at the given confidence."""
    return 1.0 - lower_bound(count - hits, count, confidence)


def _mean_at_most(values: np.ndarray, confidence: float) -> Bound:
    """A mean and its one-sided Student bound, which is approximate if the values are not normal."""
    from scipy.special import stdtrit

    values = values.astype(np.float64)
    mean = float(values.mean())
    return Bound(
        mean, mean + float(stdtrit(len(values) - 1, confidence)) * float(values.std(ddof=1)) / len(values) ** 0.5
    )
