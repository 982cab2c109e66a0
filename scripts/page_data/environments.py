"""Measurements in environments of others, from results/environments."""

from collections.abc import Callable

import numpy as np

from page_data import formats, sources
from page_data.registry import text
from safedsr.runs.metrics import Summary, summarize

MEASURED = "environments/measured.csv"
MINECART = "environments/minecart.csv"
CHANGES = "environments/minecart-changes.csv"
NAMES = sources.ALL_NAMES
AGENTS = ("safedsr-plus", "safedqn", "safedsr", "ppo-lag", "cpo")
STAGES = {
    "trained": "",
    "changed": ", new cost",
    "adapted": ", new cost, adapted",
    "remembered": ", new cost, adapted from memory",
    "continued": ", new cost, trained further",
}
ROUNDED = 5e-5  # half of the last digit of the fuel in the tables
Shown = Callable[[float], str]


def _carts(algorithm: str, budget: str) -> list[tuple[float, float]]:
    """Discounted ore 1 and fuel of every seed."""
    here = [row for row in sources.rows(MINECART) if (row["algorithm"], row["budget"]) == (algorithm, budget)]
    return [(float(row["discounted_ore_1"]), float(row["discounted_fuel"])) for row in here]


@text
def minecart() -> str:
    """Policies within the budget, of ten; the median ore of these; the most ore of these."""
    budgets = list(dict.fromkeys(row["budget"] for row in sources.rows(MINECART)))
    lines = [[NAMES[name], *(_cart_cell(_carts(name, b), float(b)) for b in budgets)] for name in AGENTS]
    front = {row["budget"]: float(row["discounted_ore_1"]) for row in sources.rows("environments/minecart-front.csv")}
    lines.append(["best single policy known", *(_ore(front[budget]) for budget in budgets)])
    return formats.table(["fuel at most", *budgets], lines)


@text
def lander_tried() -> str:
    """Runs of LunarLander in which settings were chosen: the share of the last 50 000 steps' episodes that landed."""
    words = {
        "none": "nothing",
        "beta_m=0": "no visits in the loss (`beta_m=0`)",
        "inputs between -1 and 1": "inputs between −1 and 1",
        "units of Q divided by 30": "Q in units 30 times smaller, λ and losses to match (not kept)",
        "the line above, inputs between -2 and 2": "the line above, and inputs between −2 and 2 (not kept)",
        "the line above the last one, inputs between -1 and 1": "the line above the last one, and inputs between −1 "
        "and 1: **the settings of today**",
    }
    lines = []
    for row in sources.rows("environments/lunar-lander-tried.csv"):
        share = formats.fixed(int(row["landed"]) / int(row["episodes"]), 2)
        changed = words.get(row["changed"], f"`{row['changed']}`")
        lines.append([NAMES[row["algorithm"]], changed, row["seed"], formats.count(int(row["steps"])), share])
    return formats.table(["", "what was changed", "seed", "steps", "landed"], lines)


@text
def minecart_changes() -> str:
    """Agents with a λ from memory for their own budget, and those of fuel ≤ 0.85 for other budgets and prices."""
    groups: dict[tuple[float, ...], list[dict[str, str]]] = {}
    for row in sources.rows(CHANGES):
        key = (row["price"] != "1.0" or row["trained_budget"] != row["budget"], row["trained_budget"])
        groups.setdefault((*map(float, key), float(row["price"]), float(row["budget"])), []).append(row)
    kinds = {"False": "ore 1", "True": "ore 1, one of two λ for each episode"}
    kinds = {kind: title for kind, title in kinds.items() if any(r["mixture"] == kind for r in sources.rows(CHANGES))}
    lines = []
    for (_, trained, price, budget), rows in sorted(groups.items()):
        seconds = formats.fixed(float(np.median([float(row["seconds"]) for row in rows])), 0)
        numbers = (formats.fixed(trained, 2), formats.fixed(price, 1), formats.fixed(budget, 2))
        cells = []
        for kind in kinds:
            some = [row for row in rows if row["mixture"] == kind]
            carts = [(float(row["discounted_ore_1"]), float(row["discounted_fuel"])) for row in some]
            cells.append(_cart_cell(carts, budget) if carts else "")
        lines.append([*numbers, *cells, _ore(float(rows[0]["best_known"])), seconds])
    head = ["trained for", "price of fuel", "budget", *kinds.values(), "best single policy known", "seconds"]
    return formats.table(head, lines)


