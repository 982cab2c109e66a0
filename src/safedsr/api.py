"""Training in one call: `safedsr.train(algorithm, environment, …)` returns the trained agent."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safedsr.agent import Agent, load
from safedsr.agents.registry import find_algorithm
from safedsr.engine.progress import Show
from safedsr.engine.train import train as train_job
from safedsr.envs.environment import Environment, make_task
from safedsr.errors import UserError
from safedsr.runs.config import EPISODE, TrainConfig
from safedsr.runs.job import Job, grid_job, tasks_for
from safedsr.validation import with_settings


def train(
    algorithm: str,
    environment: Environment | str,
    *,
    budget: Any = None,
    costs: str | None = None,
    cost_args: Mapping[str, Any] = MappingProxyType({}),
    budget_kind: str = EPISODE,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    preset: str | None = None,
    show: Show | None = None,
    **settings: Any,
) -> Agent:
    """Train seeds of an algorithm and return the agent of the best one.

    `environment` is an `Environment`, or a map by name or file, with `costs`. `cost_args` are parameters of the cost
    functions. `settings` are those of the algorithm and of `TrainConfig`, such as steps. Without `out`, the run folder
    is a temporary one.
    """
    known = {field.name for field in fields(TrainConfig)}
    training = TrainConfig(**{name: value for name, value in settings.items() if name in known})
    own = {name: value for name, value in settings.items() if name not in known}
    agent = with_settings(find_algorithm(algorithm).settings(preset), own)
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if isinstance(environment, str):
        if cost_args:
            raise UserError("cost_args are parameters of cost functions; a map has costs by name or file: costs=…")
        tasks = tasks_for(algorithm, [environment], [costs] if costs else [], budget)
        job = grid_job(algorithm, tasks, numbers, agent, train=training, budget_kind=budget_kind)
        given = None
    else:
        task = make_task(environment, budget, cost_args)
        job = Job(algorithm, (task,), numbers, agent, environment, training, budget_kind)
        given = environment
    folder = Path(out or tempfile.mkdtemp(prefix="safedsr-"))
    train_job(job, folder, show)
    return load(folder, environment=given)
