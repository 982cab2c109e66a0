"""Up the rungs of adaptation: as high as asked for, or until the certificate passes."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from safedsr.adapt.certify import Certificate, certify_in
from safedsr.adapt.config import LEVELS, CertificateConfig, ClimbConfig
from safedsr.adapt.costs import Costs, environment_of, past_of
from safedsr.adapt.diagnostics import remarks
from safedsr.adapt.online import learn_in
from safedsr.adapt.penalty import learn_penalty, score, search_penalty
from safedsr.adapt.refit import refit
from safedsr.adapt.successor import learn_from_memory
from safedsr.errors import unknown
from safedsr.runs.experiment import Environment
from safedsr.runs.policy import Agent

AUTO = "auto"
STAGE = 10_000  # environment steps of the full rung between two looks at how it does
MARGIN = 0.02  # by which the best of a search should beat what is required, so that other episodes confirm it


class Rung(NamedTuple):
    """One rung as it was climbed."""

    level: str
    agent: Agent
    certificate: Certificate
    seconds: float  # since the rung before, without the certificate


class Adapted(NamedTuple):
    """The agent of the best rung, and how it got there."""

    agent: Agent
    level: str
    certificate: Certificate
    rungs: tuple[Rung, ...]
    remarks: tuple[str, ...]  # warnings that could be known before


class Task(NamedTuple):
    """What every rung is given."""

    costs: Costs
    environment: Environment
    spend: ClimbConfig
    epsilon: float
    enough: float  # share of safe goals in simulated episodes that ends a rung


def adapt(
    agent: Agent,
    costs: Costs,
    level: str = AUTO,
    budget: Any = None,
    certificate: CertificateConfig = CertificateConfig(),
    spend: ClimbConfig = ClimbConfig(),
    show: Callable[[Rung], None] = lambda rung: None,
) -> Adapted:
    """Climb to a level and certify there; "auto" certifies on every rung and stops at the first that passes."""
    if level not in (*LEVELS, AUTO):
        raise unknown("level", level, (*LEVELS, AUTO))
    past_of(agent)
    environment = environment_of(agent, costs, budget)
    task = Task(costs, environment, spend, certificate.epsilon, min(certificate.require + MARGIN, 1.0))
    warnings = remarks(agent, costs)
    rungs: list[Rung] = []
    began, current = time.perf_counter(), agent
    for name in LEVELS:
        current = RUNGS[name](current, task)
        if level in (name, AUTO):
            seconds = time.perf_counter() - began
            rungs.append(Rung(name, current, certify_in(current, environment, certificate), seconds))
            show(rungs[-1])
            began = time.perf_counter()
            if level == name or rungs[-1].certificate.passed:
                break
    best = max(rungs, key=lambda rung: rung.certificate.safe_goal_rate.bound)
    return Adapted(best.agent, best.level, best.certificate, tuple(rungs), warnings)


def _cost(agent: Agent, task: Task) -> Agent:
    return refit(agent, task.costs).changed(environment=task.environment)


def _penalty(agent: Agent, task: Task) -> Agent:
    if task.spend.penalty == "learn":
        return learn_penalty(agent, task.environment, task.spend.penalty_steps)
    return search_penalty(agent, task.environment, task.epsilon)[0]


def _memory(agent: Agent, task: Task) -> Agent:
    return learn_from_memory(agent, task.environment, task.spend.updates, task.enough, task.epsilon)[0]


def _full(agent: Agent, task: Task) -> Agent:
    best, top = agent, score(agent, task.environment, task.epsilon)
    for later in learn_in(agent, task.environment, task.spend.steps, STAGE):
        if task.spend.penalty == "learn":
            candidate, found = later, score(later, task.environment, task.epsilon)
        else:
            candidate, found = search_penalty(later, task.environment, task.epsilon)
        if found > top:
            best, top = candidate, found
        if top.safe >= task.enough:
            break
    return best


RUNGS: dict[str, Callable[[Agent, Task], Agent]] = {
    "cost": _cost,
    "penalty": _penalty,
    "memory": _memory,
    "full": _full,
}
