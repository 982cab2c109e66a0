"""Draw the pictures of docs/environments.md from results/environments: `make docs-pictures`."""

import csv
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np

from safedsr.figures.style import BUDGET, MUTED, ORACLE, WIDTH, color_of, legend_below, name_of, paper_style, styles_of
from safedsr.runs.metrics import iqm

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "images" / "results"
FUEL = (0.3, 0.5, 1, 2, 5)  # marks of the axis
AGENTS = ("safedsr-plus", "safedqn", "safedsr", "ppo-lag", "cpo")
STAGES = {
    "trained": "own cost",
    "changed": "new cost",
    "adapted": "adapted",
    "remembered": "from memory",
    "continued": "trained further",
}
TITLES = {
    "cartpole": "CartPole",
    "cartpole-gymnax": "CartPole, gymnax",
    "minigrid-lava": "MiniGrid",
    "resource-gathering": "resource-gathering",
    "four-room": "four-room",
    "sft-cop-maze": "maze of SFT-CoP",
    "highway": "highway-env",
    "lunar-lander": "LunarLander",
}


def rows(name: str) -> list[dict[str, str]]:
    with (ROOT / "results" / "environments" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def changes() -> None:
    """Safe episodes and return of every SafeDSR-plus agent: with its own cost, with the new one, and adapted."""
    found = [row for row in rows("measured.csv") if row["algorithm"] == "safedsr-plus"]
    shown = [name for name in TITLES if any(row["environment"] == name for row in found)]
    size = (1.25 * len(shown) + 0.4, 3.4)
    figure, axes = plt.subplots(2, len(shown), figsize=size, layout="constrained", sharex="col")
    for (row, column), (at, name) in product(enumerate(("safe", "return")), enumerate(shown)):
        axis, jitter = axes[row, at], np.random.default_rng(0)
        here = {
            stage: [float(r[column]) for r in found if (r["environment"], r["stage"]) == (name, stage)]
            for stage in STAGES
        }
        here = {stage: values for stage, values in here.items() if values}
        for place, values in enumerate(here.values()):
            where = place + jitter.uniform(-0.18, 0.18, len(values))
            axis.scatter(where, values, s=9, color=color_of("safedsr-plus"), alpha=0.6, linewidths=0)
            axis.hlines(iqm(np.array(values)), place - 0.3, place + 0.3, color=ORACLE, linewidth=1)
        axis.set_xticks(range(len(here)), [STAGES[stage] for stage in here], rotation=90)
        axis.set_xlim(-0.5, len(here) - 0.5)
        if column == "safe":
            axis.set(title=TITLES[name], ylim=(-0.05, 1.05))
        else:
            top = max(map(max, here.values()))
            axis.set_ylim(min(0.0, min(map(min, here.values()))) - 0.05 * top, 1.08 * top)
    axes[0, 0].set_ylabel("safe episodes, safe goals")
    axes[1, 0].set_ylabel("return")
    figure.savefig(FOLDER / "environments.png", dpi=160)


def minecart() -> None:
    """Discounted fuel and ore of every policy, a panel for each budget."""
    policies, front = rows("minecart.csv"), rows("minecart-front.csv")
    figure, axes = plt.subplots(1, len(front), figsize=(WIDTH, 2.3), layout="constrained", sharex=True, sharey=True)
    styles = styles_of(AGENTS)
    for axis, best in zip(axes, front, strict=True):
        budget = float(best["budget"])
        axis.axvline(budget, color=BUDGET, linewidth=0.8, linestyle="--", label="budget")
        axis.axhline(float(best["discounted_ore_1"]), color=MUTED, linewidth=0.8, label="best single policy known")
        for name in AGENTS:
            here = [row for row in policies if (row["algorithm"], float(row["budget"])) == (name, budget)]
            fuel, ore = ([float(row[key]) for row in here] for key in ("discounted_fuel", "discounted_ore_1"))
            look = {"color": styles[name].color, "marker": styles[name].marker, "label": name_of(name)}
            axis.scatter(fuel, ore, s=14, alpha=0.7, linewidths=0, **look)
        axis.set(title=f"fuel at most {budget:.2f}", xlabel="discounted fuel", xscale="log")
        axis.set_xticks(FUEL, [f"{fuel:g}" for fuel in FUEL])
        axis.minorticks_off()
    axes[0].set_ylabel("discounted ore 1")
    legend_below(figure, axes)
    figure.savefig(FOLDER / "minecart.png", dpi=160)


if __name__ == "__main__":
    with paper_style():
        changes()
        minecart()
