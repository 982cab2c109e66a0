"""Our four rooms beside SFT-CoP's own environment, step by step, over random episodes.

git clone https://github.com/clear-nus/SFT-CoP && git -C SFT-CoP checkout c0de240
python benchmarks/sftcop_environment.py SFT-CoP --episodes 500

Both environments get the same actions. Position, collected shapes, reward, trap entry, end and features of every step
are compared; the first difference ends the program with status 1. An episode has a task of SFT-CoP's file, and
probabilities of the four actions of its own: with equal ones, hardly any episode reaches the goal.
"""

import argparse
import importlib
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.envs.twins.four_room import EVENTS, KINDS, Rewards, event, make_four_room, read_map

LENGTH = 200  # steps of an episode at most
LEAST = 0.125  # least probability of an action
ENDS = EVENTS.index("goal"), EVENTS.index("trap")


class Seen(NamedTuple):
    """What a step led to."""

    cell: Any  # [2]
    taken: Any  # [shapes]
    reward: Any
    trap: Any
    ended: Any
    feature: Any  # the index of an entry of EVENTS


def ours(weights: np.ndarray, actions: np.ndarray) -> list[Seen]:
    """Our environment with these actions, also beyond the end of the episode."""
    return [Seen(*one) for one in zip(*map(np.asarray, _walk(weights.astype(np.float32), actions)), strict=True)]


@jax.jit
def _walk(weights: Any, actions: Any) -> Seen:
    environment, plan, key, task = make_four_room(LENGTH), read_map(), jax.random.key(0), Rewards(weights)

    def one(place: Any, action: Any) -> tuple[Any, Seen]:
        place, step = environment.step(key, place, action, task)
        cell, taken = step.obs[:2].astype(jnp.int32), step.obs[2:-1].astype(jnp.int32)
        return place, Seen(cell, taken, step.reward, step.cost[0], step.terminated, event(step.obs, plan))

    return jax.lax.scan(one, environment.reset(key, task)[0], actions)[1]


def theirs(task: Any, actions: np.ndarray) -> list[Seen]:
    """Their environment with these actions, up to the end of the episode."""
    before, steps = task.initialize(), []
    for action in actions:
        after, reward, ended, noise = task.transition(int(action))
        found = np.flatnonzero(task.features(before, action, after, noise))
        feature = found[0] + 1 if len(found) == 1 else -len(found)  # theirs have no entry for 'nothing'
        cell, taken = after
        steps.append(Seen(cell, taken, reward[0], noise[0], ended, feature))
        before = after
        if ended:
            break
    return steps


def differences(one: Seen, other: Seen) -> list[str]:
    """The names of what differs."""
    return [name for name in Seen._fields if not np.allclose(getattr(one, name), getattr(other, name), atol=1e-6)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not (args.checkout / "main_shapes.py").is_file():
        parser.error(f"{args.checkout} is no checkout of SFT-CoP: it has no main_shapes.py")
    os.chdir(args.checkout)
    sys.path.insert(0, os.getcwd())
    tasks = [task for trial in range(30) for task in importlib.import_module("main_shapes").load_tasks(trial)]
    rng, counts = np.random.default_rng(args.seed), Counter()
    for episode in range(args.episodes):
        task = tasks[rng.integers(len(tasks))]
        actions = rng.choice(4, LENGTH, p=LEAST + (1 - 4 * LEAST) * rng.dirichlet(np.ones(4)))
        weights = np.array([task.shape_rewards[str(kind + 1)] for kind in range(KINDS)])
        for n, (own, other) in enumerate(zip(ours(weights, actions), theirs(task, actions), strict=False)):
            if wrong := differences(own, other):
                sys.exit(f"episode {episode + 1}, step {n + 1}: {', '.join(wrong)} differ: ours {own}, theirs {other}")
            counts += Counter({"steps": 1, EVENTS[int(own.feature)]: 1})
    goals, traps = (counts[EVENTS[n]] for n in ENDS)
    shapes = sum(counts[EVENTS[kind + 1]] for kind in range(KINDS))
    print(
        f"{args.episodes} episodes, {counts['steps']} steps, {shapes} shapes, {traps} trap entries, {goals} goals: "
        f"{', '.join(Seen._fields)} of every step are equal"
    )


if __name__ == "__main__":
    main()
