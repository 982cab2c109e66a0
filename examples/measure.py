"""Measure an example: train, evaluate, change the cost, adapt, certify in the environment; one CSV line for each.

    pip install "safedsr[envs]"   (for cartpole-gymnax also: pip install gymnax six)
    python examples/measure.py lunar-lander safedqn --seeds 10 11 12 --out runs/lander

All seeds are trained as one job, on an accelerator if there is one. A seed has the lines `trained` (its own cost),
`changed` (the same policy, new cost) and, if the agent can adapt, `adapted` (by the levels `cost`, `penalty` and
`memory`, until one passes), `remembered` (the same without a step in the environment) or `continued` (level `full`:
training goes on with the new cost, for as many steps as before); all are certified in the environment. Finished parts
are skipped, so the same command continues.
"""

import argparse
import csv
import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import four_room
import highway_lane
import lunar_lander
import minigrid_lava
import resource_gathering
import zones

import safedsr
from safedsr.adapt.ladder import Rung
from safedsr.engine.evaluate import Evaluation, evaluate
from safedsr.engine.lanes import use_cores
from safedsr.envs import from_gymnasium, from_gymnax
from safedsr.envs.environment import Environment, make_task

DQN = {"epsilon_end": 0.05, "epsilon_from": 0, "train_start": 1_000, "rule": "chance", "lam_step": 0.05}
LANDER = {
    "batch_size": 128,
    "buffer_size": 100_000,
    "epsilon_end": 0.02,
    "epsilon_from": 0,
    "epsilon_to": 40_000,
    "learning_rate": 3e-4,
    "penalty_start": 100_000,
    "sync_every": 1_000,
    "train_every": 8,
    "train_start": 2_000,
    "update_steps": 4,
}
HIGHWAY = {"epsilon_end": 0.05, "train_every": 5, "train_start": 500, "update_steps": 2}


class Case(NamedTuple):
    """An environment, its budget, and how its cost changes."""

    make: Callable[[], Environment]
    budget: float
    change: Mapping[str, float]  # parameters of the cost function after the change
    steps: int
    settings: Mapping[str, Mapping[str, Any]]  # of each algorithm
    budget_kind: str = "episode"
    episodes: int = 200  # of an evaluation
    certificate: Mapping[str, Any] = MappingProxyType({})
    adaptations: tuple[str, ...] = ("adapted",)  # "remembered", "continued"
    further: Mapping[str, Any] = MappingProxyType({})  # settings of the level `full`


def plus(epsilon: float = 0.05, **more: Any) -> dict[str, Any]:
    """Settings of SafeDSR-plus: ε at the end of its schedule, which its plans assume, too; the share of episodes that
    may be above the budget."""
    return {"epsilon_end": epsilon, "plan_epsilon": epsilon, "chance": 0.02, **more}


