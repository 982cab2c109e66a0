"""Whole trainings on one accelerator: three maps with and without costs, ten seeds, saving included.

    python benchmarks/gpu.py                    # SafeDSR in three precisions, SafeDQN, the eleven baselines
    python benchmarks/gpu.py safedqn --steps 20000
    python benchmarks/gpu.py safedsr-tf32 --out runs/gpu        # keep the run folders

Compiling is told apart: `safedsr train` pays for it the first time only. XLA's flags are set here as
docs/performance.md has them, unless XLA_FLAGS says otherwise.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE "
    "--xla_gpu_graph_min_graph_size=2 --xla_gpu_dot_merger_threshold_mb=0",
)
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"  # compiling is measured, too

import jax
from rich.console import Console
from rich.table import Table

from safedsr.agents.registry import find_algorithm
from safedsr.core.config import Matmul
from safedsr.engine.train import train
from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.errors import UserError
from safedsr.paper.experiments import ON_POLICY
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job, grid_job, tasks_for

SEEDS = tuple(range(10))
FEW_STEPS = 20_000  # that processors may be asked for, to see it run
# Name → algorithms, precision of matrix products, seconds that were wanted
WORK: dict[str, tuple[Sequence[str], Matmul, int]] = {
    "safedsr": (("safedsr",), "float32", 250),
    "safedsr-x3": (("safedsr",), "tensorfloat32x3", 250),
    "safedsr-tf32": (("safedsr",), "tensorfloat32", 150),
    "safedqn": (("safedqn",), "float32", 60),
    "baselines": (ON_POLICY, "float32", 900),
}
COMPILING = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


class Spent(NamedTuple):
    """Seconds."""

    running: float
    compiling: float

    def __str__(self) -> str:
        return f"{self.running:.0f} s, and {self.compiling:.0f} s compiling"


def paper_job(algorithm: str, training: TrainConfig, seeds: Sequence[int] = SEEDS) -> Job:
    """Three maps with and without costs, with the paper's settings."""
    environments = tasks_for(algorithm, ROOM_NAMES, ("none", "diamond"), "5")
    return grid_job(algorithm, environments, tuple(seeds), find_algorithm(algorithm).settings("paper"), train=training)


def measure(job: Job, out: Path, clock: dict[str, float]) -> Spent:
    """How long all runs of a job take, as one program."""
    clock.clear()
    began = time.perf_counter()
    train(job, out)
    compiling = sum(clock.values())
    return Spent(time.perf_counter() - began - compiling, compiling)


def compile_clock() -> dict[str, float]:
    """What compiling takes from now on, added up by kind."""
    clock: dict[str, float] = {}

    def add(event: str, duration_secs: float, **_: object) -> None:
        if event in COMPILING:
            clock[event] = clock.get(event, 0.0) + duration_secs

    jax.monitoring.register_event_duration_secs_listener(add)
    return clock


def main() -> None:
    """Measure one after the other and print as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WORK)}; all if none is given")
    parser.add_argument("--steps", type=int, default=500_000, help="environment steps of each run")
    parser.add_argument("--out", type=Path, help="folder for the run folders; they are not kept if it is not given")
    args = parser.parse_args()
    if unknown := set(args.names) - WORK.keys():
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(WORK)}")
    if jax.default_backend() == "cpu" and args.steps > FEW_STEPS:
        parser.error(f"no accelerator here, and this would take days; give --steps {FEW_STEPS} to see it run")
    table = Table("60 runs each", "steps", "seconds", "and compiling", "wanted")
    clock = compile_clock()
    with tempfile.TemporaryDirectory() as folder:
        for name in args.names or WORK:
            algorithms, matmul, wanted = WORK[name]
            spent = []
            for algorithm in algorithms:
                out = (args.out or Path(folder)) / (name if len(algorithms) == 1 else algorithm)
                try:
                    spent.append(measure(paper_job(algorithm, TrainConfig(args.steps, matmul=matmul)), out, clock))
                except UserError as error:
                    parser.error(str(error))
                print(f"{algorithm} ({matmul}): {spent[-1]}", flush=True)
            running, compiling = (sum(seconds) for seconds in zip(*spent, strict=True))
            goal = f"≤ {wanted}" if args.steps == 500_000 else ""
            table.add_row(name, f"{args.steps:,}", f"{running:.0f}", f"{compiling:.0f}", goal)
    Console().print(table)


if __name__ == "__main__":
    main()
