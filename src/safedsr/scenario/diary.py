"""What a contestant did: its finished episodes, and what each phase took. It is saved with the training state."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.runs import storage
from safedsr.runs.arrays import from_arrays, to_arrays
from safedsr.runs.metrics import Episodes
from safedsr.runs.storage import Columns
from safedsr.types import PyTree, Record

SPENT = ("seconds", "updates", "simulated_steps", "memory_steps", "relabelled")
STATE = "state/"


class Diary:
    """The episodes of each seed, and for each phase and seed what the change took and the updates in each step.

    `seconds`, `updates`, `simulated_steps` (in a simulator), `memory_steps` (of walks through the replay memory) and
    `relabelled` (stored steps with new labels) are what a seed spent on changes, beside its steps in the environment.
    """

    def __init__(self, seeds: tuple[int, ...], phases: int, num_costs: int) -> None:
        self.seeds = seeds
        self.num_costs = num_costs
        self.step = 0
        self.spent = {name: np.zeros((phases, len(seeds))) for name in SPENT}
        self.rate = np.zeros((phases, len(seeds)))  # updates in each environment step
        self.paces: list[list[float]] = [[] for _ in range(phases)]  # seconds of a step, of all seeds together
        self.notes: list[dict[str, Any]] = []  # levels of adaptation, alarms
        self._episodes: list[Columns] = []

    def spend(self, phase: int, seed: int, **amounts: float) -> None:
        """Add what the seed with this index spent."""
        for name, amount in amounts.items():
            self.spent[name][phase, seed] += amount

    def add(self, records: Record, chosen: Any = None) -> None:
        """Add the episodes that ended in the steps [1, S, n] after `self.step`; `chosen` [S] are the seeds to take."""
        done = np.array(records.done)[0]
        if chosen is not None:
            done &= np.asarray(chosen)[:, None]
        seed, when = np.nonzero(done)
        self._episodes.append(
            {
                "seed": np.asarray(self.seeds, np.int64)[seed],
                "end_step": self.step + 1 + when.astype(np.int64),
                "length": np.asarray(records.length)[0][done],
                "return": np.asarray(records.ret)[0][done],
                "cost": np.asarray(records.cost)[0][done].reshape(len(seed), self.num_costs),
                "success": np.asarray(records.success)[0][done],
            }
        )

    def add_episodes(self, seed: int, episodes: Episodes) -> None:
        """Add finished episodes of one seed."""
        names = {"ret": "return"}
        rows = {names.get(name, name): np.asarray(column) for name, column in episodes._asdict().items()}
        self._episodes.append({"seed": np.full(len(episodes.end_step), seed, np.int64), **rows})

    def episodes(self, seed: int) -> Episodes:
        """The episodes of a seed, in the order of time."""
        table = storage.concatenate(self._episodes)
        if not table:
            none = np.zeros(0)
            return Episodes(none.astype(np.int64), none, none, np.zeros((0, self.num_costs)), none.astype(bool))
        rows = np.flatnonzero(table["seed"] == seed)
        rows = rows[np.argsort(table["end_step"][rows], kind="stable")]
        return Episodes(*(table[name][rows] for name in ("end_step", "length", "return", "cost", "success")))

    def save(self, path: Path, state: PyTree) -> None:
        """Save this diary and a training state in one file."""
        storage.make_folder(path.parent)
        arrays = {f"{STATE}{name}": array for name, array in to_arrays(state).items()}
        table = storage.concatenate(self._episodes)
        arrays |= {f"episodes/{name}": column for name, column in table.items()}
        arrays |= {f"spent/{name}": array for name, array in self.spent.items()} | {"rate": self.rate}
        about = {"step": self.step, "seeds": list(self.seeds), "paces": self.paces, "notes": self.notes}
        storage.write_tensors(path, arrays, {"diary": json.dumps(about)})

    def load(self, path: Path, shape: PyTree) -> PyTree:
        """Read what `save` wrote into this diary; returns the training state, which has this shape."""
        arrays, about = storage.read_tensors(path)
        found = json.loads(about["diary"])
        self.step, self.paces, self.notes = found["step"], found["paces"], found["notes"]
        self.rate = arrays.pop("rate")
        self.spent = {name: arrays.pop(f"spent/{name}") for name in SPENT}
        table = {name.partition("/")[2]: x for name, x in arrays.items() if name.startswith("episodes/")}
        self._episodes = [table] if table else []
        own = {name.removeprefix(STATE): x for name, x in arrays.items() if name.startswith(STATE)}
        return from_arrays(shape, own, str(path))
