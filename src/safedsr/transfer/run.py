"""Run agents over tasks in a row and keep a table for each; an interrupted run goes on from its last save."""

import csv
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from safedsr.envs.twins.four_room import Rewards
from safedsr.runs import storage
from safedsr.transfer import saved
from safedsr.transfer.arms import Agent, find_arm, make_agent
from safedsr.transfer.saved import WORK, Place
from safedsr.transfer.summary import SHAPES
from safedsr.transfer.tasks import digest
from safedsr.transfer.traveller import numbers

COLUMNS = (
    *("agent", "trial", "task", "reward", "traps", "episodes", "goals"),
    *("greedy_reward", "greedy_traps", "greedy_goal", "greedy_steps", "lambda", "states", "stored", "borrowed", "lost"),
    *("seconds", "reward_every_1000", "traps_every_1000", SHAPES),
)
Row = dict[str, Any]


def open_run(
    name: str, tasks: np.ndarray, trials: Sequence[int], out: Path, steps: int | None = None
) -> tuple[Agent, Place]:
    """An agent by name, and where its run is kept; `steps` a task, if not as many as it usually has."""
    config = find_arm(name)
    if steps is not None:
        config = replace(config, steps=steps)
    about = {"arm": name, "trials": " ".join(map(str, trials)), "config": repr(config), "tasks": digest(tasks)}
    files = out / f"{name}.csv", out / WORK / f"{name}.safetensors"
    return make_agent(config), Place(*files, about, name, tuple(trials), tasks, config.steps)


def run_arm(
    name: str,
    tasks: np.ndarray,
    trials: Sequence[int],
    out: Path,
    *,
    steps: int | None = None,
    until: float = float("inf"),
    say: Callable[[str], None] = print,
) -> list[Row]:
    """All tasks [trials, tasks, 3] of all trials at once; saves NAME.csv after each task.

    After the time `until` no further task begins, but each call finishes one at least; the same call goes on later.
    """
    agent, place = open_run(name, tasks, trials, out, steps)
    storage.make_folder(out)
    state, rows = saved.resume(place, agent)
    done, count = len(rows) // len(trials), tasks.shape[1]
    if state is None and done < count:
        state = agent.init(jnp.asarray(trials))
    first = done
    if done == count:
        say(f"{name}: its table is complete")
    while done < count and (done == first or time.time() < until):
        began = time.perf_counter()
        now, before = (Rewards(jnp.asarray(tasks[:, t])) for t in (done, max(done - 1, 0)))
        state, report = agent.task(state, now, before)
        found = numbers(report)
        rows += _rows(name, trials, tasks, done + 1, found, time.perf_counter() - began)
        done += 1
        write_rows(out / f"{name}.csv", rows)
        if done % agent.save_every == 0 and done < count:
            saved.save(place, agent.used(state), len(rows))
        say(
            f"{name}: task {done} of {count}, reward {found['reward'].sum(1).mean():.0f}, "
            f"trap entries {found['traps'].sum(1).mean():.0f}, {time.perf_counter() - began:.1f} s"
        )
    if done == count:
        saved.finish(place, len(rows))
    elif state is not None and done % agent.save_every:
        saved.save(place, agent.used(state), len(rows))
    return rows


def _rows(
    name: str, trials: Sequence[int], tasks: np.ndarray, task: int, found: dict[str, np.ndarray], seconds: float
) -> list[Row]:
    rows = []
    for i, trial in enumerate(trials):
        one = {key: value[i] for key, value in found.items()}
        rewards, traps = np.cumsum(one["reward"]), np.cumsum(one["traps"])
        rows.append(
            {
                "agent": name,
                "trial": trial,
                "task": task,
                "reward": round(float(rewards[-1]), 3),
                "traps": int(traps[-1]),
                "greedy_reward": round(float(one["greedy_reward"]), 4),
                "lambda": round(float(one["lam"]), 4),
                "borrowed": round(float(one["borrowed"]), 4),
                "seconds": round(seconds / len(trials), 3),
                "reward_every_1000": " ".join(f"{x:.2f}" for x in rewards),
                "traps_every_1000": " ".join(f"{x:.0f}" for x in traps),
                SHAPES: " ".join(f"{x:.4f}" for x in tasks[i, task - 1]),
                **{
                    key: int(one[key])
                    for key in (
                        *("episodes", "goals", "greedy_traps", "greedy_goal", "greedy_steps"),
                        *("states", "stored", "lost"),
                    )
                },
            }
        )
    return rows


def write_rows(path: Path, rows: Sequence[Row], columns: Sequence[str] = COLUMNS) -> None:
    """Write rows as a csv file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    storage.write_text(path, text.getvalue())
