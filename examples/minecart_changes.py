"""minecart: the budget or the price of fuel changes, and agents adapt from memory, without a step in the environment.

    python examples/minecart.py safedsr-plus --compiled --out runs/minecart
    python examples/minecart_changes.py runs/minecart --at-once 8 --csv minecart-changes.csv

The agents of all budgets get a λ for their own budget, and those of fuel ≤ 0.85 also for other budgets and prices: one
λ, and then (`mixture`) one of two for each episode, if this gives more ore. Only λ is adapted: training M as well was
worse on seeds 0 and 1. The table is of the original environment, whose episodes without random actions are always the
same; with two λ, it has the means over the draws. Finished parts are skipped, so the same command continues.
"""

import argparse
import csv
import json
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from minecart import best_known, discounted

from safedsr.agent import Agent, load
from safedsr.engine.lanes import use_cores
from safedsr.envs.twins.minecart import make_minecart

CHANGED = 0.85  # the budget of the agents that adapt
ORDER = ("trained_budget", "price", "budget", "mixture", "seed")
CHANGES = ((1.0, 0.70), (1.0, 0.80), (1.0, 1.00), (0.9, 0.85), (1.2, 0.85))  # price of fuel, budget
BOTH = (False, True)  # one λ, or also a mixture of two


class Part(NamedTuple):
    """One adaptation."""

    seed: int
    trained_budget: float
    price: float
    budget: float
    mixture: bool


def parts_of(seeds: Sequence[int], budgets: Sequence[float]) -> list[Part]:
    """All adaptations, those to an agent's own budget first."""
    own = [(budget, 1.0, budget) for budget in budgets]
    new = [(CHANGED, *change) for change in CHANGES] if CHANGED in budgets else []
    return [Part(seed, *change, mixture) for some in (own, new) for mixture, seed, change in product(BOTH, seeds, some)]


def adapted(run: Path, budgets: Sequence[float], part: Part) -> dict[str, str]:
    """What an agent reaches in the original environment, adapted to a price and a budget of fuel."""
    use_cores(1)
    agent = load(run, part.seed, budgets.index(part.trained_budget), make_minecart(1000, ore=0))
    began, price = time.monotonic(), part.price
    costs = {"price": price} if price != 1 else None
    found = agent.adapt(costs, "penalty", part.budget, from_memory=True, mixture=part.mixture)
    seconds = time.monotonic() - began
    ore, fuel = expected(found.agent, price)
    return {
        **{name: str(value) for name, value in part._asdict().items()},
        "discounted_ore_1": f"{ore:.4f}",
        "discounted_fuel": f"{fuel:.4f}",
        "best_known": f"{best_known(part.budget / price):.4f}",
        "foreseen_fuel": f"{found.certificate.cost[0].value:.4f}",
        "passed": str(found.certificate.passed),
        "two_lam": str(found.agent.mixture is not None),
        "seconds": f"{seconds:.1f}",
    }


def expected(agent: Agent, price: float) -> np.ndarray:
    """Mean discounted ore 1 and fuel of an episode, over the draws of λ."""
    shares = [1.0] if agent.mixture is None else [1 - agent.mixture.share, agent.mixture.share]
    return np.average([discounted(part, price) for part in agent.parts], 0, shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run folder of examples/minecart.py --compiled")
    parser.add_argument("--at-once", type=int, default=1, help="processes")
    parser.add_argument("--csv", type=Path, required=True, help="file for the table")
    args = parser.parse_args()
    job = json.loads((args.run / "config.json").read_text())
    budgets = [task["budgets"][0] for task in job["tasks"]]
    rows: list[dict[str, str]] = []
    if args.csv.exists():
        with args.csv.open(newline="") as file:
            rows += csv.DictReader(file)
    done = {tuple(row[name] for name in Part._fields) for row in rows}
    waiting = [part for part in parts_of(job["seeds"], budgets) if tuple(map(str, part)) not in done]
    with ProcessPoolExecutor(args.at_once, multiprocessing.get_context("spawn")) as pool:
        for one in as_completed([pool.submit(adapted, args.run, budgets, part) for part in waiting]):
            rows.append(one.result())
            print(*rows[-1].values(), sep="  ", flush=True)
            rows.sort(key=lambda row: tuple(row[name] for name in ORDER))
            with args.csv.open("w", newline="") as file:
                table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                table.writeheader()
                table.writerows(rows)


if __name__ == "__main__":
    main()
