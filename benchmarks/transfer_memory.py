"""What a network could know from its memory, in tasks in a row: exact planning over its stored steps.

    python benchmarks/transfer_memory.py FOLDER --trials 5 --tasks 32

FOLDER has an unfinished run of 'reproduce transfer --agents network', with the table of 'known' beside it. For each
trial it prints the reward of an episode at ε = 0 after the last task that was learnt and saved: of the best policy
without traps that the stored steps allow (value iteration; the environment is deterministic), of the network, and of
the agent with a table; and the number of different states in both memories.
"""

import argparse
import csv
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from safedsr.agents.value_based.trainer import all_rows
from safedsr.envs.twins.four_room import make_four_room
from safedsr.transfer import saved
from safedsr.transfer import tasks as sets
from safedsr.transfer.arms import EPISODE
from safedsr.transfer.run import open_run
from safedsr.types import PyTree, Transition

GAMMA, SWEEPS = 0.95, 400
UNKNOWN = -1


class Known(NamedTuple):
    """The steps that a memory knows, by number of state and action."""

    after: np.ndarray  # [states, A] number of the next state, UNKNOWN if the step is not stored
    reward: np.ndarray  # [states, A]
    ended: np.ndarray  # [states, A]
    refused: np.ndarray  # [states, A] unknown, or into a trap
    start: int


def known_steps(stored: Transition, start: np.ndarray, actions: int) -> Known:
    """All stored steps; the last entry of an observation says what the step before did and is no part of a state."""
    seen = np.concatenate([stored.obs[:, :-1], stored.next_obs[:, :-1], start[None, :-1]])
    numbers = np.unique(seen, axis=0, return_inverse=True)[1].ravel()
    before, after = np.split(numbers[:-1], 2)
    places = before, np.asarray(stored.action)
    table = np.full((numbers.max() + 1, actions), UNKNOWN)
    reward, ended, cost = (np.zeros(table.shape) for _ in range(3))
    table[places], reward[places] = after, stored.reward
    ended[places], cost[places] = stored.terminated, stored.cost[:, 0]
    return Known(table, reward, ended, (table == UNKNOWN) | (cost > 0), int(numbers[-1]))


def planned(known: Known) -> float:
    """The reward of an episode of the policy with the largest discounted reward; it may stay where it is."""
    value = np.zeros(len(known.after))
    for _ in range(SWEEPS):
        worth = np.where(known.refused, -np.inf, known.reward + GAMMA * (1 - known.ended) * value[known.after])
        value = np.maximum(worth.max(1), 0.0)
    state, total = known.start, 0.0
    for _ in range(EPISODE):
        action = int(worth[state].argmax())
        if worth[state, action] <= 0:
            break
        total += known.reward[state, action]
        if known.ended[state, action]:
            break
        state = known.after[state, action]
    return total


def steps_of(state: PyTree, trial: int) -> Transition:
    """The stored steps of one trial."""
    agent = jax.tree.map(lambda x: x[trial], state.agent)
    rows, filled = all_rows(agent)
    stored = make_four_room(EPISODE).spec.codec.unpack(rows[filled])
    return jax.tree.map(np.asarray, stored)


def rows_of(path: Path, task: int) -> list[dict[str, str]]:
    """The rows of a task, one for each trial."""
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["task"] == str(task)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=sets.TASKS)
    args = parser.parse_args()
    trials = range(1, args.trials + 1)
    tasks = np.stack([sets.generated(trial, args.tasks) for trial in trials])
    agent, place = open_run("network", tasks, trials, args.folder)
    state, rows = saved.resume(place, agent)
    if state is None:
        sys.exit(f"error: {args.folder} has no unfinished run of 'network'")
    environment, task = make_four_room(EPISODE), len(rows) // args.trials
    start = np.asarray(environment.reset(jax.random.key(0), environment.params)[1])
    table = rows_of(args.folder / "known.csv", task)
    print("trial,task,planned,network,table,states,states_of_table")
    for n, (mine, theirs) in enumerate(zip(rows[-args.trials :], table, strict=True)):
        known = known_steps(steps_of(state, n), start, environment.spec.actions)
        rewards = planned(known), float(mine["greedy_reward"]), float(theirs["greedy_reward"])
        print(mine["trial"], task, *(f"{x:.3f}" for x in rewards), len(known.after), theirs["states"], sep=",")


if __name__ == "__main__":
    main()
