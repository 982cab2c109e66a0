"""Certificate of a policy from simulated episodes: shares with Clopper–Pearson bounds, mean costs with Student bounds.

It passes if enough episodes reach the goal within the budget, or stay within the budget where there is no goal. If
budgets are for the mean of the discounted costs, it passes if the upper bounds of all these means are within them.

The certificate assumes that the simulator is right, that the policy is fixed and that episodes are independent.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from safedsr.adapt.config import CertificateConfig
from safedsr.adapt.costs import Costs, task_of
from safedsr.engine.evaluate import Outcome, episode_keys, run_keys
from safedsr.envs.environment import Task
from safedsr.envs.memory import Remembered
from safedsr.errors import UserError
from safedsr.runs.config import EPISODE, Terms
from safedsr.runs.metrics import excess, within
from safedsr.runs.policy import TrainedPolicy

BATCH = 1000  # episodes between two checks whether the certificate can still pass
SIMULATOR, MEMORY = "simulator", "memory"
ASSUMES_MEMORY = (
    "episodes are walks through remembered transitions: what happens at a state is what happened at the nearest "
    "remembered one with the same action, and the memory covers where the policy goes; the policy stays as it is and "
    "acts with this ε. The bounds are for the number of walks, not for errors of the memory"
)
ASSUMES = "the simulator is right, the policy stays as it is and acts with this ε, episodes are independent"


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
    cost: tuple[Bound, ...]  # upper bound of each mean; if budgets are for means, all hold together
    reward: float  # mean
    length: float  # mean
    assumes: str = ASSUMES
    success: bool = True  # whether episodes can succeed; if not, all of them count as having reached the goal
    kind: str = EPISODE  # of the budgets
    source: str = SIMULATOR  # where the episodes took place

    @property
    def terms(self) -> Terms:
        """The terms on which the episodes were judged."""
        return Terms(self.success, self.kind)

    @property
    def rank(self) -> tuple[float, float]:
        """A key to compare certificates of one task: safety up to what is required, then the return if it counts."""
        if self.terms.goals:
            return self.safe_goal_rate.bound, 0.0
        if self.terms.on_mean:
            return -excess(np.array([cost.bound for cost in self.cost]), self.budgets), self.reward
        return min(self.safe_goal_rate.bound, self.require), self.reward

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON; without goals where episodes cannot succeed."""
        found = {**self._asdict(), "cost": [cost._asdict() for cost in self.cost]}
        found |= {name: getattr(self, name)._asdict() for name in ("safe_goal_rate", "goal_rate", "violation")}
        if self.success:
            del found["success"]
        else:
            found["safe_episode_rate"] = found.pop("safe_goal_rate")
            del found["goal_rate"]
        if self.kind == EPISODE:
            del found["kind"]
        if self.source == SIMULATOR:
            del found["source"]
        return found


def certify(agent: TrainedPolicy, costs: Costs | None = None, budget: Any = None, **settings: Any) -> Certificate:
    """Certify the policy for these costs (default: its own); settings are those of `CertificateConfig`."""
    return certify_in(agent, task_of(agent, costs, budget), CertificateConfig(**settings))


def certify_in(agent: TrainedPolicy, task: Task, config: CertificateConfig) -> Certificate:
    """Run episodes in batches until all are done or the certificate can no longer pass."""
    if not task.budgets and not agent.job.terms.goals:
        raise UserError(
            f"there is nothing to certify in '{task.title}': it has no costs, and its episodes have no goal; train "
            "with a cost, or use evaluate"
        )
    walks = isinstance(task.params, Remembered)
    config = replace(config, episodes=config.count(few=walks or bool(agent.job.environment.host)))
    assert config.episodes
    keys = episode_keys(config.episode_seed, config.episodes, len(task.budgets))
    found: list[Outcome] = []
    safe = walked = 0
    while walked < config.episodes:
        outcome = run_keys(agent, task, keys[walked : walked + BATCH], config.epsilon)
        found.append(outcome)
        walked += len(outcome.success)
        safe += int((outcome.success & within(outcome.cost, task.budgets)).sum())
        possible = lower_bound(safe + config.episodes - walked, config.episodes, config.confidence)
        if possible < config.require and not agent.job.terms.on_mean:
            break
    outcome = Outcome(*(np.concatenate(field) for field in zip(*found, strict=True)))
    judged = _judge(outcome, task, config, agent.job.terms)
    return judged._replace(source=MEMORY, assumes=ASSUMES_MEMORY) if walks else judged


def _judge(outcome: Outcome, task: Task, config: CertificateConfig, terms: Terms = Terms()) -> Certificate:
    fine = within(outcome.cost, task.budgets)
    safe = _at_least(outcome.success & fine, config)
    broken = ~fine
    confidence = config.confidence
    if terms.on_mean:  # all bounds of the mean costs have to hold together
        confidence = 1 - (1 - confidence) / max(len(task.budgets), 1)
    cost = tuple(_mean_at_most(column, confidence) for column in outcome.cost.T)
    enough = safe.bound >= config.require
    if terms.on_mean:
        enough = excess(np.array([mean.bound for mean in cost]), task.budgets) == 0
    return Certificate(
        passed=len(fine) == config.episodes and enough,
        environment=task.title,
        budgets=task.budgets,
        episodes=len(fine),
        confidence=config.confidence,
        require=config.require,
        epsilon=config.epsilon,
        safe_goal_rate=safe,
        goal_rate=_at_least(outcome.success, config),
        violation=Bound(float(broken.mean()), upper_bound(int(broken.sum()), len(broken), config.confidence)),
        cost=cost,
        reward=float(outcome.ret.mean()),
        length=float(outcome.length.mean()),
        success=terms.success,
        kind=terms.budget_kind,
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
