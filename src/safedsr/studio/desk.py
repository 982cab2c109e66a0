"""What all tabs share: the agents of the given runs, and the adapted policies. Old ones are forgotten."""

import secrets
import shlex
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from safedsr.adapt.costs import changed_scene, experience_of, require_same_map
from safedsr.adapt.ladder import Adapted
from safedsr.agent import Agent, load
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.layout import Layout
from safedsr.envs.grid.text import format_scene, parse_scene
from safedsr.errors import UserError
from safedsr.runs.shipped import PREFIX
from safedsr.studio.messages import Painted, View, packed
from safedsr.studio.picture import painted_task

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
    """The agents that the studio shows. Only the runs that were given can be opened, by their numbers."""

    def __init__(self, runs: Sequence[Path], out: Path) -> None:
        self.runs, self.out = tuple(runs), out
        self._lock = threading.Lock()
        self._agents: Shelf[Agent] = Shelf(AGENTS)
        self._adapted: Shelf[tuple[Agent, Adapted[Agent], View]] = Shelf(ADAPTED)

    def trained(self, view: View) -> Agent:
        """The trained agent of a view."""
        if not 0 <= view.run < len(self.runs):
            raise UserError(f"run is {view.run}; the studio was started with {len(self.runs)} runs, counted from 0")
        key = view.run, view.seed, view.task
        with self._lock:
            if key in self._agents:
                return self._agents.keep(key, self._agents[key])
            agent = load(self.runs[view.run], view.seed, view.task)
            if not isinstance(agent.task.params, Layout):
                raise UserError(f"{self.runs[view.run]} is no run on a map; the studio shows maps of the grid only")
            return self._agents.keep(key, agent)

    def first(self) -> View:
        """The view that the page begins with, with one costly cell more: drawing it compiles what painting needs."""
        agent = self.trained(View())
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

    def about(self, view: View) -> dict[str, Any]:
        """The runs to choose from, and the map of the chosen one."""
        agent = self.trained(view)
        layout, job = scene_of(agent.task).layout, agent.job
        height, width = layout.walls.shape
        return {
            "runs": [str(run) for run in self.runs],
            "tasks": [task.title for task in job.tasks],
            "seeds": list(job.seeds),
            "seed": agent.seed,
            "algorithm": job.algorithm,
            "map": agent.task.name,
            "height": height,
            "width": width,
            "raster": layout.raster,
            "walls": np.asarray(layout.walls).astype(int).ravel().tolist(),
            "starts": np.asarray(layout.starts)[: int(layout.num_starts)].tolist(),
            "goal": np.asarray(layout.goal).tolist(),
            "costs": costs_of(agent.task.cost_names, layout.costs),
            "budgets": list(agent.task.budgets),
            "adaptable": why_not(agent),
            "adapted": self._certified(view.policy),
        }

    def _certified(self, name: str | None) -> dict[str, Any] | None:
        """The certificate of an adapted policy and what it is about, for a page that was loaded again."""
        with self._lock:
            if name not in self._adapted:
                return None
            _, found, view = self._adapted[name]
        costs = [{"name": cost.name, "values": cost.values} for cost in view.costs]
        subject = [costs, list(view.budgets), view.epsilon, None]
        return {**found.to_dict(), "names": [cost.name for cost in view.costs], "subject": subject}

    def text(self, view: View) -> dict[str, Any]:
        """The painted map as text, and the command and the Python code that adapt to it."""
        agent = self.trained(view)
        task = painted_task(agent, view)
        run, budgets = str(self.runs[view.run]), ",".join(f"{budget:g}" for budget in view.budgets)
        flags = [] if view.seed is None else ["--seed", str(view.seed)]
        flags += ["--task", str(view.task)] if view.task else []
        flags += ["--epsilon", f"{view.epsilon:g}"] if view.epsilon else []
        words = ["safedsr", "adapt", run, "--costs", "map.txt", "--budget", budgets, *flags, "--highest", "memory"]
        loaded = f"safedsr.pretrained({run.removeprefix(PREFIX)!r})"
        if not run.startswith(PREFIX):
            loaded = f"safedsr.load({run!r}, seed={view.seed}, task={view.task})"
        adapting = f"budget={list(view.budgets)}, epsilon={view.epsilon:g}, highest='memory'"
        return {
            "text": format_scene(scene_of(task)),
            "command": shlex.join([*words, "--out", "runs/adapted"]),
            "python": f"import safedsr\n\nagent = {loaded}\nfound = agent.adapt('map.txt', {adapting})\n"
            "print(found.certificate)\nfound.agent.save('runs/adapted')\n",
        }

    def parsed(self, text: str, view: View) -> dict[str, Any]:
        """The costs of a map that was given as text; its walls and its goal have to be those of the agent's map."""
        agent = self.trained(view)
        mine = scene_of(agent.task)
        found = changed_scene(mine, parse_scene(text))
        if found.layout.raster != mine.layout.raster:
            raise UserError(
                f"this map has {found.layout.raster} × {found.layout.raster} cost values in a cell, the map of the "
                f"agent has {mine.layout.raster} × {mine.layout.raster}; give as many"
            )
        return {"costs": costs_of(found.cost_names, found.layout.costs)}

    def save(self, view: View, name: str) -> Path:
        """Save the adapted policy of a view as a folder that all commands read."""
        from safedsr.figures.adapted import save_adapted

        agent, found, wanted = self.adapted(view.policy)
        folder = self.out / name
        if folder.exists():
            raise UserError(f"{folder} exists already; choose another name")
        save_adapted(found, agent, self.runs[wanted.run].name, folder)
        return folder


def costs_of(names: Sequence[str], layers: Any) -> list[dict[str, str]]:
    """Costs as the page paints them."""
    return [{"name": name, "values": packed(layer)} for name, layer in zip(names, layers, strict=True)]


def why_not(agent: Agent) -> str | None:
    """Why an agent cannot adapt to new costs, or None if it can."""
    try:
        experience_of(agent)
    except UserError as error:
        return str(error)
    return None
