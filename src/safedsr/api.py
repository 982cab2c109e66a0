"""Training in one call: `safedsr.train(algorithm, environment, …)` returns the trained agent."""

import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safedsr.agent import Agent, load
from safedsr.agents.registry import find_algorithm
from safedsr.engine.progress import Show as OnChunk
from safedsr.engine.train import train as train_job
from safedsr.envs.environment import Environment, make_task
from safedsr.errors import UserError
from safedsr.runs.advice import remarks_on
from safedsr.runs.config import EPISODE, TrainConfig
from safedsr.runs.job import Job, grid_job, tasks_for
from safedsr.validation import require, seed_numbers, with_settings


def train(
    algorithm: str,
    environment: Environment | str | Path,
    *,
    budget: Any = None,
    costs: str | None = None,
    cost_args: Mapping[str, Any] = MappingProxyType({}),
    budget_kind: str = EPISODE,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    preset: str | None = None,
    on_chunk: OnChunk | None = None,
    **settings: Any,
) -> Agent:
    """Train seeds of an algorithm and return the agent of the best one.

    `environment` is an `Environment`, or a map by name or file, with `costs`. `cost_args` are parameters of the cost
    functions. `settings` are those of the algorithm and of `TrainConfig`, such as steps. Without `out`, the run folder
    is a temporary one. `on_chunk` is called with a `Progress` after each chunk of steps (see `TrainConfig.chunk`); what
    it raises ends the training. Settings that leave too few steps to learn are warned about.
    """
    known = {field.name for field in fields(TrainConfig)}
    training = TrainConfig(**{name: value for name, value in settings.items() if name in known})
    own = {name: value for name, value in settings.items() if name not in known}
    agent = with_settings(find_algorithm(algorithm).settings(preset), own)
    numbers = seed_numbers(0, seeds) if isinstance(seeds, int) else tuple(seeds)
    if isinstance(environment, str | Path):
        if cost_args:
            raise UserError("cost_args are parameters of cost functions; a map has costs by name or file: costs=…")
        name = str(environment)
        if name.startswith("gymnax:"):
            raise UserError(
                f"'{name}' is no map; make it with gymnax and give from_gymnax(env, params) of safedsr.envs"
            )
        if re.search(r"-v\d+$", name):
            raise UserError(f"'{name}' is no map; of Gymnasium, give from_gymnasium('{name}', cost=…) of safedsr.envs")
        tasks = tasks_for(algorithm, [name], [costs] if costs else [], budget)
        job = grid_job(algorithm, tasks, numbers, agent, train=training, budget_kind=budget_kind)
        given = None
    elif not isinstance(environment, Environment):
        raise UserError(
            f"the environment is {environment!r}; give the name or file of a map, or what from_gymnasium or "
            "from_gymnax of safedsr.envs returns, such as from_gymnasium(function or id, cost=…)"
        )
    else:
        require(costs is None, "costs", costs, "this is for maps: the costs of an environment are its functions")
        task = make_task(environment, budget, cost_args)
        job = Job(algorithm, (task,), numbers, agent, environment, training, budget_kind)
        given = environment
    folder = Path(out or tempfile.mkdtemp(prefix="safedsr-"))
    for remark in remarks_on(job):
        warnings.warn(remark, stacklevel=2)
    train_job(job, folder, on_chunk)
    return load(folder, environment=given)
