"""Other environments, precisions on a GPU and the agents that come with the package."""

from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import iqm
from safedsr.runs.shipped import FILES, FOLDER
from safedsr.runs.storage import read_json

MINECART = "environments/minecart.csv"
CARTS = {
    "safedqn": "SafeDQN",
    "safedsr": "SafeDSR",
    "safedsr-plus": "SafeDSR-plus as it was then¹",
    "ppo-lag": "PPO-Lag",
    "cpo": "CPO",
}
# Goals without costs, and safe goals with them.
COUNTED = [(layout, costs) for costs in ("none", "diamond") for layout in sources.ROOMS]
PRECISIONS = {
    "float32, now": ("timed", "safedsr", "safedsr-cut"),
    "three TF32 products": ("timed", "safedsr-x3", "safedsr-cut"),
    "TF32": ("timed", "safedsr-tf32", "safedsr-cut"),
    "absorbing goal, three TF32 products": ("precision", "tensorfloat32x3", "safedsr-absorb"),
    "absorbing goal, TF32": ("precision", "tensorfloat32", "safedsr-absorb"),
}


def _carts(algorithm: str, budget: str) -> list[tuple[float, float]]:
    """Discounted ore 1 and fuel of every seed."""
    here = [row for row in sources.rows(MINECART) if (row["algorithm"], row["budget"]) == (algorithm, budget)]
    return [(float(row["discounted_ore_1"]), float(row["discounted_fuel"])) for row in here]


@text
def minecart() -> str:
    """Policies within the budget, of ten; the most ore of these; the mean ore of all ten."""
    budgets = list(dict.fromkeys(row["budget"] for row in sources.rows(MINECART)))
    lines = [[name, *(_cart_cell(algorithm, budget) for budget in budgets)] for algorithm, name in CARTS.items()]
    front = {row["budget"]: float(row["discounted_ore_1"]) for row in sources.rows("environments/minecart-front.csv")}
    lines.append(["best single policy known", *(_ore(front[budget]) for budget in budgets)])
    return formats.table(["fuel at most", *budgets], lines)


def _cart_cell(algorithm: str, budget: str) -> str:
    carts = _carts(algorithm, budget)
    within = [ore for ore, fuel in carts if fuel <= float(budget)]
    best = _ore(max(within)) if within else formats.UNKNOWN
    return f"{len(within)}; {best}; {_ore(float(np.mean([ore for ore, _ in carts])))}"


def _ore(value: float) -> str:
    return "0" if value == 0 else formats.fixed(value, 3)


@text
def minecart_with_ore(algorithm: str) -> str:
    """How many policies of all budgets bring ore home, of how many."""
    ores = [float(row["discounted_ore_1"]) for row in sources.rows(MINECART) if row["algorithm"] == algorithm]
    return f"{sum(ore > 0 for ore in ores)} of {len(ores)}"


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
