# pyright: reportMissingImports=false
# PyTorch comes with the extra "bench" only.
"""The measurements of `benchmarks/dsr.py`, each in a process of its own: `python dsr_parts.py NAME` prints JSON.

A process of its own can be kept on one core, has devices of its own and its own peak of memory.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
from timing import as_at, interleave

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.engine.compiled import keep_compiled
from safedsr.engine.lanes import cores, use_cores
from safedsr.engine.program import Program
from safedsr.engine.train import train
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.environment import grid_task
from safedsr.envs.grid.layout import Scene
from safedsr.envs.grid.text import parse_scene
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job, grid_job, tasks_for

CONFIG = SafeDsrConfig()
STARTS = {"collect": 0, "features": CONFIG.train_start, "frozen": CONFIG.freeze}
BATCH, WIDTH, ACTIONS = CONFIG.batch_size, CONFIG.features, 4
SHORT = CONFIG.phi_hidden[-1] + 1  # numbers that stand for φ(s′, a)
# Products (rows, inputs, outputs) of one update after t_freeze that our algebra leaves: M's first layer times φ's last
# (M_prev's is made once a training); the hidden layers of M for every next action; M_prev once; M forward; its weights'
# gradients; its hidden layers' gradients.
LEAST = [
    (WIDTH, WIDTH, SHORT),
    (ACTIONS * BATCH, SHORT, WIDTH),
    (ACTIONS * BATCH, WIDTH, WIDTH),
    (BATCH, SHORT, WIDTH),
    *[(BATCH, WIDTH, WIDTH)] * 2,
    *[(BATCH, WIDTH, WIDTH)] * 3,
    *[(WIDTH, BATCH, WIDTH)] * 3,
    *[(BATCH, WIDTH, WIDTH)] * 2,
]
LEAST_FLOP = sum(2 * rows * inputs * outputs for rows, inputs, outputs in LEAST)


def diamond(seeds: int, config: SafeDsrConfig = CONFIG) -> Job:
    """Some seeds in one room with diamond costs."""
    return grid_job("safedsr", tasks_for("safedsr", ["one-room"], ["diamond"], "5"), tuple(range(seeds)), config)


class Trained:
    """A job whose steps can be taken again and again: as few as possible, or after t_freeze as many as a chunk has.

    Such a chunk begins with making the features of all that is remembered.
    """

    def __init__(self, job: Job, whole: bool = False):
        self.program = Program(job)
        self.state = self.program.init()
        fewest = job.agent.sync_every
        self.steps = {"collect": fewest, "features": fewest, "frozen": job.chunk if whole else fewest}

    def advance(self, phase: str) -> None:
        """Some steps in one phase."""
        start = STARTS[phase]
        done = self.program.advance(as_at(self.state, start), start, self.steps[phase])
        self.state = jax.block_until_ready(done)[0]


def torch_learner() -> Any:
    """The same in PyTorch, for one seed, with a memory to learn from; None where PyTorch is not installed."""
    if not find_spec("torch"):
        return None
    from torch_safedsr import Learner

    learner = Learner(load_scene("one-room", "diamond").layout, seed=0)
    learner.walk(0, 2000)
    return learner


def core(quick: bool) -> dict[str, Any]:
    """Milliseconds of processor time an update, ours and PyTorch's, and its least matrix products; for one core."""
    updates, repeats = (2, 1) if quick else (100, 5)
    ours, learner = Trained(diamond(1), whole=not quick), torch_learner()
    works: dict[str, Callable[[], object]] = {
        phase: (lambda phase=phase: ours.advance(phase)) for phase in ("collect", "features", "frozen")
    }
    amounts = dict(ours.steps)
    if learner:
        for name, frozen in (("torch_features", False), ("torch_frozen", True)):
            works[name] = lambda frozen=frozen: [learner.update(frozen) for _ in range(updates)]
            amounts[name] = updates
    works["sgemm"], amounts["sgemm"] = (lambda multiply=sgemm(): [multiply() for _ in range(updates)]), updates
    best = interleave(works, repeats, time.process_time)
    found = {name: 1e3 * seconds / amounts[name] for name, seconds in best.items()}
    for phase in ("features", "frozen"):  # acting and remembering are not part of an update
        found[phase] -= found["collect"]
    return found


