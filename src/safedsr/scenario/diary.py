"""What a contestant did: its finished episodes, and what each phase took. It is saved with the training state."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.arrays import from_arrays, to_arrays
from safedsr.runs.metrics import Episodes
from safedsr.runs.storage import Columns
from safedsr.types import PyTree, Record

SPENT = ("seconds", "updates", "simulated_steps", "memory_steps", "relabelled")
STATE, EPISODES, OWN, RATE = "state/", "episodes/", "own/", "rate"


class Diary:
    """The episodes of each seed, what it spent and when, and the updates in each step of each phase.

    `seconds` (without compilation), `updates`, `simulated_steps` (in a simulator), `memory_steps` (of walks through the
    replay memory) and `relabelled` (stored steps with new labels) are what a seed spent on changes, beside its steps in
    the environment.
    """

    def __init__(self, seeds: Sequence[int], phases: int, num_costs: int) -> None:
        self.seeds = tuple(seeds)
        self.num_costs = num_costs
        self.step = 0
        self.rate = np.zeros((phases, len(self.seeds)))  # updates in each environment step
        self.paces: list[list[float]] = [[] for _ in range(phases)]  # seconds of a step, of all seeds together
        self.notes: list[dict[str, Any]] = []  # levels of adaptation, alarms
        self.own: list[dict[str, np.ndarray]] = [{} for _ in self.seeds]  # what else a seed has to know to go on
        self._spent: list[dict[str, float]] = []
        self._episodes: list[Columns] = []

    def spend(self, phase: int, index: int, *, step: int | None = None, **amounts: float) -> None:
        """Add what the seed with this index spent at a step; now, if not given."""
        when = {"seed": self.seeds[index], "phase": phase, "step": self.step if step is None else step}
        self._spent.append({**when, **amounts})

    def spent(self, phase: int, index: int, until: float = np.inf) -> dict[str, float]:
        """What the seed with this index spent in a phase, up to a step."""
        here = [
            one
            for one in self._spent
            if (one["seed"], one["phase"]) == (self.seeds[index], phase) and one["step"] <= until
        ]
        return {name: float(sum(one.get(name, 0.0) for one in here)) for name in SPENT}

    def add(self, records: Record) -> None:
        """Add the episodes that ended in the steps [1, S, n] after `self.step`."""
        done = np.array(records.done)[0]
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
        table = self._of(seed)
        if not table:
            none = np.zeros(0)
            return Episodes(none.astype(np.int64), none, none, np.zeros((0, self.num_costs)), none.astype(bool))
        return Episodes(*(table[name] for name in ("end_step", "length", "return", "cost", "success")))

    def _of(self, seed: int) -> Columns:
        table = storage.concatenate(self._episodes)
        if not table:
            return {}
        rows = np.flatnonzero(table["seed"] == seed)
        rows = rows[np.argsort(table["end_step"][rows], kind="stable")]
        return {name: column[rows] for name, column in table.items()}

    def save(self, folder: Path, state: PyTree, stamp: str = "") -> None:
        """Save a file for each seed, with its part of this diary and of the training state [1, S]."""
        storage.make_folder(folder)
        arrays = to_arrays(state)
        for index, seed in enumerate(self.seeds):
            own = {f"{STATE}{name}": array[:, index : index + 1] for name, array in arrays.items()}
            own |= {f"{EPISODES}{name}": column for name, column in self._of(seed).items()}
            own |= {f"{OWN}{name}": array for name, array in self.own[index].items()} | {RATE: self.rate[:, index]}
            about = {
                "step": self.step,
                "paces": self.paces,
                "notes": [note for note in self.notes if note["seed"] == seed],
                "spent": [one for one in self._spent if one["seed"] == seed],
            }
            storage.write_tensors(state_file(folder, seed), own, {"diary": json.dumps(about), "stamp": stamp})

    def load(self, folder: Path, shape: PyTree) -> PyTree:
        """Read the files of all seeds, which are at the same step; returns the training state, which has this shape."""
        parts = []
        self._episodes, self.notes, self._spent = [], [], []
        for index, seed in enumerate(self.seeds):
            arrays, about = storage.read_tensors(state_file(folder, seed))
            found = json.loads(about["diary"])
            self.step, self.paces = found["step"], found["paces"]
            self.notes += found["notes"]
            self._spent += found["spent"]
            self.rate[:, index] = arrays.pop(RATE)
            self.own[index] = _under(OWN, arrays)
            if table := _under(EPISODES, arrays):
                self._episodes.append(table)
            parts.append(_under(STATE, arrays))
        whole = {name: np.concatenate([part[name] for part in parts], 1) for name in parts[0]}
        return from_arrays(shape, whole, str(folder))


def _under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def state_file(folder: Path, seed: int) -> Path:
    """The saved state of a seed."""
    return folder / f"{seed}.safetensors"


def saved_step(folder: Path, seed: int, stamp: str) -> int:
    """The step of the saved state of a seed; -1 if there is none, if it is damaged or has another stamp."""
    try:
        about = storage.read_tensors(state_file(folder, seed))[1]
    except UserError:
        return -1
    return json.loads(about["diary"])["step"] if about["stamp"] == stamp else -1
