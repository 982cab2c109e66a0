"""A training job: algorithm, environment, tasks, seeds and settings. A run folder stores it as config.json."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from safedsr.agents.registry import find_algorithm
from safedsr.envs.environment import Environment, Task, need
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid, make_tasks
from safedsr.envs.registry import find_environment
from safedsr.errors import UserError
from safedsr.runs.config import TrainConfig
from safedsr.validation import from_dict, require

USUAL_CHUNK = 5_000


@dataclass(frozen=True, eq=False)
class Job:
    """One training program for all combinations of tasks and seeds."""

    algorithm: str
    tasks: tuple[Task, ...]
    seeds: tuple[int, ...]
    agent: Any  # the algorithm's configuration
    environment: Environment
    train: TrainConfig = TrainConfig()

    def __post_init__(self) -> None:
        algorithm = find_algorithm(self.algorithm)
        kind = algorithm.config.__name__
        require(isinstance(self.agent, algorithm.config), "agent", type(self.agent).__name__, f"give a {kind}")
        require(len(self.seeds) >= 1, "seeds", len(self.seeds), "train at least one")
        require(len(set(self.seeds)) == len(self.seeds), "seeds", self.seeds, "give each seed once")
        require(all(0 <= seed < 2**32 for seed in self.seeds), "seeds", self.seeds, "give numbers from 0 to 2³² - 1")
        require(len(self.tasks) >= 1, "tasks", len(self.tasks), "give at least one")
        for task in self.tasks:
            count = len(task.cost_names)
            fits = len(task.budgets) == count
            require(fits, "budgets", task.budgets, f"{task.name} has {count} costs: give one each")
        counts = {len(task.budgets) for task in self.tasks}
        require(len(counts) == 1, "costs", sorted(counts), "all tasks of a job need equally many costs: add 'none'")
        costs = self.environment.spec.costs
        require(counts == {costs}, "costs", sorted(counts), f"the environment has {costs}: give each task as many")
        if algorithm.costless:
            require(counts == {0}, "costs", sorted(counts), f"{self.algorithm} takes none: give tasks without costs")
        steps, chunk, period = self.train.steps, self.train.chunk, self.agent.period
        if chunk is not None:
            require(chunk % period == 0, "chunk", chunk, f"give a multiple of {period}, the period of {self.algorithm}")
        require(steps % period == 0, "steps", steps, f"give a multiple of {period}, the period of {self.algorithm}")
        if self.train.trajectories:
            need(self.environment.position, self.environment, "trajectories are positions")
        aim = self.agent.aim
        if aim is not None:
            require(len(aim) in (1, self.num_costs), "aim", aim, f"give one or {self.num_costs} (one per cost)")

    @property
    def chunk(self) -> int:
        """Environment steps of one compiled call."""
        return self.train.chunk or max(USUAL_CHUNK // self.agent.period, 1) * self.agent.period

    @property
    def lanes(self) -> int:
        """Number of lanes: tasks × seeds."""
        return len(self.tasks) * len(self.seeds)

    @property
    def num_costs(self) -> int:
        """Number of costs J."""
        return self.environment.spec.costs

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON; it includes the parameters of each task, so that no other file is needed."""
        to_json = self.environment.to_json or (lambda task: {})
        return {
            "algorithm": self.algorithm,
            "environment": environment_to_dict(self.environment),
            "tasks": [
                {
                    "name": task.name,
                    "costs": list(task.cost_names),
                    "budgets": list(task.budgets),
                    "params": to_json(task),
                }
                for task in self.tasks
            ],
            "seeds": list(self.seeds),
            "agent": asdict(self.agent),
            "train": asdict(self.train),
        }


def environment_to_dict(environment: Environment) -> dict[str, Any]:
    """The environment in config.json: its name and settings."""
    return {"name": environment.name, **environment.settings}


def job_from_dict(data: Mapping[str, Any], environment: Environment | None = None) -> Job:
    """The job from the result of `to_dict`; `environment` is needed if it is not part of safedsr."""
    try:
        counts = {len(task["costs"]) for task in data["tasks"]}
        found = find_environment(data["environment"], max(counts), environment)
        return Job(
            algorithm=data["algorithm"],
            tasks=tuple(_task(found, task) for task in data["tasks"]),
            seeds=tuple(data["seeds"]),
            agent=from_dict(find_algorithm(data["algorithm"]).config, data["agent"]),
            environment=found,
            train=from_dict(TrainConfig, data["train"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"the job's configuration is incomplete or damaged: {error}") from None


def _task(environment: Environment, data: Mapping[str, Any]) -> Task:
    from_json = need(environment.from_json, environment, "a run folder is opened by its parameters")
    return Task(data["name"], from_json(data["name"], data["params"]), tuple(data["costs"]), tuple(data["budgets"]))


def grid_job(
    algorithm: str,
    tasks: Sequence[Task],
    seeds: Sequence[int],
    agent: Any,
    grid: GridConfig = GridConfig(),
    train: TrainConfig = TrainConfig(),
) -> Job:
    """A job on grid maps."""
    counts = {len(task.budgets) for task in tasks}
    environment = make_grid(grid, max(counts, default=0))
    return Job(algorithm, tuple(tasks), tuple(seeds), agent, environment, train)


def tasks_for(
    algorithm: str, layouts: Sequence[str], costs: Sequence[str] = (), budget: str | None = None
) -> tuple[Task, ...]:
    """A task for every layout with every choice of costs, or without costs if the algorithm takes none."""
    return make_tasks(algorithm, layouts, costs, budget, costless=find_algorithm(algorithm).costless)
