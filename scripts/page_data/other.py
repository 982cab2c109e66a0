"""Precisions on a GPU and the agents that come with the package."""

from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import iqm
from safedsr.runs.shipped import FILES, FOLDER
from safedsr.runs.storage import read_json

# Goals without costs, and safe goals with them.
COUNTED = [(layout, costs) for costs in ("none", "diamond") for layout in sources.ROOMS]
PRECISIONS = {
    "float32, now": ("timed", "safedsr", "safedsr-cut"),
    "three TF32 products": ("timed", "safedsr-x3", "safedsr-cut"),
    "TF32": ("timed", "safedsr-tf32", "safedsr-cut"),
    "absorbing goal, three TF32 products": ("precision", "tensorfloat32x3", "safedsr-absorb"),
    "absorbing goal, TF32": ("precision", "tensorfloat32", "safedsr-absorb"),
}


@text
def precisions() -> str:
    """IQM of every precision, with the p of a Mann-Whitney test against the accepted float32 runs."""
    lines, accepted = [], ""
    for name, (among, folder, then) in PRECISIONS.items():
        if then != accepted:
            label = "absorbing goal, accepted" if "absorb" in then else "accepted"
            lines.append([label, *(formats.count(float(iqm(_counted(then, *one)))) for one in COUNTED)])
            accepted = then
        lines.append([name, *(_precision_cell(_counted(folder, *one, among), _counted(then, *one)) for one in COUNTED)])
    heads = [
        f"{name}{', safe' * (costs == 'diamond')}" for costs in ("none", "diamond") for name in sources.ROOMS.values()
    ]
    return formats.table(["", *heads], lines)


def _counted(folder: str, layout: str, costs: str, among: str = "baselines") -> np.ndarray:
    return sources.result(folder, layout, costs, among).counts["safe goal count"]


def _precision_cell(now: np.ndarray, then: np.ndarray) -> str:
    return f"{formats.count(float(iqm(now)))} ({formats.fixed(mannwhitneyu(now, then).pvalue, 2)})"


@text
def pretrained() -> str:
    """The agents that come with the package, from their cards."""
    lines = [_card_line(folder) for folder in sorted(FOLDER.iterdir()) if folder.is_dir()]
    head = ["name", "trained with", "size", "safe goal rate, ε = 0, 10 000 episodes", "steps to the goal"]
    return formats.table(head, lines)


def _card_line(folder: Path) -> list[str]:
    card = read_json(folder / "card.json")
    given, found = card["settings"], card["evaluation"]
    safe, size = found["safe_goal_rate"], sum((folder / file).stat().st_size for file in FILES)
    words = f"budget {given['budget']}", f"{formats.count(given['steps'])} steps", f"seed {given['seed']}"
    rate, low, high = (formats.fixed(safe[name], 3) for name in ("value", "low", "high"))
    return [
        f"`{folder.name}`",
        ", ".join([f"`{given['algorithm']}`", given["costs"], *words]),
        f"{formats.fixed(size / 1e6, 1)} MB",
        f"{rate} ({low} … {high})",
        formats.fixed(found["length"]["value"], 1),
    ]