@text
def minecart_changes_seeds() -> str:
    """The number of seeds of the adaptations in minecart."""
    return str(len({row["seed"] for row in sources.rows(CHANGES)}))


@text
def minecart_above(passed: str) -> str:
    """Of the policies whose certificate from memory passes ("True") or fails, those above their budget, of how many."""
    rows = [row for row in sources.rows(CHANGES) if row["passed"] == passed]
    above = [row for row in rows if float(row["discounted_fuel"]) > float(row["budget"]) + ROUNDED]
    return f"{len(above)} of {len(rows)}"


@text
def minecart_reached(algorithm: str) -> str:
    """Policies within the budget with 95 % of the best known single policy's ore: of all seeds, for each budget."""
    found = []
    for row in sources.rows("environments/minecart-front.csv"):
        enough, budget = 0.95 * float(row["discounted_ore_1"]), float(row["budget"])
        carts = _carts(algorithm, row["budget"])
        found.append(sum(ore >= enough and fuel <= budget + ROUNDED for ore, fuel in carts))
    return ", ".join(map(str, found[:-1])) + f" and {found[-1]}"


@text
def minecart_foreseen(kind: str) -> str:
    """Foreseen fuel of walks through memory minus the true one, over all adapted policies; KIND is mean or largest."""
    rows = sources.rows(CHANGES)
    gaps = np.array([float(row["foreseen_fuel"]) - float(row["discounted_fuel"]) for row in rows])
    return formats.fixed(float(gaps.mean() if kind == "mean" else np.abs(gaps).max()), 3)


def _cart_cell(carts: list[tuple[float, float]], budget: float) -> str:
    within = [ore for ore, fuel in carts if fuel <= budget + ROUNDED]
    middle, best = (_ore(float(f(within))) if within else formats.UNKNOWN for f in (np.median, np.max))
    return f"{len(within)}; {middle}; {best}"


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
    lines = []
    for algorithm in AGENTS:
        for stage, words in STAGES.items():
            some = [row for row in rows if (row["algorithm"], row["stage"]) == (algorithm, stage)]
            if some:
                numbers = [_interval(some, name, show) for name, (_, show) in columns.items()]
                more = (_certified(some), _steps(some), _seconds(some))
                lines.append([f"{NAMES[algorithm]}{words}", str(len(some)), *numbers, *more])
    heads = (head for head, _ in columns.values())
    return formats.table(["", "seeds", *heads, "certified", "steps", "seconds"], lines)


def _certified(rows: list[dict[str, str]]) -> str:
    """How many pass their certificate, of how many."""
    found = [row["passed"] == "True" for row in rows if row["passed"]]
    return f"{sum(found)} of {len(found)}" if found else ""


@text
def certified(environments: str, stage: str) -> str:
    """How many agents of SafeDSR-plus pass their certificate in some environments, of how many."""
    return _certified(_plus(environments, stage))


@text
def safe_of_uncertified(environments: str, stage: str) -> str:
    """The smallest and the largest share of safe episodes of the agents that do not pass, in percent."""
    shares = [100 * float(row["safe"]) for row in _plus(environments, stage) if row["passed"] == "False"]
    return f"{formats.fixed(min(shares), 0)} to {formats.fixed(max(shares), 0)} %"


def _plus(environments: str, stage: str) -> list[dict[str, str]]:
    rows = [row for name in environments.split(",") for row in _rows(name)]
    return [row for row in rows if (row["algorithm"], row["stage"]) == ("safedsr-plus", stage)]


def _steps(rows: list[dict[str, str]]) -> str:
    """Median of the steps of the training, or of those that an adaptation took in the environment."""
    found = [int(row["steps"]) for row in rows if row["steps"]]
    return formats.count(float(np.median(found))) if found else ""


def _seconds(rows: list[dict[str, str]]) -> str:
    """Median of the seconds of an adaptation."""
    found = [float(row["seconds"]) for row in rows if row["seconds"] and row["stage"] != "trained"]
    return formats.count(float(np.median(found))) if found else ""


@text
def levels(environment: str, stage: str = "adapted") -> str:
    """The levels of adaptation that were chosen, and how often."""
    found = [row["level"] for row in _rows(environment) if row["stage"] == stage]
    return ", ".join(f"`{level}` {found.count(level)}" for level in ("cost", "penalty", "memory") if level in found)


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