def sgemm() -> Callable[[], None]:
    """The least matrix products of an update by NumPy's library, at its best: each shape has its matrices at hand."""
    rng = np.random.default_rng(0)
    shapes = {
        shape: [rng.random(size, np.float32) for size in (shape[:2], shape[1:], shape[::2])] for shape in set(LEAST)
    }

    def multiply() -> None:
        for shape in LEAST:
            a, b, place = shapes[shape]
            np.matmul(a, b, out=place)

    return multiply


def machine(quick: bool) -> dict[str, Any]:
    """Environment steps per second of ten seeds on every core, and of PyTorch, in each phase.

    PyTorch has as many threads as there are cores, or one if that is quicker: beside other processes it often is.
    """
    seeds, repeats = (2, 1) if quick else (10, 3)
    use_cores(seeds)
    ours, learner = Trained(diamond(seeds), whole=not quick), torch_learner()
    steps, found = 20 if quick else 60, {}
    for phase, start in STARTS.items():
        works: dict[str, Callable[[], object]] = {"ours": lambda phase=phase: ours.advance(phase)}
        for threads in {1, cores()} if learner else ():
            works[f"{threads} threads"] = lambda n=threads, start=start: advance_torch(learner, n, start, steps)
        seconds = interleave(works, repeats)
        found[phase] = seeds * ours.steps[phase] / seconds.pop("ours")
        for name, each in seconds.items():
            found[f"{phase}, {name}"] = steps / each
        if learner:
            found[f"torch_{phase}"] = steps / min(seconds.values())
    return found


def advance_torch(learner: Any, threads: int, start: int, steps: int) -> None:
    """Some steps in PyTorch with that many threads."""
    import torch

    torch.set_num_threads(threads)
    learner.advance(start, steps)


def work(quick: bool) -> dict[str, Any]:
    """Milliseconds of processor time of a step of all seeds, after t_freeze, against seeds, costs and cells."""
    small = SafeDsrConfig(sync_every=10 if quick else 50, buffer_size=2500)  # short turns: only the trend counts

    def measure(scene: Scene, seeds: int) -> float:
        environment = grid_task(scene, (5.0,) * len(scene.cost_names))
        ours = Trained(grid_job("safedsr", (environment,), tuple(range(seeds)), small))
        seconds = interleave({"ours": lambda: ours.advance("frozen")}, 1, time.process_time)["ours"]
        return 1e3 * seconds / ours.steps["frozen"]

    room = load_scene("one-room", "diamond")
    seeds = (1, 2) if quick else (1, 2, 5, 10, 30, 100)
    costs = (1, 2) if quick else (1, 2, 4, 8)
    sizes = ((11, 11), (31, 11)) if quick else ((11, 11), (31, 11), (101, 101))
    few = 2 if quick else 10
    return {
        "seeds": [(count, measure(room, count)) for count in seeds],
        "costs": [(count, measure(load_scene("one-room", shapes(count)), few)) for count in costs],
        "cells": [(width * height, measure(hall(width, height), few)) for width, height in sizes],
    }


def shapes(count: int) -> str:
    """So many different costs."""
    return ",".join(f"{weight}*diamond" for weight in range(1, count + 1))


def hall(width: int, height: int) -> Scene:
    """An empty map with a cost in the middle, walked from left to right."""
    rows = [["."] * width for _ in range(height)]
    rows[height // 2][0], rows[height // 2][width // 2], rows[height // 2][-1] = "S", "C", "G"
    return parse_scene("\n".join(map("".join, rows)), f"{width}x{height}")


def memory(quick: bool) -> dict[str, Any]:
    """The peak memory in GiB of a training of ten seeds, with everything that it writes."""
    seeds, start = (2, 500) if quick else (10, 1000)
    use_cores(seeds)
    job = diamond(seeds, SafeDsrConfig(train_start=500, freeze=start))
    steps = start + 500
    with tempfile.TemporaryDirectory() as folder:
        train(grid_job(job.algorithm, job.tasks, job.seeds, job.agent, train=TrainConfig(steps=steps)), folder)
    return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def main() -> None:
    """One measurement, as JSON."""
    name, quick = sys.argv[1], "--quick" in sys.argv
    keep_compiled()
    print(json.dumps({"core": core, "machine": machine, "work": work, "memory": memory}[name](quick)))


if __name__ == "__main__":
    main()
