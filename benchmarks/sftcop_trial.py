"""One trial of an agent of SFT-CoP with its own classes, configuration and loop, as a table for 'reproduce transfer'.

git clone https://github.com/clear-nus/SFT-CoP && git -C SFT-CoP checkout c0de240
python benchmarks/sftcop_trial.py SFT-CoP sftcopql 1 --out runs/sftcop      needs NumPy alone

Their program sets no seeds: `random` and `numpy.random` get the number of the trial here. After each task, one episode
at ε = 0 is counted; tables, counters and generators are put back afterwards, so that training goes on unchanged.
A trial whose table is there is skipped; one that was interrupted begins anew.
"""

import argparse
import csv
import importlib
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})
import numpy as np

AGENTS = ("sftcopql", "rnsfql", "rasfql")
PART = 1000  # steps between two sums


class Quiet:
    """In place of their logger."""

    def info(self, text: str) -> None:
        """Say nothing."""


def make(program: Any, name: str) -> Any:
    """An agent as their main_shapes.py makes it."""
    agents, features = (importlib.import_module(module) for module in ("agents.sfql", "features.tabular"))
    params = {**program.agent_params, "agent_name": name, "logger": Quiet()}
    if name == "rnsfql":
        return agents.SFQL(features.TabularSF(**program.rnsfql_params), **params)
    if name == "rasfql":
        own = program.rasfql_params
        return agents.SFQL(features.TabularMVSF(**own, risk_aversion=own["penalty"]), **params)
    return agents.SFTCoPQL(features.TabularMOSF(**program.sftcopql_params), **params)


def greedy(agent: Any, task: Any) -> tuple[float, int, int]:
    """Reward, trap entries and goals of one episode at ε = 0 without learning; everything is put back."""
    counters = agent.sf.gpi_counters
    kept = random.getstate(), np.random.get_state(), task.state, counters[agent.task_index].copy(), agent.c
    tables = [(table, set(table)) for table in (*agent.sf.psi, *getattr(agent.sf, "Sigma", []))]
    state, reward, traps, goal, steps = task.initialize(), 0.0, 0, False, 0
    while steps < agent.T and not goal:
        state, r, goal, noise = task.transition(np.argmax(agent.get_Q_values(state, state)))
        reward, traps, steps = reward + float(r[0]), traps + int(noise[0]), steps + 1
    for table, before in tables:  # reading a new state makes a row
        for key in [key for key in table if key not in before]:
            del table[key]
    random.setstate(kept[0])
    np.random.set_state(kept[1])
    task.state, counters[agent.task_index], agent.c = kept[2:]
    return reward, traps, int(goal)


def run_task(agent: Any, task: Any, steps: int) -> dict[str, Any]:
    """Train on one task; the row of its table."""
    began, processor, sums = time.perf_counter(), time.process_time(), []
    agent.add_training_task(task, steps)
    agent.set_active_training_task(agent.n_tasks - 1)
    for _ in range(steps // PART):
        for _ in range(PART):
            agent.next_sample(None, None)
        sums.append((float(agent.reward[0]), int(agent.fails)))
    times = time.perf_counter() - began, time.process_time() - processor
    reward, traps, goal = greedy(agent, task)
    return {
        **{"reward": round(sums[-1][0], 3), "traps": sums[-1][1]},
        **{"greedy_reward": round(reward, 4), "greedy_traps": traps, "greedy_goal": goal},
        **{"seconds": round(times[0], 3), "processor": round(times[1], 3)},
        "reward_every_1000": " ".join(f"{r:.2f}" for r, _ in sums),
        "traps_every_1000": " ".join(str(c) for _, c in sums),
        "rewards_of_shapes": " ".join(f"{task.shape_rewards[kind]:.4f}" for kind in sorted(task.shape_rewards)),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("agent", choices=AGENTS)
    parser.add_argument("trial", type=int, help="1 to 30")
    parser.add_argument("--tasks", type=int, default=128)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if not (args.checkout / "main_shapes.py").is_file():
        parser.error(f"{args.checkout} is no checkout of SFT-CoP: it has no main_shapes.py")
    if not (1 <= args.trial <= 30 and 1 <= args.tasks <= 128):
        parser.error(f"trial {args.trial}, tasks {args.tasks}: there are trials 1 to 30, each of 1 to 128 tasks")
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    table = out / f"{args.agent}-{args.trial:02d}.csv"
    if table.exists():
        tasks = len(table.read_text().splitlines()) - 1
        if tasks < args.tasks:
            parser.error(f"{table} has {tasks} tasks, not {args.tasks}; delete it, or choose another --out")
        return print(f"{table} is there already: skipped")
    os.chdir(args.checkout)
    sys.path.insert(0, os.getcwd())
    program = importlib.import_module("main_shapes")
    random.seed(args.trial)
    np.random.seed(args.trial)
    agent, steps = make(program, args.agent), program.gen_params["n_samples"]
    agent.reset(program.gen_params["n_tasks"], steps)
    part = table.with_name(f"{table.name}.part")  # of a trial that is not complete
    with part.open("w", newline="") as file:
        writer = None
        for number, task in enumerate(program.load_tasks(args.trial - 1)[: args.tasks], 1):
            row = {"agent": args.agent, "trial": args.trial, "task": number, **run_task(agent, task, steps)}
            writer = writer or csv.DictWriter(file, list(row), lineterminator="\n")
            if number == 1:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            print(
                f"{args.agent} {args.trial}: task {number}, reward {row['reward']}, trap entries {row['traps']}",
                flush=True,
            )
    part.rename(table)


if __name__ == "__main__":
    main()
