"""Adaptation levels (rungs), applied one after another: up to a given level, or until the certificate passes."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple

from safedsr.adapt.certify import Certificate, certify_in
from safedsr.adapt.combination import as_words, combination
from safedsr.adapt.config import LEVELS, CertificateConfig, ClimbConfig, Tell, silent
from safedsr.adapt.costs import Costs, experience_of, task_of
from safedsr.adapt.diagnostics import remarks
from safedsr.adapt.mixture import mix, require_mixable
from safedsr.adapt.online import learn_in
from safedsr.adapt.penalty import learn_penalty, score, search_penalty
from safedsr.adapt.refit import refit
from safedsr.adapt.successor import learn_from_memory
from safedsr.adapt.walks import walking
from safedsr.engine.evaluate import walked
from safedsr.envs.environment import Task
from safedsr.envs.memory import Remembered
from safedsr.errors import UserError, unknown
from safedsr.runs.policy import AnyPolicy, TrainedPolicy

AUTO, NONE = "auto", "none"
STAGE = 10_000  # environment steps of the level 'full' between two evaluations
MARGIN = 0.02  # a search aims at this much above the required share, so that other episodes confirm it


class Rung(NamedTuple, Generic[AnyPolicy]):
    """The result of one level."""

    level: str
    agent: AnyPolicy
    certificate: Certificate
    seconds: float  # since the previous level, without the certificate
    real_steps: int | None = None  # steps in the real environment since the previous level; None if it is simulated
    certificate_steps: int | None = None  # steps in the real environment for the certificate
    simulated_steps: int = 0  # steps of simulated episodes or walks through memory since the previous level

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        real = {"real_steps": self.real_steps, "certificate_steps": self.certificate_steps}
        return {
            "level": self.level,
            "seconds": self.seconds,
            "lam": _floats(self.agent.policy.lam),
            **_mixture(self.agent),
            "simulated_steps": self.simulated_steps,
            **({} if self.real_steps is None else real),
            **self.certificate.to_dict(),
        }


class Adapted(NamedTuple, Generic[AnyPolicy]):
    """The agent of the best level, and the results of all certified levels."""

    agent: AnyPolicy
    level: str
    certificate: Certificate
    rungs: tuple[Rung[AnyPolicy], ...]
    remarks: tuple[str, ...]  # warnings known before adaptation
    notes: tuple[str, ...] = ()  # what was found: costs that need no fit, budgets that no λ keeps

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        lam = {"lam": _floats(self.agent.policy.lam), **_mixture(self.agent)}
        own = {"level": self.level, **lam, **self.certificate.to_dict()}
        words = {"remarks": list(self.remarks), "notes": list(self.notes)}
        return {**own, **words, "rungs": [rung.to_dict() for rung in self.rungs]}


class Request(NamedTuple):
    """The input of every level."""

    costs: Costs
    task: Task
    trial: Task  # for the episodes of a search: the task itself, or walks through what is remembered of it
    spend: ClimbConfig
    epsilon: float
    enough: float  # share of safe goals in simulated episodes at which a level stops, or that has to be safe
    tell: Tell = silent


def adapt(
    agent: AnyPolicy,
    costs: Costs | None,
    level: str = AUTO,
    budget: Any = None,
    certificate: CertificateConfig = CertificateConfig(),
    spend: ClimbConfig = ClimbConfig(),
    show: Callable[[Rung], None] = lambda rung: None,
    *,
    from_memory: bool = False,
    mixture: bool = False,
    tell: Tell = silent,
) -> Adapted[AnyPolicy]:
    """Apply the levels up to `level` and certify the last; "auto" certifies each and stops at the first that passes.

    If none passes, "auto" certifies the agent as it was, too ("none"), so that the result is not worse than before.

    Without `costs`, those of the agent's task stay and only the budget is new; then the cost weights stay too.
    With `from_memory`, λ is searched and certified on walks through the replay memory, without any environment.
    With `mixture`, each episode may draw one of two λ, if this gives more return within the budgets.

    `show` is called with each certified level, `tell` with what is done at the moment.

    Where safe goals do not count, a safe policy may be worth nothing: "auto" then goes up to the level "memory" at
    least, and the best return of all levels that pass counts.
    """
    if level not in (*LEVELS, AUTO):
        raise unknown("level", level, (*LEVELS, AUTO))
    experience_of(agent)
    if costs is None and budget is None:
        raise UserError(
            "no costs and no budget given to adapt to; costs are a name such as 'square', a file, an array, a map or a "
            "Task"
        )
    costs = agent.task if costs is None else costs
    task = task_of(agent, costs, budget)
    if from_memory:
        _require_no_steps(level, spend)
    if mixture:
        require_mixable(agent)
    trial = walking(agent, task) if from_memory else task
    request = Request(costs, task, trial, spend, certificate.epsilon, min(certificate.require + MARGIN, 1.0), tell)
    factors = combination(agent, task)
    warnings = remarks(agent, costs, fitted=factors is None)
    rungs: list[Rung[AnyPolicy]] = []
    began, current, host = time.perf_counter(), agent, agent.job.environment.host
    steps, before = host.steps if host else 0, walked()
    last = _last(level, spend, from_memory)
    for name in LEVELS[: LEVELS.index(last) + 1]:
        tell(f"level '{name}'", 0.0)
        current = RUNGS[name](current, request)
        if mixture and name != "cost":
            current = _mixed(current, request, certificate)
        if level in (name, AUTO):
            seconds = time.perf_counter() - began
            used, simulated = host.steps - steps if host else None, walked() - before
            tell("simulating episodes for the certificate", 0.0)
            certified = certify_in(current, trial, certificate)
            spent = host.steps - steps - used if host else None
            rungs.append(Rung(name, current, certified, seconds, used, spent, simulated))
            show(rungs[-1])
            began, steps, before = time.perf_counter(), host.steps if host else 0, walked()
            enough = agent.job.terms.goals or name in ("memory", "full")
            if level == name or (enough and rungs[-1].certificate.passed):
                break
    kept = not_kept(rungs)
    passed = any(rung.certificate.passed for rung in rungs)
    if level == AUTO and not passed and len(task.budgets) == len(agent.task.budgets):
        rungs.append(_as_it_was(agent, request, certificate))
        show(rungs[-1])
    best = max(rungs, key=lambda rung: rung.certificate.rank)
    known = () if factors is None or costs is agent.task else as_words(factors, agent.task.cost_names, task.cost_names)
    idle = "no level is better for the new costs than the agent as it was, which stays" if best.level == NONE else None
    notes = (*known, *filter(None, [kept, idle]))
    return Adapted(best.agent, best.level, best.certificate, tuple(rungs), warnings, notes)


def _as_it_was(agent: AnyPolicy, request: Request, certificate: CertificateConfig) -> Rung[AnyPolicy]:
    """The agent with its old weights and λ, judged by the new costs."""
    request.tell("simulating episodes of the agent as it was", 0.0)
    known = agent.knows_costs and request.task.params is agent.task.params
    host, same = agent.job.environment.host, agent.changed(task=request.task, knows_costs=known)
    steps = host.steps if host else 0
    certified = certify_in(same, request.trial, certificate)
    return Rung(NONE, same, certified, 0.0, 0 if host else None, host.steps - steps if host else None)


def not_kept(rungs: Sequence[Rung]) -> str | None:
    """Says that no λ keeps the budgets, if λ was searched and budgets, not goals, are what is missed."""
    tried = [rung for rung in rungs if rung.level != "cost"]
    if not tried or any(rung.certificate.passed for rung in rungs):
        return None
    best = max(tried, key=lambda rung: rung.certificate.rank).certificate
    higher = [f"the level '{name}'" for name in LEVELS[LEVELS.index(tried[-1].level) + 1 :][:1]]
    remedies = f"possible remedies: {', '.join([*higher, 'a larger budget', 'fewer random actions'])}"
    budgets = "the budget" if len(best.budgets) == 1 else "all budgets"
    if best.terms.on_mean:
        means = ", ".join(
            f"{cost.value:.4g} of {budget:g}" for cost, budget in zip(best.cost, best.budgets, strict=True)
        )
        return f"no λ tried keeps {budgets}; the mean discounted cost closest to it is {means}; {remedies}"
    kept = 1 - min(rung.certificate.violation.value for rung in tried)
    if kept >= best.require:
        return None
    share = max(rung.certificate.safe_goal_rate.value for rung in tried)
    goal = f", and the best share that also reaches the goal is {share:.3f}" if best.terms.goals else ""
    return f"no λ tried keeps {budgets}; the best share of episodes within it is {kept:.3f}{goal}; {remedies}"


def _last(level: str, spend: ClimbConfig, from_memory: bool) -> str:
    """The last level to apply, if none passes before it."""
    if level != AUTO:
        return level
    return "memory" if from_memory and spend.highest == "full" else spend.highest


def _require_no_steps(level: str, spend: ClimbConfig) -> None:
    """Raise if an adaptation from memory alone would need the environment."""
    if level == "full":
        raise UserError("the level 'full' takes steps in the environment; from memory, go up to the level 'memory'")
    if spend.penalty == "learn":
        raise UserError("the penalty 'learn' takes steps in the environment; from memory, λ is found by 'search'")


def _cost(agent: AnyPolicy, request: Request) -> AnyPolicy:
    if request.task.params is agent.task.params and agent.knows_costs:  # the budget alone is new
        return agent.changed(task=request.task)
    return refit(agent, request.costs).changed(task=request.task)


def _penalty(agent: AnyPolicy, request: Request) -> AnyPolicy:
    if request.spend.penalty == "learn":
        return learn_penalty(agent, request.task, request.spend.penalty_steps)
    return search_penalty(agent, request.trial, request.epsilon, request.enough, request.tell)[0]


def _memory(agent: AnyPolicy, request: Request) -> AnyPolicy:
    how = request.spend.updates, request.enough, request.epsilon
    return learn_from_memory(agent, request.task, *how, trial=request.trial, tell=request.tell)[0]


def _mixed(agent: AnyPolicy, request: Request, certificate: CertificateConfig) -> AnyPolicy:
    request.tell("searching a mixture of two λ", 0.0)
    few = isinstance(request.trial.params, Remembered) or bool(agent.job.environment.host)
    episodes = certificate.count(few=few)
    return mix(agent, request.trial, request.epsilon, request.enough, episodes, certificate.confidence)


def _full(agent: AnyPolicy, request: Request) -> AnyPolicy:
    how = {"task": request.task, "epsilon": request.epsilon, "required": request.enough}
    best, top = agent, score(agent, **how)
    for later in learn_in(agent, request.task, request.spend.steps, STAGE):
        request.tell("training in the environment", 0.0)
        if request.spend.penalty == "learn":
            candidate, found = later, score(later, **how)
        else:
            candidate, found = search_penalty(later, **how)
        if found > top:
            best, top = candidate, found
        if agent.job.terms.goals and top.safe >= request.enough:
            break
    return best


def _mixture(agent: TrainedPolicy) -> dict[str, Any]:
    return {"mixture": agent.mixture._asdict()} if agent.mixture else {}


def _floats(lam: Any) -> list[float]:
    return [float(value) for value in lam]


RUNGS: dict[str, Callable[[Any, Request], Any]] = {
    "cost": _cost,
    "penalty": _penalty,
    "memory": _memory,
    "full": _full,
}