ZONE_MOVES = {"low": -9.0, "high": -0.3}
CARTPOLE = {
    "safedsr-plus": plus(copies=1),
    "safedqn": {**DQN, "epsilon_to": 20_000, "penalty_start": 20_000, "copies": 1},
    "ppo-lag": {"steps_per_epoch": 5_000, "copies": 1},
    "cpo": {"steps_per_epoch": 5_000, "copies": 1},
}
ROOMS = {
    "safedsr-plus": plus(0.1, gamma=0.95),
    "safedqn": {**DQN, "gamma": 0.95, "epsilon_to": 25_000, "penalty_start": 25_000, "buffer_size": 50_000},
}
CASES = {
    "cartpole": Case(
        lambda: from_gymnasium("CartPole-v1", cost=zones.between, time_limit=200),
        5,
        ZONE_MOVES,
        150_000,
        CARTPOLE,
        adaptations=("adapted", "remembered"),
    ),
    "cartpole-gymnax": Case(
        lambda: from_gymnax("CartPole-v1", {"max_steps_in_episode": 200}, cost=zones.between),
        5,
        ZONE_MOVES,
        150_000,
        CARTPOLE,
        certificate={"episodes": 1_000},
        adaptations=("adapted", "remembered"),
    ),
    "minigrid-lava": Case(
        lambda: from_gymnasium(minigrid_lava.room, cost=minigrid_lava.lava),
        1,
        {"top": 2.0, "bottom": 5.0},
        40_000,
        {"safedsr-plus": plus(0.1), "safedqn": {**DQN, "epsilon_to": 20_000, "penalty_start": 20_000}},
    ),
    "resource-gathering": Case(
        lambda: from_gymnasium(resource_gathering.field, reward=[1, 2], cost=resource_gathering.danger),
        0.02,
        {"row": 2.0, "column": 4.0},
        60_000,
        {
            "safedsr-plus": plus(0.1, gamma=0.95),
            "safedqn": {**DQN, "gamma": 0.95, "epsilon_to": 30_000, "penalty_start": 30_000, "rule": "mean"},
        },
        "discounted-mean",
        1_000,
    ),
    "four-room": Case(
        lambda: from_gymnasium(four_room.rooms, reward=[0, 1], cost=four_room.forbidden),
        0.5,
        {"kind": 1.0},
        50_000,
        ROOMS,
        adaptations=("adapted", "continued"),
    ),
    "sft-cop-maze": Case(
        lambda: from_gymnasium(four_room.maze, reward=[0, 1, 2], cost=four_room.traps),
        0.5,
        {"right": 4.0},
        50_000,
        ROOMS,
    ),
    "lunar-lander": Case(
        lambda: from_gymnasium(lunar_lander.lander, cost=lunar_lander.fuel, success=lunar_lander.landed),
        120,
        {"side": 0.3},
        400_000,
        {
            "safedqn": {
                **LANDER,
                "hidden": (256, 256),
                "rule": "mean",
                "aim": (80.0,),
                "lam_step": 0.01,
                "lam_most": 2.0,
            },
            # Visits of codes and K weigh little, because returns of up to 600 are the unit of rewards. Differences
            # between actions are small in this unit, and a twentieth of the usual learning rate finds them.
            "safedsr-plus": plus(
                0.02,
                **{**LANDER, "learning_rate": 2.5e-5, "sync_every": 2_000, "train_every": 4},
                **{"octaves": 0, "points": 64, "even_share": 0.0, "idle_share": 0.0},
                **{"beta_m": 1e-6, "beta_c": 0.0025, "lam_start": 0.05},
                **{"rule": "mean", "aim": (80.0,), "lam_step": 0.002, "lam_most": 0.25},
            ),
            "ppo-lag": {"steps_per_epoch": 4_000, "gae_lambda": 0.98, "kl_reduce": "mean", "update_iters": 10},
        },
        certificate={"episodes": 500, "require": 0.5},
        adaptations=("adapted", "continued"),
        further={"penalty": "learn"},  # a search for λ would take more steps than the training
    ),
    "highway": Case(
        lambda: from_gymnasium("highway-fast-v0", cost=highway_lane.closed),
        3,
        {"lane": 2.0},
        5_000,
        {"safedsr-plus": plus(**HIGHWAY, octaves=0), "safedqn": {**DQN, **HIGHWAY, "epsilon_to": 2_500}},
        episodes=20,
        certificate={"episodes": 60, "require": 0.8},
        adaptations=("remembered",),
    ),
}
COLUMNS = (
    *("environment", "algorithm", "seed", "stage", "level", "episodes", "return", "success", "safe", "cost"),
    *("length", "passed", "bound", "steps", "certificate_steps", "seconds"),
)


def train(case: Case, algorithm: str, seeds: Sequence[int], run: Path, changes: Mapping[str, Any]) -> None:
    """Train all seeds as one job, unless an earlier call did."""
    if (run / "trained.json").exists():
        return
    shutil.rmtree(run, ignore_errors=True)  # a training that was stopped
    settings, began = {"steps": case.steps, **case.settings.get(algorithm, {}), **changes}, time.perf_counter()
    how = {"budget": case.budget, "budget_kind": case.budget_kind, "seeds": seeds, "out": run}
    safedsr.train(algorithm, case.make(), **how, **settings)
    took = {"steps": settings["steps"], "seconds": time.perf_counter() - began}
    (run / "trained.json").write_text(json.dumps(took))


