# pyright: reportMissingImports=false
# PyTorch comes with the extra "bench" only.
"""Steps per second of whole on-policy trainings: ten seeds as one compiled program, and one seed in PyTorch.

Both walk 20 000 steps an epoch in one room with diamond costs and learn from them. OmniSafe's own speed is no
measurement of this run: it was measured once, on two cores like these (one process, one seed, one thread).
PyTorch is left out where it is not installed (`pip install safedsr[bench]`).
"""

import time
from collections.abc import Callable
from importlib.util import find_spec

import jax
from rich.console import Console
from rich.table import Table

from safedsr import grid_job, tasks_for
from safedsr.agents.registry import find_algorithm
from safedsr.engine.program import Program
from safedsr.envs.grid.catalog import load_scene

LAYOUT, COSTS, BUDGET = "one-room", "diamond", "5"
SEEDS, EPOCH = 10, 20_000
REPEATS = 4
OMNISAFE = {"ppo-lag": 645, "trpo-pid": 529, "cpo": 469}  # steps/s


def measure(epoch: Callable[[int], None], steps: int) -> float:
    """Steps per second of the fastest epoch; the first one warms up."""
    epoch(0)
    seconds = []
    for repeat in range(1, REPEATS + 1):
        began = time.perf_counter()
        epoch(repeat)
        seconds.append(time.perf_counter() - began)
    return steps / min(seconds)


def compiled_epoch(algorithm: str) -> Callable[[int], None]:
    """An epoch of every seed, in the program that `safedsr train` runs."""
    environments = tasks_for(algorithm, [LAYOUT], [COSTS], BUDGET)
    program = Program(grid_job(algorithm, environments, tuple(range(SEEDS)), find_algorithm(algorithm).settings()))
    state = program.init()

    def epoch(repeat: int) -> None:
        nonlocal state
        state, *_ = jax.block_until_ready(program.advance(state, repeat * EPOCH, EPOCH))

    return epoch


def torch_epoch(algorithm: str) -> Callable[[int], None]:
    """An epoch of one seed in PyTorch, on one thread."""
    import torch
    from torch_onpolicy import Learner

    torch.set_num_threads(1)
    learner = Learner(algorithm, load_scene(LAYOUT, COSTS).layout, seed=0)
    return lambda repeat: learner.epoch()


def main() -> None:
    """Measure and print."""
    table = Table(title=f"{LAYOUT}, {COSTS}: epochs of {EPOCH} steps, best of {REPEATS}, steps/s")
    for name in ("", f"ours, {SEEDS} seeds", "PyTorch, 1 seed", "ratio", "OmniSafe (constant)", "ratio"):
        table.add_column(name, justify="right" if name else "left")
    for algorithm, omnisafe in OMNISAFE.items():
        ours = measure(compiled_epoch(algorithm), SEEDS * EPOCH)
        beside = ["–", "–"]
        if find_spec("torch"):
            plain = measure(torch_epoch(algorithm), EPOCH)
            beside = [f"{plain:,.0f}", f"{ours / plain:,.0f} ×"]
        table.add_row(algorithm, f"{ours:,.0f}", *beside, f"{omnisafe}", f"{ours / omnisafe:,.0f} ×")
    Console().print(table)


if __name__ == "__main__":
    main()
