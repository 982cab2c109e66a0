"""A trained agent and its operations: act, predict, values, adapt, certify, export, save."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.adapt import certify as certificates
from safedsr.adapt import front as fronts
from safedsr.adapt import ladder, recursive
from safedsr.adapt import library as libraries
from safedsr.adapt import refit as weights
from safedsr.adapt.certify import Certificate
from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.adapt.costs import Costs, task_of
from safedsr.adapt.front import Front
from safedsr.adapt.ladder import Adapted, Rung
from safedsr.engine.evaluate import Evaluation, evaluate
from safedsr.envs.environment import Environment, Task
from safedsr.errors import UserError
from safedsr.export.files import Exported, export
from safedsr.runs.about import ABOUT, LIBRARY, MEMBERS, is_library
from safedsr.runs.policy import TrainedPolicy, load_policies, load_policy
from safedsr.runs.shipped import pretrained_folder
from safedsr.validation import require, with_settings


class Agent(TrainedPolicy):
    """One trained policy: `act` chooses actions, `values` gives their values. Adaptation returns a new agent."""

    members: tuple["Agent", ...] = ()  # the agents of a library, if this is one

    def library(self, others: Sequence["Agent"], costs: Costs | None = None, most: int = libraries.MOST) -> "Agent":
        """An agent that acts by the best of several, itself first; with `costs`, each gets cost weights for them.

        Agents that act alike are taken once. λ is that of this agent; `adapt(…, library=others)` also searches λ.
        """
        agents = libraries.distinct([self, *_several(others)], most)
        if costs is not None:
            agents = [weights.refit(one, costs) for one in agents]
        return libraries.join(agents)

    def refit(self, costs: Costs, rewards: bool = False, **settings: Any) -> "Agent":
        """A new agent with cost weights (on request also reward weights) fitted to other costs in closed form."""
        if self.members:
            joined = libraries.join([one.refit(costs, rewards, **settings) for one in self.members])
            return joined.with_policy(joined.policy._replace(lam=self.policy.lam))
        return weights.refit(self, costs, rewards, **settings)

    def features(self, obs: Any, action: Any) -> np.ndarray:
        """φ(s, a) [n, d] of n observations and actions, in full precision; only for agents with features φ."""
        self.require_single("take φ of")
        return super().features(obs, action)

    def update(self, obs: Any, action: Any, cost: Any, forgetting: float = 0.999) -> "Agent":
        """A new agent whose cost weights are updated with the costs of one or several new steps."""
        self.require_single("update")
        return recursive.update(self, obs, action, cost, forgetting)

    def adapt(
        self,
        costs: Costs | None = None,
        level: str = "auto",
        budget: Any = None,
        certificate: CertificateConfig = CertificateConfig(),
        spend: ClimbConfig = ClimbConfig(),
        show: Callable[[Rung], None] = lambda rung: None,
        *,
        from_memory: bool = False,
        mixture: bool = False,
        library: Sequence["Agent"] | None = None,
        **settings: Any,
    ) -> Adapted["Agent"]:
        """Apply the adaptation levels up to "cost", "penalty", "memory" or "full", or until one passes ("auto").

        Without `costs`, the agent adapts to another budget. With `from_memory`, it uses no environment at all. With
        `mixture`, each episode may draw one of two λ; `drawn` then gives the agent of an episode. With a `library` of
        other agents, none learns M: cost weights and λ are adapted for each and for all together, and the best is
        returned. `show` is called after each certified level. Fields of `certificate` and `spend` may be given by
        name, such as require=0.95 or updates=2000.
        """
        judged = {field.name for field in fields(CertificateConfig)} & settings.keys()
        certificate = with_settings(certificate, {name: settings.pop(name) for name in judged})
        spend = with_settings(spend, settings)
        self.require_single("adapt")
        if library is not None:
            other = [field.name for field in fields(ClimbConfig) if getattr(spend, field.name) != field.default]
            given = [name for name, value in (("from_memory", from_memory), ("mixture", mixture)) if value] + other
            given += [f"level '{level}'"] if level not in ("auto", "penalty") else []
            if given:
                raise UserError(
                    f"{given[0]} was given; with a library, only cost weights and one λ are adapted: leave it out"
                )
            new = self.task if costs is None else costs
            return libraries.adapt_library([self, *_several(library)], new, budget, certificate, show)
        return ladder.adapt(
            self, costs, level, budget, certificate, spend, show, from_memory=from_memory, mixture=mixture
        )

    def certify(self, costs: Costs | None = None, budget: Any = None, **settings: Any) -> Certificate:
        """Bounds on safety and costs of this policy, from simulated episodes."""
        return certificates.certify(self, costs, budget, **settings)

    def front(self, budgets: Sequence[float], costs: Costs | None = None, **settings: Any) -> Front:
        """Reward against cost over λ, and the best λ for each budget."""
        return fronts.front(self, budgets, costs, **settings)

    def export(self, path: str | Path, certificate: Certificate | None = None) -> Exported:
        """Write this policy for programs without JAX: policy.onnx, or policy.npz for the NumPy controller."""
        self.require_single("export")
        return export(self, path, certificate=certificate)

    def require_single(self, what: str) -> None:
        """Raise if this is a library, with which one cannot do this."""
        if self.members:
            raise UserError(
                f"cannot {what} a library; {what} one of its members, such as agent.members[0] (in its folder: "
                f"{MEMBERS}/0)"
            )

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Save this policy, or the policies of a library, to a folder that `load` can read."""
        if self.members:
            return libraries.save_members(self, self.members, Path(folder), overwrite)
        if is_library(folder):
            raise UserError(f"{folder} holds a library already; choose another folder")
        super().save(folder, overwrite=overwrite)

    @classmethod
    def load(
        cls, path: str | Path, seed: int | None = None, task: int = 0, environment: Environment | None = None
    ) -> "Agent":
        """Load an agent from a run folder; the default seed is the best one in that task.

        `environment` is needed if the run was trained in an environment of your own.
        """
        if is_library(path):
            return _in_library(
                libraries.read_members(Path(path), lambda f: cls.load(f, None, 0, environment)), seed, task
            )
        return load_policy(cls, path, seed, task, environment)


