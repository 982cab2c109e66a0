"""The course of a scenario: its environment, and the task of each phase. Parameters of all phases have equal shapes."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from safedsr.core.config import Matmul
from safedsr.envs.environment import Environment, Task, make_task, with_cost_args
from safedsr.envs.grid.catalog import load_scene, with_costs
from safedsr.envs.grid.changing import POINTS, Ground, Hazard, make_changing_grid, no_hazard
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import make_grid, require_near
from safedsr.envs.grid.layout import Layout, Scene, finer, make_layout, stack_layouts
from safedsr.envs.grid.text import parse_scene
from safedsr.envs.twins import make_twin
from safedsr.errors import UserError
from safedsr.scenario.file import HazardSetting, Part, RewardSetting, Scenario, note_of
from safedsr.validation import parse_budgets, require

TIME_LIMIT = 400  # of episodes on the grid, if the file does not say another
QUICK_FIRST, QUICK_LATER, QUICK_LIMIT = 2_000, 1_000, 40  # steps of the phases and episodes of a quick scenario
QUICK_PHASES = 2
MOVES = ("hazard", "reward", "goal", "sees_hazard")  # fields that need the changing grid
ONLY_MAP = ("costs", "shift", "grow", "hazard", "reward", "goal", "starts", "sees_hazard")


class Phase(NamedTuple):
    """The time between two changes."""

    number: int
    start: int  # environment steps
    end: int
    task: Task
    announced: bool  # the agents are told the task when the phase begins
    note: str  # what has changed


@dataclass(frozen=True, eq=False)
class Course:
    """What a contestant runs: an environment and phases."""

    scenario: Scenario
    environment: Environment
    phases: tuple[Phase, ...]
    grid: GridConfig | None  # the physics, on the grid
    quick: bool = False
    matmul: Matmul = "float32"  # precision of matrix products

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self.scenario.name

    @property
    def steps(self) -> int:
        """Environment steps in all."""
        return self.phases[-1].end

    @property
    def first(self) -> int:
        """Environment steps before the first change."""
        return self.phases[0].end

    @property
    def silent(self) -> bool:
        """Whether there is a change that nobody is told of."""
        return not all(phase.announced for phase in self.phases)

    def known(self, number: int) -> Task:
        """What an agent knows of the task of a phase: its budgets, and all else as it was announced last."""
        told = max(phase.number for phase in self.phases[: number + 1] if phase.announced)
        return self.phases[number].task._replace(params=self.phases[told].task.params)

    def stacked(self, number: int) -> Any:
        """The parameters of a phase with the leading axis of tasks, as programs take them."""
        return jax.tree.map(lambda x: np.asarray(x)[None], self.phases[number].task.params)


class _Now(NamedTuple):
    """What holds in a phase on the grid."""

    scene: Scene
    budgets: tuple[float, ...]
    rewards: RewardSetting
    hazard: HazardSetting | None


def make_course(scenario: Scenario, *, quick: bool = False, matmul: Matmul = "float32") -> Course:
    """The course of a scenario.

    A quick one has short episodes, few steps and the first change alone; its numbers are for tests only.
    """
    fields = [scenario.place, *scenario.changes]
    make = _elsewhere if "env" in scenario.place.values else _on_grid
    environment, tasks, grid = make(scenario, fields, QUICK_LIMIT if quick else None)
    ends = tuple(QUICK_FIRST + n * QUICK_LATER for n in range(len(fields))) if quick else scenario.ends
    starts = (0, *ends[:-1])
    notes = ["the first task", *(note_of(change.values) for change in scenario.changes)]
    told = [True, *(change.values.get("announced", True) for change in scenario.changes)]
    numbers = range(len(fields))
    phases = tuple(Phase(*about) for about in zip(numbers, starts, ends, tasks, told, notes, strict=True))
    return Course(scenario, environment, phases[:QUICK_PHASES] if quick else phases, grid, quick, matmul)


def _elsewhere(scenario: Scenario, fields: list[Part], most: int | None) -> tuple[Environment, list[Task], None]:
    """The environment of a twin, and the task of each phase."""
    place = scenario.place
    for part in fields:
        for name in ONLY_MAP:
            if name in part.values:
                with scenario.at(part, name):
                    raise UserError("this is for maps; env takes budget and args")
    with scenario.at(place, "env"):
        environment = make_twin(place.values["env"], most or place.values.get("time_limit"))
    tasks: list[Task] = []
    for part in fields:
        with scenario.at(part, "budget"):
            given = part.values.get("budget", tasks[-1].budgets if tasks else None)
            task = make_task(environment, given)._replace(params=tasks[-1].params if tasks else environment.params)
        with scenario.at(part, "args"):
            args = part.values.get("args", {})
            tasks.append(with_cost_args(environment, task, args) if args else task)
    return environment, tasks, None


def _on_grid(scenario: Scenario, fields: list[Part], most: int | None) -> tuple[Environment, list[Task], GridConfig]:
    """The grid, and the task of each phase."""
    place = scenario.place
    with scenario.at(place, "time_limit"):
        grid = GridConfig(time_limit=most or place.values.get("time_limit", TIME_LIMIT))
    with scenario.at(place, "map"):
        scene = _load(place.values["map"], scenario)
    nows: list[_Now] = []
    for part in fields:
        nows.append(_next(scenario, part, nows[-1] if nows else _Now(scene, (), RewardSetting(), None)))
    for part, now in zip(fields, nows, strict=True):
        with scenario.at(part, "goal" if "goal" in part.values else "map"):
            require_near(Task(scene.name, now.scene.layout, (), ()), grid)
    names, count = nows[0].scene.cost_names, len(nows[0].budgets)
    layouts = stack_layouts([now.scene.layout for now in nows])
    params = [jax.tree.map(lambda x, n=n: x[n], layouts) for n in range(len(nows))]
    if any(name in part.values for part in fields for name in MOVES):
        values = [sum_ for now in nows for sum_ in (now.rewards.step, now.rewards.step + now.rewards.goal)]
        ends = (min(values), max(values))
        sees = place.values.get("sees_hazard", False)
        environment = make_changing_grid(grid, count, ends, sees=sees)
        params = [_ground(layout, now, count) for layout, now in zip(params, nows, strict=True)]
    else:
        environment = make_grid(grid, count)
    tasks = [Task(scene.name, one, names, now.budgets) for one, now in zip(params, nows, strict=True)]
    return environment, tasks, grid


def _load(text: str, scenario: Scenario) -> Scene:
    """A map by name, the text of a map, or a text file beside the scenario."""
    if "\n" in text.strip():
        return parse_scene(text, "map")
    beside = Path(scenario.source).parent / text
    return load_scene(str(beside) if text.endswith(".txt") and beside.is_file() else text)


def _next(scenario: Scenario, part: Part, now: _Now) -> _Now:
    """What holds after a change."""
    values, scene = part.values, now.scene
    names = scene.cost_names
    if "costs" in values:
        with scenario.at(part, "costs"):
            drawn = values["costs"]
            if "\n" in drawn.strip():
                scene = with_costs(scene, np.asarray(_same_size(parse_scene(drawn, "costs"), scene).layout.costs))
            else:
                scene = with_costs(scene, drawn)
    if "shift" in values:
        with scenario.at(part, "shift"):
            scene = _with_layers(scene, _shifted(scene.layout, values["shift"]))
    if "grow" in values:
        with scenario.at(part, "grow"):
            require(1 <= values["grow"] <= 100, "grow", values["grow"], "give a number of cells from 1 to 100")
            scene = _with_layers(scene, _grown(scene.layout, values["grow"]))
    for name in ("goal", "starts"):
        if name in values:
            with scenario.at(part, name):
                scene = replace(scene, layout=_moved(scene.layout, name, values[name]))
    with scenario.at(part, "costs"):
        require(len(scene.cost_names) > 0, "costs", "none", "name the costs, or 'none' for an empty one")
        count = len(names) or len(scene.cost_names)
        fits = len(scene.cost_names) == count or not now.budgets
        require(fits, "costs", len(scene.cost_names), f"every phase needs {count}: add 'none'")
    if now.budgets:  # the costs keep their names
        scene = replace(scene, cost_names=names)
    with scenario.at(part, "budget"):
        given = values.get("budget", now.budgets or None)
        require(given is not None, "budget", given, "give the largest allowed cost of an episode")
        budgets = parse_budgets(given, len(scene.cost_names))
    hazard = values.get("hazard", now.hazard)
    if "hazard" in values:
        with scenario.at(part, "hazard"):
            _check_hazard(hazard, scene.layout, len(budgets))
    return _Now(scene, budgets, values.get("reward", now.rewards), hazard)


def _same_size(drawn: Scene, scene: Scene) -> Scene:
    sizes = [" × ".join(map(str, one.layout.walls.shape)) for one in (drawn, scene)]
    require(sizes[0] == sizes[1], "costs", f"a drawing of {sizes[0]} cells", f"the map has {sizes[1]}")
    return drawn


def _with_layers(scene: Scene, layers: np.ndarray) -> Scene:
    return replace(scene, layout=scene.layout._replace(costs=layers))


def _free(layout: Layout) -> np.ndarray:
    return ~finer(np.asarray(layout.walls)[None], layout.raster)


def _shifted(layout: Layout, shift: tuple[int, int]) -> np.ndarray:
    """The cost layers, moved by cells to the right and down; what leaves the map is lost, walls have no costs."""
    right, down = (layout.raster * number for number in shift)
    height, width = layout.costs.shape[1:]
    moved = np.zeros_like(layout.costs)
    rows, columns = np.arange(height) - down, np.arange(width) - right
    here = np.ix_((rows >= 0) & (rows < height), (columns >= 0) & (columns < width))
    from_rows, from_columns = rows[(rows >= 0) & (rows < height)], columns[(columns >= 0) & (columns < width)]
    moved[:, here[0], here[1]] = layout.costs[:, from_rows[:, None], from_columns[None, :]]
    return np.where(_free(layout), moved, 0).astype(np.float32)


def _grown(layout: Layout, cells: int) -> np.ndarray:
    """The cost layers, in which every cost also holds for all places up to so many cells away, along the axes."""
    from scipy.ndimage import grey_dilation

    reach = cells * layout.raster
    across = np.abs(np.arange(-reach, reach + 1))
    disc = across[:, None] + across[None, :] <= reach
    grown = np.stack([grey_dilation(layer, footprint=disc, mode="constant") for layer in layout.costs])
    return np.where(_free(layout), grown, 0).astype(np.float32)


def _moved(layout: Layout, name: str, cells: Any) -> Layout:
    """The map with another goal or other starts, checked."""
    starts = [tuple(cell) for cell in np.asarray(layout.starts)[: layout.num_starts].tolist()]
    goal: Any = tuple(np.asarray(layout.goal).tolist())
    starts, goal = (cells, goal) if name == "starts" else (starts, cells)
    return make_layout(layout.walls, layout.costs, list(starts), goal)


def _check_hazard(hazard: HazardSetting, layout: Layout, count: int) -> None:
    height, width = np.shape(layout.walls)
    require(len(hazard.path) >= 1, "hazard.path", hazard.path, "give at least one place, [column, row]")
    for place in hazard.path:
        fine = 0 <= place[0] <= width and 0 <= place[1] <= height
        require(fine, "hazard.path", list(place), f"it is off the map of {width} columns and {height} rows")
    require(0 <= hazard.layer < count, "hazard.layer", hazard.layer, f"there are {count} costs, from 0 on")
    for name in ("radius", "cost", "laps"):
        require(getattr(hazard, name) >= 0, f"hazard.{name}", getattr(hazard, name), "give at least 0")


def _ground(layout: Layout, now: _Now, count: int) -> Ground:
    rewards = np.array([now.rewards.step, now.rewards.goal], np.float32)
    return Ground(layout, rewards, no_hazard(count) if now.hazard is None else hazard_of(now.hazard, count))


def hazard_of(setting: HazardSetting, count: int) -> Hazard:
    """The hazard as arrays: its path as `POINTS` points at equal distances along the closed line of its corners."""
    corners = np.asarray([*setting.path, setting.path[0]], np.float64)
    lengths = np.hypot(*np.diff(corners, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    places = np.arange(POINTS) * along[-1] / POINTS
    path = np.stack([np.interp(places, along, column) for column in corners.T], 1).astype(np.float32)
    cost = np.where(np.arange(count) == setting.layer, np.float32(setting.cost), np.float32(0))
    pace = np.float32(setting.laps * POINTS if setting.moves == "step" else 0.0)
    return Hazard(path, np.float32(setting.radius), cost, pace)
