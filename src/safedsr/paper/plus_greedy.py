"""The agents of the experiment 'plus' without random actions."""

from pathlib import Path

import numpy as np

from safedsr.agent import load_all
from safedsr.engine.evaluate import evaluate
from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.paper.adaptation_tables import TextTable
from safedsr.paper.experiments import WHOLE
from safedsr.runs import storage
from safedsr.runs.metrics import iqm

FILE, COSTS, EPISODES = "greedy.json", ("diamond",), 1_000


def finish(out: Path) -> list[TextTable]:
    """A table of the safe goal rates at ε = 0; none if they are neither stored nor can be measured in `out`."""
    path, run = out / FILE, out / WHOLE
    if not path.exists():
        if not (run / "policy.json").is_file():
            return []
        storage.write_json(path, measure(run))
    return [greedy_table(storage.read_json(path))]


def measure(run: Path, episodes: int = EPISODES) -> dict[str, list[float]]:
    """The safe goal rate of each agent that was trained with the diamond, by map."""
    found: dict[str, list[float]] = {}
    for agent in load_all(run).values():
        if agent.task.cost_names == COSTS:
            rate = evaluate(agent, agent.task, episodes, epsilon=0.0).safe_goal_rate.value
            found.setdefault(agent.task.name, []).append(rate)
    return found


def greedy_table(rates: dict[str, list[float]]) -> TextTable:
    """IQM and worst seed on each map."""
    lines = [
        (name, str(len(rates[name])), f"{iqm(np.array(rates[name])):.3f}", f"{min(rates[name]):.3f}")
        for name in ROOM_NAMES
        if name in rates
    ]
    note = f"Safe goal rate in {EPISODES} episodes of each agent at ε = 0: IQM over seeds, and the worst seed."
    return TextTable(
        "SafeDSR-plus without random actions, diamond", ("map", "agents", "rate", "worst seed"), lines, note
    )
