"""Measurements in environments of others, from results/environments."""

from collections.abc import Callable

import numpy as np

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import Summary, summarize

MEASURED = "environments/measured.csv"
MINECART = "environments/minecart.csv"
CARTS = {
    "safedqn": "SafeDQN",
    "safedsr": "SafeDSR",
    "safedsr-plus": "SafeDSR-plus as it was then¹",
    "ppo-lag": "PPO-Lag",
    "cpo": "CPO",
}
NAMES = {**sources.NAMES, "safedqn": "SafeDQN", "safedsr-plus": "SafeDSR-plus"}
STAGES = {"trained": "", "changed": ", new cost", "adapted": ", new cost, adapted"}
Shown = Callable[[float], str]


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
def measured(environment: str) -> str:
    """Every algorithm in an environment, before and after its cost changed: IQM over seeds and its 95 % interval."""
    rows = _rows(environment)
    success = any(row["success"] for row in rows)
    large = max(abs(float(row["return"])) for row in rows) >= 10
    columns: dict[str, tuple[str, Shown]] = {"return": ("return", lambda x: formats.fixed(x, 0 if large else 2))}
    if success:
        columns["success"] = ("success", lambda x: formats.fixed(x, 2))
    columns["safe"] = ("safe goals" if success else "safe episodes", lambda x: formats.fixed(x, 2))
    columns["cost"] = ("cost", lambda x: formats.fixed(x, 2 if max(float(r["cost"]) for r in rows) < 10 else 0))
    lines = [
        [f"{NAMES[algorithm]}{words}", *(_interval(some, name, show) for name, (_, show) in columns.items())]
        for algorithm in dict.fromkeys(row["algorithm"] for row in rows)
        for stage, words in STAGES.items()
        if (some := [row for row in rows if (row["algorithm"], row["stage"]) == (algorithm, stage)])
    ]
    return formats.table(["", *(head for head, _ in columns.values())], lines)


@text
def certified(environment: str) -> str:
    """How many adapted agents of an environment pass their certificate, of how many."""
    found = [row["passed"] == "True" for row in _rows(environment) if row["stage"] == "adapted"]
    return f"{sum(found)} of {len(found)}"


@text
def levels(environment: str) -> str:
    """The levels of adaptation that were chosen, and how often."""
    found = [row["level"] for row in _rows(environment) if row["stage"] == "adapted"]
    return ", ".join(f"`{level}` {found.count(level)}" for level in ("cost", "penalty", "memory") if level in found)


@text
def real_steps(environment: str) -> str:
    """Median of the steps that an adaptation took in the environment, without its certificates."""
    return formats.count(float(np.median([int(r["steps"]) for r in _rows(environment) if r["stage"] == "adapted"])))


@text
def environment_seeds(environment: str) -> str:
    """The seeds of the measurements in an environment."""
    found = sorted({int(row["seed"]) for row in _rows(environment)})
    return f"{found[0]}–{found[-1]}" if found == list(range(found[0], found[-1] + 1)) else ", ".join(map(str, found))


def _rows(environment: str) -> list[dict[str, str]]:
    return [row for row in sources.rows(MEASURED) if row["environment"] == environment]


def _interval(rows: list[dict[str, str]], name: str, show: Shown) -> str:
    found: Summary = summarize([float(row[name]) for row in rows])
    return f"{show(found.iqm)} ({show(found.low)} … {show(found.high)})"
