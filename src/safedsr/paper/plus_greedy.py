"""The agents of the experiment 'plus' without random actions: as they were trained, and adapted to ε = 0."""

from pathlib import Path

import numpy as np

from safedsr.agent import load_all
from safedsr.engine.evaluate import evaluate
from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.paper.adaptation_tables import TextTable
from safedsr.paper.experiments import WHOLE
from safedsr.runs import storage
from safedsr.runs.labels import fixed
from safedsr.runs.metrics import iqm

FILE, COSTS, EPISODES = "greedy.json", ("diamond",), 1_000
SEED = 1  # of the episodes that count; those of a search have 0
ROWS = {"trained": "as trained", "adapted": "adapted to ε = 0"}
# A published file may also have the agents of one map that were trained again to be adapted.
WORDS = {"trained": ROWS["trained"], "trained-again": "trained again, on processors", "adapted": ROWS["adapted"]}
HIGHEST, REQUIRE = "memory", 0.97  # the levels of the adaptation, and its certificate

Rates = dict[str, dict[str, list[float]]]  # of each agent, by row and map


def finish(out: Path) -> list[TextTable]:
    """A table of the safe goal rates at ε = 0; none if they are neither stored nor can be measured in `out`."""
    path, run = out / FILE, out / WHOLE
    rates: Rates = storage.read_json(path) if path.exists() else {}
    if not set(ROWS) <= set(rates) and (run / "policy.json").is_file():
        rates = measure(run)
        storage.write_json(path, rates)
    return [greedy_table(rates)] if rates and set(rates) <= set(WORDS) else []


def measure(run: Path, episodes: int = EPISODES) -> Rates:
    """The safe goal rates of the agents that were trained with the diamond."""
    found: Rates = {row: {} for row in ROWS}
    for agent in load_all(run).values():
        if agent.task.cost_names == COSTS:
            own = agent.task.budgets
            adapted = agent.adapt(budget=own, epsilon=0.0, require=REQUIRE, highest=HIGHEST).agent
            for row, one in zip(ROWS, (agent, adapted), strict=True):
                rate = evaluate(one, one.task, episodes, 0.0, SEED).safe_goal_rate.value
                found[row].setdefault(agent.task.name, []).append(rate)
    return found


def greedy_table(rates: Rates) -> TextTable:
    """IQM and worst seed on each map."""
    lines = [
        (WORDS[row], name, str(len(ones)), fixed(float(iqm(np.array(ones))), 3), fixed(min(ones), 3))
        for row in WORDS
        for name in ROOM_NAMES
        if (ones := rates.get(row, {}).get(name))
    ]
    note = (
        f"Safe goal rate in {EPISODES} episodes of each agent at ε = 0: IQM over seeds, and the worst seed. Adapted: "
        f"the levels up to '{HIGHEST}', until a certificate of {REQUIRE} passes at ε = 0, in simulated episodes."
    )
    columns = ("agents", "map", "seeds", "rate", "worst seed")
    return TextTable("SafeDSR-plus without random actions, diamond", columns, lines, note)
