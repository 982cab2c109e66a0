"""What all tabs share: the agents of the runs, and the adapted policies. Old ones are forgotten."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from safedsr.adapt.costs import changed_scene, require_same_map
from safedsr.adapt.ladder import Adapted
from safedsr.agent import Agent, load
from safedsr.envs.environment import Environment
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.layout import finer
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError
from safedsr.runs.about import ABOUT
from safedsr.runs.shipped import folder_of
from safedsr.studio.about import costs_of
from safedsr.studio.messages import Painted, View
from safedsr.studio.roots import Roots

AGENTS, ADAPTED = 8, 16  # kept in memory
T = TypeVar("T")


class Shelf(OrderedDict[Any, T]):
    """Keeps the things that were used last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: Any, thing: T) -> T:
        """Keep a thing, and forget the one that was not used for longest if there are too many."""
        self[key] = thing
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)
        return thing


class Desk:
    """The agents that the studio shows. `environment` gives that of a run, or None if the run holds it itself."""

    def __init__(
        self, roots: Roots, out: Path, environment: Callable[[Path], Environment | None] = lambda run: None
    ) -> None:
        self.roots, self.out, self._environment = roots, out, environment
        self._lock = threading.Lock()
        self._agents: Shelf[Agent] = Shelf(AGENTS)
        self._adapted: Shelf[tuple[Agent, Adapted[Agent], View]] = Shelf(ADAPTED)

    def trained(self, view: View) -> Agent:
        """The trained agent of a view; it is loaded again if the run was trained further."""
        run = self.roots.find(view.run)
        file = folder_of(run) / ABOUT
        with self._lock:
            if not file.is_file():
                raise UserError(f"{run} holds no policy yet: its training has not finished")
            key = str(run), view.seed, view.task, file.stat().st_mtime_ns
            if key in self._agents:
                return self._agents.keep(key, self._agents[key])
            return self._agents.keep(key, load(run, view.seed, view.task, self._environment(run)))

    def first(self) -> View | None:
        """The view that the page begins with, with one costly cell more: drawing it compiles what painting needs."""
        agent = self.trained(View())
        if not hasattr(agent.task.params, "walls"):
            return None
        layout = agent.task.params
        layers, (column, row) = np.array(layout.costs), layout.raster * layout.starts[0]
        layers[:, row, column] += 1
        painted = tuple(Painted(**cost) for cost in costs_of(agent.task.cost_names, layers))
        return View(costs=painted, budgets=agent.task.budgets)

    def shown(self, view: View) -> Agent:
        """The agent of a view: an adapted one, or the trained one."""
        return self.adapted(view.policy)[1].agent if view.policy else self.trained(view)

    def beside(self, view: View, trained: Agent) -> Agent:
        """The agent to compare with; it has to know the same map."""
        if view.against is None:
            return trained
        other = self.trained(View(run=view.against))
        if not hasattr(other.task.params, "walls"):
            raise UserError(f"{view.against} was not trained on a map; compare runs of the same map")
        require_same_map(other.task.params, scene_of(trained.task))
        return other

    def adapted(self, name: str | None) -> tuple[Agent, Adapted[Agent], View]:
        """The agent before its adaptation, the result, and the view it was adapted to."""
        with self._lock:
            if name not in self._adapted:
                raise UserError("the adapted policy is no longer on the server; adapt again")
            return self._adapted.keep(name, self._adapted[name])

    def keep(self, agent: Agent, found: Adapted[Agent], view: View) -> str:
        """Keep an adapted policy; its name is for the page."""
        name = secrets.token_hex(8)
        with self._lock:
            self._adapted.keep(name, (agent, found, view))
        return name

    def certified(self, name: str | None) -> dict[str, Any] | None:
        """The certificate of an adapted policy and what it is about, for a page that was loaded again."""
        with self._lock:
            if name not in self._adapted:
                return None
            _, found, view = self._adapted[name]
        costs = [{"name": cost.name, "values": cost.values} for cost in view.costs]
        subject = [costs, list(view.budgets), view.epsilon, None]
        return {**found.to_dict(), "names": list(found.agent.task.cost_names), "subject": subject}

    def parsed(self, text: str, view: View) -> dict[str, Any]:
        """The costs of a map that was given as text; its walls and its goal have to be those of the agent's map."""
        return self._drawn(parse_scene(text), view)

    def shape(self, name: str, view: View) -> dict[str, Any]:
        """A cost shape of the catalog on the map of a view."""
        return self._drawn(name, view)

    def _drawn(self, costs: Any, view: View) -> dict[str, Any]:
        mine = scene_of(self.trained(view).task)
        found = changed_scene(mine, costs)
        times, rest = divmod(mine.layout.raster, found.layout.raster)
        if rest:
            raise UserError(
                f"these costs have {found.layout.raster} × {found.layout.raster} values in a cell, the map of the "
                f"agent has {mine.layout.raster} × {mine.layout.raster}; give as many"
            )
        return {"costs": costs_of(found.cost_names, finer(np.asarray(found.layout.costs), times))}

    def save(self, view: View, name: str) -> Path:
        """Save the adapted policy of a view as a folder that all commands read, and that the page can open."""
        from safedsr.figures.adapted import save_adapted

        agent, found, wanted = self.adapted(view.policy)
        folder = self.out / name
        if folder.exists():
            raise UserError(f"{folder} exists already; choose another name")
        save_adapted(found, agent, self.roots.find(wanted.run).name, folder)
        self.roots.saved.append(folder)
        return folder
