"""`safedsr train … --resume`: the same flags as at the start, fewer of them, or more steps; the rest is refused."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safedsr.cli.environments import EnvFlags, cost_args, environment_in
from safedsr.envs.grid.config import GridConfig
from safedsr.errors import UserError
from safedsr.runs.config import TrainConfig
from safedsr.validation import parse_budgets, shown

if TYPE_CHECKING:
    from safedsr.runs.job import Job


class Asked(NamedTuple):
    """What the flags of a command line ask for; only the flags that were given count."""

    algorithm: str
    agent: Any
    grid: GridConfig
    layout: tuple[str, ...]
    costs: tuple[str, ...]
    budget: str | None
    budget_kind: str
    seeds: int
    first_seed: int


def given_flags(args: list[str]) -> set[str]:
    """The names of the flags that are given, as in Python."""
    return {arg.partition("=")[0][2:].replace("-", "_") for arg in args if arg.startswith("--")}


def continue_run(out: Path, asked: Asked, training: TrainConfig, where: EnvFlags, args: list[str]) -> None:
    """Continue a run. The settings of `TrainConfig` (steps, saving, precision) may change, the others must be equal."""
    from safedsr.runs.folder import load_config

    config = load_config(out)
    trained = config["algorithm"]
    if trained != asked.algorithm:
        raise UserError(
            f"the run in {out} trains '{trained}', not '{asked.algorithm}'; "
            f"write: safedsr train {trained} --out {out} --resume"
        )
    from safedsr.cli.display import progress_bar
    from safedsr.engine.lanes import use_cores
    from safedsr.engine.train import resume
    from safedsr.envs.chosen import same_costs
    from safedsr.runs.job import job_from_dict
    from safedsr.validation import in_file

    given = given_flags(args)
    environment = environment_in(config["environment"], where, str(out))
    with in_file(out / "config.json"):
        job = job_from_dict(config, environment)
    for name, mine, theirs in _differences(job, asked, given):
        flag = name.replace("_", "-")
        raise UserError(
            f"--{flag} is {shown(mine)} and the run in {out} has {shown(theirs)}; leave --{flag} out to continue it, "
            "or choose another folder"
        )
    changes = {name: getattr(training, name) for name in given if name in TrainConfig.__dataclass_fields__}
    if environment and not same_costs(environment, config["environment"]):
        before, after = (_names_of(data) for data in (config["environment"], environment.settings))
        print(f"note: other cost functions from now on: {after}, before: {before}; a replay memory gets the new costs")
    use_cores(job.lanes)
    with progress_bar(asked.algorithm) as show:
        resume(out, changes, show=show, environment=environment, cost_args=cost_args(where))
    print(f"run folder: {out}")


def _names_of(environment: Mapping[str, Any]) -> str:
    """The names of the cost functions that a configuration describes."""
    from safedsr.envs.functions import name_in

    return ", ".join(map(name_in, environment.get("costs", ()))) or "none"


def _differences(job: "Job", asked: Asked, given: set[str]) -> Iterator[tuple[str, Any, Any]]:
    """The given flags that differ from a run: name, given value, value of the run."""
    from safedsr.agents.registry import find_algorithm
    from safedsr.envs.grid.config import GRID
    from safedsr.runs.config import agent_for

    presets = find_algorithm(job.algorithm).all_settings
    new = _flat(asdict(agent_for(asked.budget_kind, job.train.steps, asked.agent, presets)))
    for name, old in _flat(asdict(job.agent)).items():
        if (name in given or "preset" in given) and new[name] != old:
            yield name if name in given else f"preset ({name})", new[name], old
    if "budget_kind" in given and asked.budget_kind != job.budget_kind:
        yield "budget_kind", asked.budget_kind, job.budget_kind
    if "seeds" in given and asked.seeds != len(job.seeds):
        yield "seeds", asked.seeds, len(job.seeds)
    if "first_seed" in given and asked.first_seed != job.seeds[0]:
        yield "first_seed", asked.first_seed, job.seeds[0]
    if "budget" in given:
        for task in job.tasks:
            if (mine := parse_budgets(asked.budget, len(task.budgets))) != task.budgets:
                yield "budget", mine, task.budgets
    settings = {"time_limit": job.environment.spec.time_limit, **job.environment.settings}
    for name, value in asdict(asked.grid).items():
        if name in given and value != settings.get(name):
            yield name, value, settings.get(name)
    if job.environment.name == GRID:
        yield from _other_maps(job, asked, given)


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by their own names, those of nested configurations included."""
    nested = [_flat(value) for value in settings.values() if isinstance(value, dict)]
    plain = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    return {name: value for one in (plain, *nested) for name, value in one.items()}


def _other_maps(job: "Job", asked: Asked, given: set[str]) -> Iterator[tuple[str, Any, Any]]:
    import numpy as np

    from safedsr.envs.grid.catalog import load_scene, with_costs
    from safedsr.envs.grid.environment import scene_of

    def same(one: Any, other: Any, fields: tuple[str, ...]) -> bool:
        return all(np.array_equal(getattr(one.layout, field), getattr(other.layout, field)) for field in fields)

    scenes = [scene_of(task) for task in job.tasks]
    maps = list({scene.name: scene for scene in scenes}.values())
    if "layout" in given:
        mine = [load_scene(name) for name in asked.layout]
        equal = len(mine) == len(maps) and all(map(lambda a, b: same(a, b, ("walls", "starts", "goal")), mine, maps))
        if not equal:
            yield "layout", [scene.name for scene in mine], [scene.name for scene in maps]
    if "costs" in given:
        mine = [with_costs(scene, choice) for scene in maps for choice in asked.costs]
        names = [[", ".join(scene.cost_names) for scene in some] for some in (mine, scenes)]
        if names[0] != names[1] or not all(map(lambda a, b: same(a, b, ("costs",)), mine, scenes)):
            yield "costs", names[0], names[1]
