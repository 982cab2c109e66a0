"""A sweep as data, and the runs that it consists of: algorithms × settings, with maps, costs and seeds packed."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from safedsr.agents.registry import find_algorithm
from safedsr.envs.environment import Environment, Task, make_task
from safedsr.envs.functions import parse_assignments
from safedsr.envs.grid.config import GridConfig
from safedsr.errors import UserError, unknown
from safedsr.runs import storage
from safedsr.runs.config import EPISODE, TrainConfig
from safedsr.runs.job import Job, grid_job, tasks_for
from safedsr.sweep.values import EXAMPLE, Choice, combinations, field_name
from safedsr.validation import first_difference, from_dict, in_file, require, seed_numbers, with_settings

FILE = "sweep.json"
LONGEST_NAME = 100  # characters of a folder's name
MOST_RUNS = 20_000
METRICS = ("safe-goal-rate", "goal-rate", "return", "cost")
MakeEnvironment = Callable[[bool], Environment]  # called with whether the algorithm takes no costs


@dataclass(frozen=True)
class Sweep:
    """Everything that a sweep trains. The names are those of the flags; settings are named as in `safedsr train`."""

    algos: tuple[str, ...] = ()
    layout: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    budget: tuple[str, ...] = ()
    budget_kind: str = EPISODE
    seeds: int = 1
    first_seed: int = 0
    preset: str | None = None
    set: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, Any] = field(default_factory=dict)
    sample: int | None = None
    sample_seed: int = 0
    halving: int | None = None
    metric: str | None = None
    env: dict[str, Any] = field(default_factory=dict)  # flags of an environment that is no map
    pack: int | None = None

    def __post_init__(self) -> None:
        require(len(self.algos) > 0, "algos", self.algos, "name at least one algorithm: --algos safedsr-plus ppo-lag")
        for name in self.algos:
            find_algorithm(name)
        require(len(set(self.algos)) == len(self.algos), "algos", self.algos, "name each once")
        for name in ("set", "vary"):
            given = {field_name(key): value for key, value in getattr(self, name).items()}
            object.__setattr__(self, name, given)
            for key in given:
                if "." in key and (algorithm := key.rpartition(".")[0]) not in self.algos:
                    raise unknown("algorithm of this sweep", algorithm, self.algos)
        if both := sorted(self.set.keys() & self.vary.keys()):
            raise UserError(f"{both[0]} is both set and varied; leave out one of them")
        require(self.sample is None or len(self.vary) > 0, "sample", self.sample, f"nothing is varied; {EXAMPLE}")
        require(self.halving is None or self.halving >= 2, "halving", self.halving, "give 2 or more")
        require(self.pack is None or self.pack >= 1, "pack", self.pack, "give at least 1")
        if self.metric is not None and self.metric not in METRICS:
            raise unknown("metric", self.metric, METRICS)
        if self.env.get("env") and (self.layout or self.costs):
            raise UserError("layout and costs are for maps; the costs of an environment are functions (cost_fn)")

    def own(self, name: str, algorithm: str) -> dict[str, Any]:
        """What is `set` or varied (`vary`) for an algorithm: for all, or for this one as ALGORITHM.setting."""
        given = getattr(self, name)
        own = {key.rpartition(".")[2]: value for key, value in given.items() if key.startswith(f"{algorithm}.")}
        return {**{key: value for key, value in given.items() if "." not in key}, **own}


class Planned(NamedTuple):
    """A run of a sweep: its folder, its configuration and its job."""

    name: str
    configuration: str  # runs of one configuration differ in seeds and tasks only
    settings: dict[str, Any]  # those that are varied
    job: Job


def sweep_from(data: Mapping[str, Any]) -> Sweep:
    """A sweep from the content of a TOML or JSON file."""
    found = {str(key).replace("-", "_"): value for key, value in data.items()}
    if isinstance(found.get("budget"), list):
        found["budget"] = [str(one) for one in found["budget"]]
    return from_dict(Sweep, found, "")


def read_sweep(out: Path) -> Sweep:
    """The sweep of a folder."""
    data = storage.read_json(out / FILE, ["sweep"])
    with in_file(out / FILE):
        return from_dict(Sweep, data["sweep"], "sweep")


def begin(sweep: Sweep, planned: Sequence[Planned], out: Path) -> None:
    """Write sweep.json before anything else; refuse a folder with another sweep."""
    runs = [
        {"name": one.name, "configuration": one.configuration, "settings": one.settings, "seeds": list(one.job.seeds)}
        for one in planned
    ]
    if (out / FILE).exists():
        if difference := first_difference(asdict(sweep), asdict(read_sweep(out))):
            name, mine, theirs = difference
            raise UserError(f"{out} holds another sweep: {name} is {mine!r} here and {theirs!r} there; choose another")
        return
    storage.make_folder(out)
    storage.write_json(out / FILE, {"sweep": asdict(sweep), "runs": runs}, signed=True)


def plan(sweep: Sweep, make_environment: MakeEnvironment | None = None) -> list[Planned]:
    """The runs of a sweep, in a fixed order, each with a name of its own."""
    planned: list[Planned] = []
    for algorithm in sweep.algos:
        choices: dict[str, Choice] = sweep.own("vary", algorithm)
        combos = combinations(choices, sweep.sample, sweep.sample_seed) if choices else [{}]
        require(len(combos) <= MOST_RUNS, "the number of configurations", len(combos), f"give at most {MOST_RUNS}")
        for number, settings in enumerate(combos):
            name = _name(algorithm, settings, number if sweep.sample else None)
            jobs = list(_jobs(sweep, algorithm, settings, make_environment))
            parts = [""] if len(jobs) == 1 else [f"-part{i}" for i in range(len(jobs))]
            planned += [Planned(name + part, name, settings, job) for part, job in zip(parts, jobs, strict=True)]
    name, count = Counter(one.name for one in planned).most_common(1)[0]
    if count > 1:
        raise UserError(f"two runs of this sweep are the same ({name}); give each value once")
    return planned


def _name(algorithm: str, settings: Mapping[str, Any], number: int | None) -> str:
    """A stable name for a folder: the algorithm and its settings; a hash replaces what is too long."""
    if number is not None:
        return f"{algorithm}-{number:04d}"
    words = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()]
    name = re.sub(r"[^\w.=+-]+", "_", ",".join([algorithm, *words]).replace(",", "-"))
    if len(name) <= LONGEST_NAME:
        return name
    return f"{algorithm}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _jobs(
    sweep: Sweep, algorithm: str, varied: Mapping[str, Any], make_environment: MakeEnvironment | None
) -> Iterator[Job]:
    """The jobs of one configuration: all tasks and seeds in one, as far as `pack` lanes allow."""
    settings = {**sweep.own("set", algorithm), **varied}
    known = {name: {one.name for one in fields(kind)} for name, kind in (("train", TrainConfig), ("grid", GridConfig))}
    parts = {name: {key: value for key, value in settings.items() if key in names} for name, names in known.items()}
    own = {key: value for key, value in settings.items() if not any(key in names for names in known.values())}
    found = find_algorithm(algorithm)
    agent = with_settings(found.settings(sweep.preset), {name: _frozen(value) for name, value in own.items()})
    training = from_dict(TrainConfig, parts["train"])
    numbers = seed_numbers(sweep.first_seed, sweep.seeds)
    if make_environment:
        environment = make_environment(found.costless)
        arguments = parse_assignments(sweep.env.get("cost_arg", ()))
        budgets = () if found.costless else sweep.budget  # algorithms without costs take part, without budgets
        tasks = [make_task(environment, budget, arguments) for budget in budgets or (None,)]
        if parts["grid"]:
            raise UserError(f"{next(iter(parts['grid']))} is a setting of maps; leave it out")
        make = lambda tasks, seeds: Job(algorithm, tasks, seeds, agent, environment, training, sweep.budget_kind)  # noqa: E731
    else:
        grid = from_dict(GridConfig, parts["grid"])
        layouts = sweep.layout or ("one-room",)
        budgets = sweep.budget or (None,)
        tasks = [task for budget in budgets for task in tasks_for(algorithm, layouts, sweep.costs, budget)]
        make = lambda tasks, seeds: grid_job(algorithm, tasks, seeds, agent, grid, training, sweep.budget_kind)  # noqa: E731
    for some, seeds in packed(tasks, numbers, sweep.pack):
        yield make(some, seeds)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def packed(
    tasks: Sequence[Task], seeds: Sequence[int], most: int | None
) -> Iterator[tuple[tuple[Task, ...], tuple[int, ...]]]:
    """Tasks and seeds in groups of at most `most` lanes; tasks with other numbers of costs are other programs."""
    counts = sorted({len(task.budgets) for task in tasks})
    for count in counts:
        alike = tuple(task for task in tasks if len(task.budgets) == count)
        together = min(len(alike), most or len(alike))
        each = max((most or len(alike) * len(seeds)) // together, 1)
        for i in range(0, len(alike), together):
            for j in range(0, len(seeds), each):
                yield alike[i : i + together], tuple(seeds[j : j + each])


def with_pack(sweep: Sweep, planned: Sequence[Planned], free: float | None) -> Sweep:
    """The sweep with as many lanes in one program as fit into this much memory; as it is if everything fits."""
    from safedsr.core.capacity import fitting
    from safedsr.engine.program import Program

    whole = most = max(one.job.lanes for one in planned)
    shapes = {_shape(one): one.job for one in planned if one.job.environment.host is None}
    for job in shapes.values():
        need = sum(Program(job).prices().values())
        if free is not None and need > free:
            most = min(most, max(fitting(job.lanes, need, free), 1))
    return sweep if most == whole else replace(sweep, pack=most)


def _shape(one: Planned) -> str:
    """What the memory of a run can depend on: all settings but fractions."""
    return repr((one.job.algorithm, {k: v for k, v in one.settings.items() if not isinstance(v, float)}))
