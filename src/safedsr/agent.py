"""A trained agent and its operations: act, values, adapt, certify, save."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safedsr.adapt import certify as certificates
from safedsr.adapt import front as fronts
from safedsr.adapt import ladder, recursive
from safedsr.adapt import refit as weights
from safedsr.adapt.certify import Certificate
from safedsr.adapt.costs import Costs, task_of
from safedsr.adapt.front import Front
from safedsr.adapt.ladder import Adapted
from safedsr.engine.evaluate import Evaluation, evaluate
from safedsr.envs.environment import Environment, Task
from safedsr.runs.policy import TrainedPolicy, load_policies, load_policy
from safedsr.runs.shipped import pretrained_folder
from safedsr.validation import require


class Agent(TrainedPolicy):
    """One trained policy: `act` chooses actions, `values` gives their values. Adaptation returns a new agent."""

    def refit(self, costs: Costs, rewards: bool = False, **settings: Any) -> "Agent":
        """A new agent with cost weights (on request also reward weights) fitted to other costs in closed form."""
        return weights.refit(self, costs, rewards, **settings)

    def update(self, obs: Any, action: Any, cost: Any, forgetting: float = 0.999) -> "Agent":
        """A new agent whose cost weights are updated with the costs of one or several new steps."""
        return recursive.update(self, obs, action, cost, forgetting)

    def adapt(self, costs: Costs, level: str = "auto", budget: Any = None, **settings: Any) -> Adapted["Agent"]:
        """Apply the adaptation levels up to "cost", "penalty", "memory" or "full", or until one passes ("auto")."""
        return ladder.adapt(self, costs, level, budget, **settings)

    def certify(self, costs: Costs | None = None, budget: Any = None, **settings: Any) -> Certificate:
        """Bounds on safety and costs of this policy, from simulated episodes."""
        return certificates.certify(self, costs, budget, **settings)

    def front(self, budgets: Sequence[float], costs: Costs | None = None, **settings: Any) -> Front:
        """Reward against cost over λ, and the best λ for each budget."""
        return fronts.front(self, budgets, costs, **settings)


def load(path: str | Path, seed: int | None = None, task: int = 0, environment: Environment | None = None) -> Agent:
    """Load an agent from a run folder; the default seed is the best one in that task.

    `environment` is needed if the run was trained in an environment of your own.
    """
    return load_policy(Agent, path, seed, task, environment)


def pretrained(name: str = "two-rooms") -> Agent:
    """An agent that comes with the package, with its replay memory: "one-room" or "two-rooms", both with diamond."""
    return load(pretrained_folder(name))


def load_all(path: str | Path, environment: Environment | None = None) -> dict[tuple[int, int], Agent]:
    """Load all agents of a run folder by (task, seed); they share compiled functions."""
    return load_policies(Agent, path, environment)


def evaluate_run(
    path: str | Path,
    costs: Costs | None = None,
    budget: str | None = None,
    episodes: int = 1000,
    epsilon: float = 0.0,
    seed: int | None = None,
    environment: Environment | None = None,
) -> list[tuple[Agent, Task, Evaluation]]:
    """Evaluate all agents of a run folder, or those of one seed: agent, task of the evaluation, and results."""
    agents = load_all(path, environment)
    seeds = {number for _, number in agents}
    require(seed is None or seed in seeds, "seed", seed, f"the run has {', '.join(map(str, sorted(seeds)))}")
    rows = []
    for (_, number), agent in agents.items():
        if seed in (None, number):
            task = task_of(agent, costs, budget)
            rows.append((agent, task, evaluate(agent, task, episodes, epsilon)))
    return rows