def load_library(folder: str | Path, environment: Environment | None = None) -> list[Agent]:
    """The agents below a folder, the best seed of each task of each run; those of saved libraries below it are not."""
    agents, top = [], Path(folder)
    libraries_below = {path.parent for path in top.rglob(LIBRARY)} - {top}
    for found in sorted(path.parent for path in top.rglob(ABOUT)):
        if libraries_below.intersection(found.parents):
            continue
        first = load(found, environment=environment)
        agents += [first, *(load(found, None, task, environment) for task in range(1, len(first.job.tasks)))]
    if not agents:
        raise UserError(f"there is no trained agent in or below {folder}; give a folder with run folders in it")
    return agents


def _several(agents: Any) -> Sequence[Agent]:
    """The other agents of a library, which must be several."""
    if isinstance(agents, str | TrainedPolicy) or not isinstance(agents, Iterable):
        raise UserError(f"{agents!r} is no list of agents; give one, such as [safedsr.load(folder)]")
    several = list(agents)
    require(len(several) > 0, "library", several, "give one agent at least")
    return several


def _in_library(agent: Agent, seed: int | None, task: int) -> Agent:
    """The agent of a library; its members have one seed and one task each, so that none can be chosen."""
    require(seed in (None, agent.seed), "seed", seed, "a library has no seeds to choose from; leave it out")
    require(task == 0, "task", task, "a library has one task; leave it out")
    return agent


def load(path: str | Path, seed: int | None = None, task: int = 0, environment: Environment | None = None) -> Agent:
    """Load an agent from a run folder: `Agent.load`."""
    return Agent.load(path, seed, task, environment)


def pretrained(name: str = "two-rooms") -> Agent:
    """An agent that comes with the package, with its replay memory: "one-room" or "two-rooms", both with diamond."""
    return load(pretrained_folder(name))


def load_all(path: str | Path, environment: Environment | None = None) -> dict[tuple[int, int], Agent]:
    """Load all agents of a run folder by (task, seed); they share compiled functions. A library is one agent."""
    if is_library(path):
        agent = load(path, environment=environment)
        return {(0, agent.seed): agent}
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
