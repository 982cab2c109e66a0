"""The methods without environment steps after the change: refit, then λ, then M from memory, one agent at a time.

The results of every agent are saved in a small file, so that the work can be interrupted and shared between processes.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safedsr.adapt.config import ClimbConfig
from safedsr.adapt.costs import task_of
from safedsr.adapt.ladder import RUNGS, Request
from safedsr.adapt.walks import walking
from safedsr.agent import Agent, load_all
from safedsr.core.config import EpsilonSchedule
from safedsr.engine.evaluate import evaluate
from safedsr.envs.environment import Task
from safedsr.envs.grid.config import OracleConfig
from safedsr.envs.grid.oracle import find_oracle
from safedsr.errors import UserError
from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_plan import Scale, Variant
from safedsr.runs import storage

LEVELS = ("cost", "penalty", "memory")
BEFORE = "none"  # the agent before adaptation
FOLDER, ORACLE = "rungs", "oracle.json"
MEMORY_UPDATES = 5_000
SEED = 1  # of the evaluation episodes; the search for λ has another seed
ORACLE_STEPS, QUICK_WALKS = 100_000, 4


class Agents(NamedTuple):
    """An agent (variant and seed) and the change that it adapts to."""

    variant: Variant
    change: int
    seed: int

    @property
    def file(self) -> str:
        """The file for its numbers."""
        return f"{self.variant.name}-{self.change}-{self.seed}.json"


def agents(scale: Scale) -> Iterator[Agents]:
    """All agents that adapt without environment steps."""
    for variant in scale.compared:
        for change in range(len(plan.CHANGES)):
            for seed in range(scale.rung_seeds):
                yield Agents(variant, change, seed)


def climb_all(chosen: list[Agents], scale: Scale, out: Path, show: Any = lambda done, count, name: None) -> None:
    """Evaluate every agent before and after each level, except agents already done or taken by another process."""
    storage.make_folder(out / FOLDER)
    rates = {name: row["safe_goal_rate"] for name, row in oracles(scale, out).items()}
    loaded: dict[str, dict[tuple[int, int], Agent]] = {}
    places = {out / FOLDER / one.file: (i, one) for i, one in enumerate(chosen)}
    for path in storage.unclaimed(places):
        i, one = places[path]
        base, costs = f"safedsr-{one.variant.name}-before", plan.CHANGES[one.change].after
        if base not in loaded:
            loaded[base] = _load(out / base)
        agent, updates = loaded[base][plan.LANES[one.change], one.seed], scale.of(MEMORY_UPDATES)
        rows = climb(agent, costs, rates[costs], updates, max(scale.of(plan.EPISODES), 64))
        about = {"variant": one.variant.name, "change": one.change, "seed": one.seed}
        storage.write_json(path, {"rows": [{**about, **row} for row in rows]})
        show(i + 1, len(chosen), one.file)


def _load(folder: Path) -> dict[tuple[int, int], Agent]:
    if not (folder / "policy.json").is_file():
        raise UserError(f"the part 'rungs' needs {folder}, which is not finished; run that part first")
    return load_all(folder)


def climb(
    agent: Agent, costs: str, enough: float, updates: int, episodes: int, *, from_memory: bool = False
) -> list[dict[str, Any]]:
    """Results with the new costs, before adaptation and after each level, with the seconds so far.

    With `from_memory`, λ is searched on walks through the replay memory, and the last row has the safe goal rate that
    such walks foresee.
    """
    task, epsilon = task_of(agent, costs), agent.job.agent.epsilon.epsilon_end
    spend = ClimbConfig(updates=updates)
    trial = walking(agent, task) if from_memory else task
    request = Request(costs, task, trial, spend, epsilon, enough)
    rows, seconds = [_measure(BEFORE, agent, task, epsilon, 0.0, episodes)], 0.0
    for level in LEVELS:
        began = time.perf_counter()
        agent = RUNGS[level](agent, request)
        seconds += time.perf_counter() - began
        rows.append(_measure(level, agent, task, epsilon, seconds, episodes))
    if from_memory:
        rows[-1]["foreseen"] = evaluate(agent, trial, episodes, epsilon, SEED).safe_goal_rate.value
    return rows


def _measure(level: str, agent: Agent, task: Task, epsilon: float, seconds: float, episodes: int) -> dict[str, Any]:
    found = evaluate(agent, task, episodes, epsilon, SEED)
    return {
        "level": level,
        "seconds": round(seconds, 4),
        "safe": found.safe_goal_rate.value,
        "safe_greedy": evaluate(agent, task, episodes, 0.0, SEED).safe_goal_rate.value,
        "goal": found.goal_rate.value,
        "cost": found.cost[0].value,
        "lam": float(agent.policy.lam[0]),
    }


def oracles(scale: Scale, out: Path, costs: Sequence[str] = plan.NEW_COSTS) -> dict[str, dict[str, float]]:
    """Results of the oracle with each of these costs at the last ε; computed once and saved."""
    if not (out / ORACLE).exists():
        storage.make_folder(out)
        storage.write_json(out / ORACLE, {name: _oracle(name, scale) for name in costs})
    return storage.read_json(out / ORACLE, costs)


def _oracle(costs: str, scale: Scale) -> dict[str, float]:
    job = plan.make_job("safedqn", plan.baseline_config("safedqn", scale), [costs], scale.of(plan.TRAINED), scale)
    (task,) = job.tasks
    epsilon = job.agent.epsilon.epsilon_end
    schedule = EpsilonSchedule(epsilon, epsilon)
    config = OracleConfig(steps=max(scale.of(ORACLE_STEPS), 10_000), walks=QUICK_WALKS if scale.quick else 16)
    found = find_oracle(task.params, task.budgets, schedule, config, scale.grid).exploring
    rates = {name: float(getattr(found, name)) for name in ("goal_rate", "safe_goal_rate", "length")}
    return {**rates, "cost": float(found.cost[0])}
