"""minecart: ore 1 under a limit of fuel, beside the best policies that are known.

    pip install "safedsr[envs]"
    python examples/minecart.py safedqn --seeds 10 --out runs/minecart-safedqn
    python examples/minecart.py safedqn --seeds 10 --compiled --csv minecart.csv --out runs/minecart-jax

With --compiled, training uses the version in JAX, which is faster on a GPU; the table is always of the original.

One program trains four fuel budgets and all seeds. The environment has a vector reward: ore 1, ore 2, fuel (negative).
Its authors give the Pareto front of discounted returns, so the budget is one of the discounted fuel.
"""

import argparse
import contextlib
import csv
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import safedsr
from safedsr.agent import load_all
from safedsr.agents.registry import find_algorithm
from safedsr.cli.display import progress_bar
from safedsr.engine.train import train
from safedsr.envs import from_gymnasium, make_task
from safedsr.envs.twins.minecart import make_minecart
from safedsr.validation import with_settings

ID, GAMMA = "minecart-deterministic-v0", 0.98
BUDGETS = (0.70, 0.80, 0.85, 1.00)
VALUE_BASED: dict[str, Any] = {
    "batch_size": 128,
    "buffer_size": 150_000,
    "epsilon_end": 0.05,
    "epsilon_from": 0,
    "epsilon_to": 60_000,
    "learning_rate": 3e-4,
    "lam_most": None,
    "lam_start": 0.5,
    "lam_step": 0.01,
    "penalty_start": 20_000,
    "rule": "mean",
    "sync_every": 500,
    "train_every": 10,
    "train_start": 5_000,
    "update_steps": 5,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "safedqn": {**VALUE_BASED, "hidden": (256, 256, 256)},
    "safedsr": {**VALUE_BASED, "freeze": 60_000},
    "safedsr-plus": {**VALUE_BASED, "beta_c": 0.25, "plan_epsilon": 0.05, "penalty_start": 60_000},
    "ppo-lag": {"steps_per_epoch": 5_000},
    "cpo": {"steps_per_epoch": 5_000},
}


def fuel(obs, action, next_obs, reward, info, price=1.0):
    """The fuel of a step, times its price."""
    return -price * reward[2]


def discounted(agent: Any, price: float = 1.0) -> tuple[float, float]:
    """Discounted ore 1 and fuel of one episode; the environment and the greedy policy are deterministic."""
    env = gym.make(f"mo_gymnasium:{ID}", disable_env_checker=True)
    obs, _ = env.reset(seed=0)
    total, weight, done = np.zeros(3), 1.0, False
    while not done:
        obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
        total, weight, done = total + weight * np.asarray(reward), weight * GAMMA, terminated or truncated
    return float(total[0]), float(-price * total[2])


def best_known(budget: float) -> float:
    """Most ore 1 of a single policy of the front that comes with the environment."""
    front = gym.make(f"mo_gymnasium:{ID}", disable_env_checker=True).unwrapped.pareto_front(gamma=GAMMA)  # type: ignore[attr-defined]
    return max(point[0] for point in front if -point[2] <= budget)


def _number(text: str) -> Any:
    """A number if it is one, else a word."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", choices=SETTINGS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--compiled", action="store_true", help="train in the version in JAX")
    parser.add_argument("--csv", type=Path, help="file for the table")
    parser.add_argument("--out", required=True)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other settings of the algorithm")
    args = parser.parse_args()
    changes = {name: _number(value) for name, value in (text.split("=") for text in args.set)}
    env = make_minecart(1000, ore=0) if args.compiled else from_gymnasium(ID, reward=0, cost=fuel)
    tasks = tuple(make_task(env, budget)._replace(name=f"fuel ≤ {budget:g}") for budget in args.budgets)
    agent = with_settings(
        find_algorithm(args.algorithm).default, {**SETTINGS[args.algorithm], "gamma": GAMMA, **changes}
    )
    seeds = tuple(range(args.first_seed, args.first_seed + args.seeds))
    training = safedsr.TrainConfig(steps=args.steps, processes=args.processes)
    job = safedsr.Job(args.algorithm, tasks, seeds, agent, env, training, "discounted-mean")
    with progress_bar(args.algorithm) as show:
        train(job, args.out, show)
    agents = load_all(args.out, env)
    table = [["algorithm", "budget", "seed", "discounted_ore_1", "discounted_fuel"]]
    print("budget  best known  ore 1 of each seed (fuel)")
    for number, budget in enumerate(args.budgets):
        found = [discounted(agents[number, seed]) for seed in seeds]
        table += [
            [args.algorithm, f"{budget:.2f}", str(seed), f"{ore:.4f}", f"{used:.4f}"]
            for seed, (ore, used) in zip(seeds, found, strict=True)
        ]
        cells = "  ".join(f"{ore:.3f} ({used:.2f}{'' if used <= budget else ' !'})" for ore, used in found)
        print(f"{budget:.2f}    {best_known(budget):.3f}       {cells}")
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows(table)


if __name__ == "__main__":
    main()
