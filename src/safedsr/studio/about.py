"""What a page shows of a run before JAX and its agent are loaded, and what it copies: command, Python code, map."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.envs.grid.catalog import CELL_SHAPES
from safedsr.envs.grid.config import GRID
from safedsr.envs.grid.layout import Scene
from safedsr.envs.grid.text import format_scene, parse_scene
from safedsr.runs.about import job_data
from safedsr.runs.shipped import PREFIX
from safedsr.studio.messages import View, packed
from safedsr.studio.roots import Roots
from safedsr.validation import require, typed


def greeting(roots: Roots, view: View) -> dict[str, Any]:
    """All runs to choose from, and what the page shows of the chosen one."""
    return {"runs": list(roots.runs()), "adapted": None, **about_run(roots.find(view.run), view)}


def about_run(run: Path, view: View) -> dict[str, Any]:
    """The tasks and seeds of a run to choose from, and the map or the cost parameters of the chosen task."""
    data, best = job_data(run)
    tasks = data["tasks"]
    require(0 <= view.task < len(tasks), "task", view.task, f"give a number from 0 to {len(tasks) - 1}")
    task = tasks[view.task]
    usual = best[view.task] if best else data["seeds"][0]
    found = {
        "run": str(run),
        "tasks": [", ".join([one["name"], *one["costs"]]) for one in tasks],
        "seeds": data["seeds"],
        "seed": usual if view.seed is None else view.seed,
        "algorithm": data["algorithm"],
        "trained": best is not None,
        "kind": "map" if data["environment"]["name"] == GRID else "other",
        "budgets": list(task["budgets"]),
        "names": list(task["costs"]),
        "map": task["name"],
    }
    if found["kind"] == "map":
        return {**found, **_map(parse_scene(typed(str, task["params"].get("map"), "map"), task["name"]))}
    return {**found, "args": task["params"].get("args", {}), "costs": []}


def _map(scene: Scene) -> dict[str, Any]:
    layout = scene.layout
    height, width = layout.walls.shape
    return {
        "height": height,
        "width": width,
        "raster": layout.raster,
        "walls": np.asarray(layout.walls).astype(int).ravel().tolist(),
        "starts": np.asarray(layout.starts)[: int(layout.num_starts)].tolist(),
        "goal": np.asarray(layout.goal).tolist(),
        "costs": costs_of(scene.cost_names, layout.costs),
        "shapes": list(CELL_SHAPES),
    }


def costs_of(names: Sequence[str], layers: Any) -> list[dict[str, str]]:
    """Costs as the page paints them."""
    return [{"name": name, "values": packed(layer)} for name, layer in zip(names, layers, strict=True)]


def copied(run: str, scene: Scene, view: View) -> dict[str, Any]:
    """The painted map as text, and the command and the Python code that adapt to it."""
    budgets = ",".join(f"{budget:g}" for budget in view.budgets)
    flags = [] if view.seed is None else ["--seed", str(view.seed)]
    flags += ["--task", str(view.task)] if view.task else []
    flags += ["--epsilon", f"{view.epsilon:g}"] if view.epsilon else []
    words = ["safedsr", "adapt", run, "--costs", "map.txt", "--budget", budgets, *flags, "--highest", "memory"]
    loaded = f"safedsr.pretrained({run.removeprefix(PREFIX)!r})"
    if not run.startswith(PREFIX):
        loaded = f"safedsr.load({run!r}, seed={view.seed}, task={view.task})"
    adapting = f"budget={list(view.budgets)}, epsilon={view.epsilon:g}, highest='memory'"
    return {
        "text": format_scene(scene),
        "command": shlex.join([*words, "--out", "runs/adapted"]),
        "python": f"import safedsr\n\nagent = {loaded}\nfound = agent.adapt('map.txt', {adapting})\n"
        "print(found.certificate)\nfound.agent.save('runs/adapted')\n",
    }
