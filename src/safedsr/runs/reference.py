"""The oracle's results in the environments of runs: computed on request, stored in a small JSON file."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safedsr.core.config import EpsilonSchedule
from safedsr.envs.grid.config import GridConfig, OracleConfig
from safedsr.envs.grid.text import format_scene
from safedsr.runs.maps import scene_of
from safedsr.runs.results import Result
from safedsr.runs.storage import make_folder, read_json, write_json

FILE = "oracle.json"
DEFAULT = OracleConfig()


class Level(NamedTuple):
    """Mean results of the oracle's episodes at one ε."""

    epsilon: float
    goal_rate: float
    safe_goal_rate: float
    reward: float
    cost: tuple[float, ...]  # one per cost


class Reference(NamedTuple):
    """The oracle's results in one environment."""

    steps: int
    goal_count: float  # over `steps` steps with the ε schedule
    safe_goal_count: float
    exploring: Level  # at the last ε of the schedule
    greedy: Level  # at ε = 0


References = dict[str, Reference]


def key_of(result: Result, config: OracleConfig = DEFAULT) -> str:
    """A readable key of everything that the oracle of a result depends on, with a digest of the map."""
    digest = hashlib.sha256(format_scene(scene_of(result)).encode()).hexdigest()[:8]
    budgets = ", ".join(f"{budget:g}" for budget in result.budgets)
    planned = f"; planned for ε = {config.plan_epsilon:g}" if config.plan_epsilon else ""
    return f"{result.environment}; budget {budgets}; {result.steps} steps; map {digest}{planned}"


def read_references(folder: Path) -> References:
    """The oracle's results stored in a folder of figures; empty if there is no file."""
    if not (folder / FILE).is_file():
        return {}
    return {key: _from_json(value) for key, value in read_json(folder / FILE).items()}


def write_references(folder: Path, references: References) -> None:
    """Store the oracle's results beside the figures."""
    make_folder(folder)
    write_json(folder / FILE, {key: _to_json(reference) for key, reference in references.items()})


def add_references(
    results: Sequence[Result],
    folder: Path,
    config: OracleConfig = DEFAULT,
    show: Callable[[str], Any] = lambda name: None,
) -> References:
    """The stored references of a folder; those missing for these results are computed (about 10 s each) and stored."""
    found = read_references(folder)
    for result in results:
        key = key_of(result, config)
        if key not in found:
            show(result.environment)
            found[key] = compute_reference(result, config)
            write_references(folder, found)
    return found


def compute_reference(result: Result, config: OracleConfig = DEFAULT) -> Reference:
    """Run the oracle in the environment of a result for as many steps as the result was trained."""
    from dataclasses import replace

    from safedsr.envs.grid.oracle import find_oracle

    schedule, grid = EpsilonSchedule(), GridConfig()
    config = replace(config, steps=result.steps)
    found = find_oracle(scene_of(result).layout, result.budgets, schedule, config, grid)

    def level(walks: Any, epsilon: float) -> Level:
        reward = grid.goal_reward * walks.goal_rate + grid.step_reward * walks.length
        rates = float(walks.goal_rate), float(walks.safe_goal_rate)
        return Level(epsilon, *rates, float(reward), tuple(float(cost) for cost in walks.cost))

    return Reference(
        result.steps,
        float(found.scheduled.goal_count),
        float(found.scheduled.safe_goal_count),
        exploring=level(found.exploring, schedule.epsilon_end),
        greedy=level(found.greedy, 0.0),
    )


def reference_of(result: Result | None, references: References, config: OracleConfig = DEFAULT) -> Reference | None:
    """The oracle's results in the environment of a result, or None."""
    return references.get(key_of(result, config)) if result and references else None


def any_reference(results: Iterable[Result], references: References) -> Reference | None:
    """The oracle's results in an environment that results share; rates and means do not depend on their steps."""
    return next((found for result in results if (found := reference_of(result, references))), None)


def _to_json(reference: Reference) -> dict[str, Any]:
    levels = {name: getattr(reference, name)._asdict() for name in ("exploring", "greedy")}
    return {**reference._asdict(), **levels}


def _from_json(data: dict[str, Any]) -> Reference:
    levels = {name: Level(**{**data[name], "cost": tuple(data[name]["cost"])}) for name in ("exploring", "greedy")}
    return Reference(**{**data, **levels})
