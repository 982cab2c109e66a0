"""The paths of the best seed in the evaluations after each change (Figs. 8, 9, 13), as a small table."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from safedsr.agents.value_based.trainer import EVALUATE
from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_plan import Scale
from safedsr.paper.tables import BUDGET
from safedsr.runs import metrics, storage
from safedsr.runs.folder import load_run, load_trajectories
from safedsr.runs.tracks import PARTS, pack_track, restore_track

FILE = "walks"
EVALUATIONS = tuple(phase.number for phase in plan.PHASES if phase.mode == EVALUATE and phase.start >= plan.CHANGE)
NAMES = tuple(variant.name for variant in plan.VARIANTS)  # stored as their index


def write_walks(folder: Path, runs: Mapping[str, Path], scale: Scale) -> None:
    """Write the paths of every variant, rounded to 1/8 of a cell and stored as differences (small when compressed)."""
    tables = []
    for name, path in runs.items():
        run, kept = load_run(path), load_trajectories(path)
        for change in range(len(plan.CHANGES)):
            seed = metrics.best_place(run.by_seed(change), [BUDGET])
            for phase, rows in _by_phase(kept["step"], scale).items():
                track = kept["position"][rows, change, seed], kept["done"][rows, change, seed]
                code = {"variant": NAMES.index(name), "change": change, "phase": phase, "seed": run.seeds[seed]}
                packed = pack_track(*track)
                codes = {key: np.full(len(packed["end"]), value, np.int32) for key, value in code.items()}
                tables.append({**codes, **packed})
    if tables:
        storage.write_table(folder / FILE, storage.concatenate(tables), {"parts": str(PARTS)})


def _by_phase(step: np.ndarray, scale: Scale) -> dict[int, np.ndarray]:
    """Which of the steps belong to each evaluation."""
    phases = plan.phases(scale)
    ends = [phase.start for phase in phases[1:]] + [scale.of(plan.END)]
    return {
        phase.number: (step > phase.start) & (step <= end)
        for phase, end in zip(phases, ends, strict=True)
        if phase.number in EVALUATIONS
    }


def read_walks(folder: Path) -> dict[tuple[str, int, int], tuple[int, np.ndarray]]:
    """For each variant, change and phase: the seed and its positions [n, 2] in cells, with NaN between episodes."""
    found = storage.read_table(folder / FILE)
    table = found[0] if found else {"variant": np.zeros(0)}
    walks = {}
    for name in NAMES:
        for change in range(len(plan.CHANGES)):
            for phase in EVALUATIONS:
                rows = table["variant"] == NAMES.index(name)
                if rows.any():
                    rows = rows & (table["change"] == change) & (table["phase"] == phase)
                if rows.any():
                    walks[name, change, phase] = (
                        int(table["seed"][rows][0]),
                        restore_track({key: column[rows] for key, column in table.items()}),
                    )
    return walks
