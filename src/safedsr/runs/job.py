"""A training job: algorithm, environment, tasks, seeds and settings. A run folder stores it as config.json."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np

from safedsr.agents.registry import find_algorithm
from safedsr.envs.environment import Environment, Task, need
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid, make_tasks, require_near
from safedsr.envs.registry import environment_to_dict, find_environment, stored_params
from safedsr.errors import UserError
from safedsr.runs.config import BUDGET_KINDS, EPISODE, Terms, TrainConfig, agent_for
from safedsr.runs.schema import check_config
from safedsr.validation import check_name, from_dict, parse_budgets, require

USUAL_CHUNK, HOST_CHUNK = 5_000, 1_000  # environments on the host are slower


@dataclass(frozen=True, eq=False)
class Job:
    """One training program for all combinations of tasks and seeds."""

    algorithm: str
    tasks: tuple[Task, ...]
    seeds: tuple[int, ...]
    agent: Any  # the algorithm's configuration
    environment: Environment
    train: TrainConfig = TrainConfig()
    budget_kind: str = EPISODE  # one of BUDGET_KINDS

    def __post_init__(self) -> None:
        for name in ("tasks", "seeds"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        whole = all(isinstance(seed, int | np.integer) and not isinstance(seed, bool) for seed in self.seeds)
        require(whole, "seeds", self.seeds, "give whole numbers")
        object.__setattr__(self, "seeds", tuple(int(seed) for seed in self.seeds))
        algorithm = find_algorithm(self.algorithm)
        kind = algorithm.config.__name__
        require(
            isinstance(self.agent, algorithm.config),
            "agent",
            type(self.agent).__name__,
            f"give an object of type {kind}",
        )
        kinds = " or ".join(BUDGET_KINDS)
        require(self.budget_kind in BUDGET_KINDS, "budget_kind", self.budget_kind, f"give {kinds}")
        object.__setattr__(
            self, "agent", agent_for(self.budget_kind, self.train.steps, self.agent, algorithm.all_settings)
        )
        require(len(self.seeds) >= 1, "seeds", len(self.seeds), "train at least one")
        require(len(set(self.seeds)) == len(self.seeds), "seeds", self.seeds, "give each seed once")
        require(all(0 <= seed < 2**32 for seed in self.seeds), "seeds", self.seeds, "give numbers from 0 to 2³² - 1")
        require(len(self.tasks) >= 1, "tasks", len(self.tasks), "give at least one")
        for task in self.tasks:
            count = len(task.cost_names)
            fits = len(task.budgets) == count
            require(fits, "budgets", task.budgets, f"{task.name} has {count} costs: give one each")
            parse_budgets(task.budgets, count)
            for what in (task.name, *task.cost_names):
                check_name(what, "the name of a task or cost")
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
        if any(jax.tree.leaves(task.params) for task in self.tasks):
            for hook in ("to_json", "from_json"):
                what = "a task with parameters, so that its run folder can be opened again,"
                need(getattr(self.environment, hook), hook, self.environment, what)
        if self.train.trajectories:
            need(self.environment.position, "position", self.environment, "saving trajectories")
        aim = self.agent.aim
        if aim is not None:
            require(len(aim) in (1, self.num_costs), "aim", aim, f"give one or {self.num_costs} (one per cost)")

    @property
    def chunk(self) -> int:
        """Environment steps between two moments at which the run may be saved or stopped."""
        usual = HOST_CHUNK if self.environment.host else USUAL_CHUNK
        return self.train.chunk or max(usual // self.agent.period, 1) * self.agent.period

    @property
    def lanes(self) -> int:
        """Number of lanes: tasks × seeds."""
        return len(self.tasks) * len(self.seeds)

    @property
    def num_costs(self) -> int:
        """Number of costs J."""
        return self.environment.spec.costs

    @property
    def terms(self) -> Terms:
        """The terms on which episodes are judged."""
        return Terms(self.environment.spec.success, self.budget_kind)

    @property
    def discount(self) -> float:
        """The discount factor of the costs of an episode: the agent's γ if budgets are for the discounted mean."""
        return self.agent.gamma if self.terms.on_mean else 1.0

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
            **({} if self.budget_kind == EPISODE else {"budget_kind": self.budget_kind}),
        }


def job_from_dict(data: Mapping[str, Any], environment: Environment | None = None) -> Job:
    """The job that `to_dict` wrote; `environment` is required if it is not one of safedsr's."""
    data = check_config(data)
    for name in ("seeds", "agent"):
        if name not in data:
            raise UserError(f"the configuration lacks {name}")
    name, counts = data["algorithm"], {len(task["costs"]) for task in data["tasks"]}
    kinds = {
        "agent": from_dict(find_algorithm(name).config, data["agent"], "agent"),
        "train": from_dict(TrainConfig, data["train"], "train"),
        "budget_kind": data.get("budget_kind", EPISODE),
    }
    found = find_environment(data["environment"], max(counts, default=0), environment)
    tasks = tuple(
        Task(
            one["name"],
            stored_params(found, data["environment"], one["name"], one["params"]),
            one["costs"],
            one["budgets"],
        )
        for one in data["tasks"]
    )
    return Job(name, tasks, data["seeds"], environment=found, **kinds)


def aim_of(agent: Any, budgets: tuple[float, ...]) -> tuple[float, ...]:
    """The target cost of each cost: the setting `aim` if it fits the number of costs, else the budgets."""
    aim = agent.aim
    if aim is None or len(aim) not in (1, len(budgets)):
        return budgets
    return aim * len(budgets) if len(aim) == 1 else aim


def grid_job(
    algorithm: str,
    tasks: Sequence[Task],
    seeds: Sequence[int],
    agent: Any,
    grid: GridConfig = GridConfig(),
    train: TrainConfig = TrainConfig(),
    budget_kind: str = EPISODE,
) -> Job:
    """A job on grid maps."""
    counts = {len(task.budgets) for task in tasks}
    for task in tasks:
        require_near(task, grid)
    environment = make_grid(grid, max(counts, default=0))
    return Job(algorithm, tuple(tasks), tuple(seeds), agent, environment, train, budget_kind)


def tasks_for(
    algorithm: str, layouts: Sequence[str], costs: Sequence[str] = (), budget: float | str | None = None
) -> tuple[Task, ...]:
    """A task for every layout with every choice of costs, or without costs if the algorithm takes none."""
    return make_tasks(algorithm, layouts, costs, budget, costless=find_algorithm(algorithm).costless)
