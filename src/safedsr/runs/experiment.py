"""What is to be trained: an algorithm, environments, seeds and settings. It is a run folder's config.json."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from safedsr.agents.registry import find_algorithm
from safedsr.envs.grid.catalog import load_scene, with_costs
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Scene
from safedsr.envs.grid.text import format_scene, parse_scene
from safedsr.errors import UserError
from safedsr.runs.config import TrainConfig
from safedsr.validation import from_dict, parse_budgets, require

USUAL_CHUNK = 5_000
DEFAULT_BUDGET = "5"


class Environment(NamedTuple):
    """A map with its costs, and a budget for each."""

    scene: Scene
    budgets: tuple[float, ...]

    @property
    def name(self) -> str:
        """The map and its costs in a few words."""
        return ", ".join([self.scene.name, *self.scene.cost_names])


@dataclass(frozen=True, eq=False)
class Job:
    """One program: every environment and every seed is trained at once."""

    algorithm: str
    environments: tuple[Environment, ...]
    seeds: tuple[int, ...]
    agent: Any  # the algorithm's configuration
    grid: GridConfig = GridConfig()
    train: TrainConfig = TrainConfig()

    def __post_init__(self) -> None:
        algorithm = find_algorithm(self.algorithm)
        kind = algorithm.config.__name__
        require(isinstance(self.agent, algorithm.config), "agent", type(self.agent).__name__, f"give a {kind}")
        require(len(self.seeds) >= 1, "seeds", len(self.seeds), "train at least one")
        require(len(set(self.seeds)) == len(self.seeds), "seeds", self.seeds, "give each seed once")
        require(all(0 <= seed < 2**32 for seed in self.seeds), "seeds", self.seeds, "give numbers from 0 to 2³² - 1")
        require(len(self.environments) >= 1, "environments", 0, "give at least one layout")
        for environment in self.environments:
            count = len(environment.scene.layout.costs)
            fits = len(environment.budgets) == count
            require(fits, "budgets", environment.budgets, f"{environment.scene.name} has {count} costs: give one each")
        counts = {len(environment.budgets) for environment in self.environments}
        require(
            len(counts) == 1, "costs", sorted(counts), "environments of one job have equally many costs: add 'none'"
        )
        if algorithm.costless:
            require(counts == {0}, "costs", sorted(counts), f"{self.algorithm} takes none")
        steps, chunk, period = self.train.steps, self.train.chunk, self.agent.period
        if chunk is not None:
            require(chunk % period == 0, "chunk", chunk, f"give a multiple of {period}, the period of {self.algorithm}")
        require(steps % period == 0, "steps", steps, f"give a multiple of {period}, the period of {self.algorithm}")
        aim = self.agent.aim
        if aim is not None:
            require(len(aim) in (1, self.num_costs), "aim", aim, f"give one or {self.num_costs} (one a cost)")

    @property
    def chunk(self) -> int:
        """Environment steps of one compiled call."""
        return self.train.chunk or max(USUAL_CHUNK // self.agent.period, 1) * self.agent.period

    @property
    def lanes(self) -> int:
        """How many trainings it is: every seed in every environment."""
        return len(self.environments) * len(self.seeds)

    @property
    def num_costs(self) -> int:
        """J."""
        return len(self.environments[0].budgets)

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON; maps are written out, so that no file has to be found again."""
        return {
            "algorithm": self.algorithm,
            "environments": [
                {
                    "name": e.scene.name,
                    "costs": list(e.scene.cost_names),
                    "budgets": list(e.budgets),
                    "map": format_scene(e.scene),
                }
                for e in self.environments
            ],
            "seeds": list(self.seeds),
            "agent": asdict(self.agent),
            "grid": asdict(self.grid),
            "train": asdict(self.train),
        }


def job_from_dict(data: dict[str, Any]) -> Job:
    """The job that `to_dict` wrote."""
    try:
        environments = tuple(
            Environment(parse_scene(e["map"], e["name"]), tuple(e["budgets"])) for e in data["environments"]
        )
        return Job(
            algorithm=data["algorithm"],
            environments=environments,
            seeds=tuple(data["seeds"]),
            agent=from_dict(find_algorithm(data["algorithm"]).config, data["agent"]),
            grid=from_dict(GridConfig, data["grid"]),
            train=from_dict(TrainConfig, data["train"]),
        )
    except (KeyError, TypeError) as error:
        raise UserError(f"the job's configuration is incomplete or damaged: {error}") from None


def make_environments(
    algorithm: str, layouts: Sequence[str], costs: Sequence[str] = (), budget: str | None = None
) -> tuple[Environment, ...]:
    """Every layout with every choice of costs; without choices, the costs the layouts bring themselves."""
    if find_algorithm(algorithm).costless:
        for name, given in (("costs", costs), ("budget", budget)):
            require(not given, name, given, f"{algorithm} takes none: leave it out, or train 'safe{algorithm}'")
        return tuple(Environment(with_costs(load_scene(layout), ()), ()) for layout in layouts)
    scenes = [load_scene(layout, choice) for layout in layouts for choice in (costs or (None,))]
    for scene in scenes:
        if not scene.cost_names:
            raise UserError(
                f"layout '{scene.name}' has no costs and {algorithm} needs some; give --costs (for example "
                "'diamond', or 'none' for an empty one), or train 'dqn' or 'dsr'"
            )
    return tuple(Environment(scene, parse_budgets(budget or DEFAULT_BUDGET, len(scene.cost_names))) for scene in scenes)
