"""minecart: the budget or the price of fuel changes, and agents adapt from memory, without a step in the environment.

    python examples/minecart.py safedsr-plus --compiled --out runs/minecart
    python examples/minecart_changes.py runs/minecart --at-once 8 --csv minecart-changes.csv

The agents of all budgets get a λ for their own budget, and those of fuel ≤ 0.85 also for other budgets and prices: one
λ, and then (`mixture`) one of two for each episode, if this gives more ore. Only λ is adapted: training M as well was
worse on seeds 0 and 1. The table is of the original environment, whose episodes without random actions are always the
same; with two λ, it has the means over the draws.
"""

import argparse
import csv
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import numpy as np
from minecart import best_known, discounted

from safedsr.agent import Agent, load
from safedsr.engine.lanes import use_cores
from safedsr.envs.twins.minecart import make_minecart

CHANGED = 0.85  # the budget of the agents that adapt
ORDER = ("trained_budget", "price", "budget", "mixture", "seed")
CHANGES = ((1.0, 0.70), (1.0, 0.80), (1.0, 1.00), (0.9, 0.85), (1.2, 0.85))  # price of fuel, budget


def measure(run: Path, budgets: list[float], what: tuple[bool, int]) -> list[dict[str, object]]:
    """The rows of one seed, with one λ or with two."""
    use_cores(1)
    (mixture, seed), env, rows = what, make_minecart(1000, ore=0), []
    for number, trained in enumerate(budgets):
        agent = load(run, seed, number, env)
        for price, budget in ((1.0, trained), *(CHANGES if trained == CHANGED else ())):
            row = adapted(agent, price, budget, mixture)
            rows.append({"seed": seed, "trained_budget": trained, "price": price, "budget": budget, **row})
            print(*rows[-1].values(), sep="  ", flush=True)
    return rows


def adapted(agent: Agent, price: float, budget: float, mixture: bool) -> dict[str, object]:
    """What an agent reaches in the original environment, adapted to a price and a budget of fuel."""
    began = time.monotonic()
    found = agent.adapt({"price": price} if price != 1 else None, "penalty", budget, from_memory=True, mixture=mixture)
    seconds = time.monotonic() - began
    ore, fuel = expected(found.agent, price)
    return {
        "mixture": mixture,
        "discounted_ore_1": f"{ore:.4f}",
        "discounted_fuel": f"{fuel:.4f}",
        "best_known": f"{best_known(budget / price):.4f}",
        "foreseen_fuel": f"{found.certificate.cost[0].value:.4f}",
        "passed": found.certificate.passed,
        "two_lam": found.agent.mixture is not None,
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
    work = partial(measure, args.run, [task["budgets"][0] for task in job["tasks"]])
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(args.at_once, multiprocessing.get_context("spawn")) as pool:
        parts = [(mixture, seed) for mixture in (False, True) for seed in job["seeds"]]
        for done in as_completed([pool.submit(work, part) for part in parts]):
            rows += done.result()
            rows.sort(key=lambda row: tuple(row[name] for name in ORDER))
            with args.csv.open("w", newline="") as file:
                table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                table.writeheader()
                table.writerows(rows)


if __name__ == "__main__":
    main()