def measure(environment: str, algorithm: str, run: Path, seed: int) -> list[dict[str, Any]]:
    """The lines of one trained seed; they are also written to a file beside the run folder."""
    case = CASES[environment]
    env = case.make()
    agent = safedsr.load(run, seed, environment=env)
    trained = json.loads((run / "trained.json").read_text())
    rows = [{**line("trained", evaluate(agent, episodes=case.episodes)), **trained}]
    rows.append(line("changed", evaluate(agent, make_task(env, case.budget, case.change), case.episodes)))
    if algorithm == "safedsr-plus":
        rows += [adapted(agent, case, stage) for stage in case.adaptations]
    rows = [{"environment": environment, "algorithm": algorithm, "seed": seed, **row} for row in rows]
    with run.with_name(f"{algorithm}-{seed}.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    return rows


def line(stage: str, found: Evaluation) -> dict[str, Any]:
    """The numbers of an evaluation."""
    return {
        "stage": stage,
        "episodes": found.episodes,
        "return": found.reward.value,
        "success": found.goal_rate.value if found.terms.success else None,
        "safe": found.safe_goal_rate.value,
        "cost": found.cost[0].value,
        "length": found.length.value,
    }


def adapted(agent: safedsr.Agent, case: Case, stage: str) -> dict[str, Any]:
    """The numbers of the agent's adaptation, from its certificate in the environment."""
    began = time.perf_counter()
    further = {"level": "full", "steps": case.steps, **case.further}
    how = further if stage == "continued" else {"highest": "memory"}
    found = agent.adapt(case.change, from_memory=stage == "remembered", **how, **case.certificate)
    seconds, passed = time.perf_counter() - began, found.certificate
    if stage == "remembered":
        passed = found.agent.certify(**case.certificate)
    return {
        "stage": stage,
        "level": found.level,
        "episodes": passed.episodes,
        "return": passed.reward,
        "success": passed.goal_rate.value if passed.success else None,
        "safe": passed.safe_goal_rate.value,
        "cost": passed.cost[0].value,
        "length": passed.length,
        "passed": passed.passed,
        "bound": passed.cost[0].bound if passed.terms.on_mean else passed.safe_goal_rate.bound,
        "steps": 0 if stage == "remembered" else sum(steps_of(rung) for rung in found.rungs),
        "certificate_steps": sum(rung.certificate_steps or 0 for rung in found.rungs),
        "seconds": seconds,
    }


def steps_of(rung: Rung) -> int:
    """Steps in the environment, or in its simulation, which a JAX environment is."""
    return rung.simulated_steps if rung.real_steps is None else rung.real_steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", choices=CASES)
    parser.add_argument("algorithm")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--at-once", type=int, default=1, help="processes that evaluate and adapt, each on one core")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other settings of the algorithm")
    args = parser.parse_args()
    changes = {name: json.loads(value) for name, value in (text.split("=", 1) for text in args.set)}
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    use_cores(len(args.seeds))
    args.out.mkdir(parents=True, exist_ok=True)
    run = args.out / args.algorithm
    train(CASES[args.environment], args.algorithm, args.seeds, run, changes)
    os.environ |= {"JAX_PLATFORMS": "cpu", "SAFEDSR_CORES": "1"}  # of the processes below: single agents are small
    work = partial(measure, args.environment, args.algorithm, run)
    waiting = [seed for seed in args.seeds if not run.with_name(f"{args.algorithm}-{seed}.csv").exists()]
    with ProcessPoolExecutor(args.at_once, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(work, seed) for seed in waiting]):
            for row in done.result():
                print({name: round(v, 3) if isinstance(v, float) else v for name, v in row.items()}, flush=True)


if __name__ == "__main__":
    main()
