"""Whole trainings on one accelerator: three maps with and without costs, ten seeds, compilation and saving included.

    python benchmarks/gpu.py                    # SafeDSR in three precisions, SafeDQN, the eleven baselines
    python benchmarks/gpu.py safedqn --steps 20000

XLA's flags are set here as docs/performance.md has them, unless XLA_FLAGS says otherwise.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE "
    "--xla_gpu_graph_min_graph_size=2 --xla_gpu_dot_merger_threshold_mb=0",
)
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"  # compiling is part of what is measured

import jax
from rich.console import Console
from rich.table import Table

from safedsr.algorithms import find_algorithm
from safedsr.config import TrainConfig
from safedsr.job import Job, make_environments
from safedsr.paper.experiments import ON_POLICY
from safedsr.scene import ROOM_NAMES
from safedsr.train import train

SEEDS = tuple(range(10))
FEW_STEPS = 20_000  # that processors may be asked for, to see it run
# Name → algorithms, precision of matrix products, seconds that were wanted
WORK = {
    "safedsr": (("safedsr",), "float32", 250),
    "safedsr-x9": (("safedsr",), "bfloat16x9", 250),
    "safedsr-tf32": (("safedsr",), "tensorfloat32", 150),
    "safedqn": (("safedqn",), "float32", 60),
    "baselines": (ON_POLICY, "float32", 900),
}


def seconds_of(algorithm: str, matmul: str, steps: int) -> float:
    """How long all runs of an algorithm take, as one program."""
    environments = make_environments(algorithm, ROOM_NAMES, ("none",), "5")
    training = TrainConfig(steps=steps, matmul=matmul)  # type: ignore[arg-type]
    job = Job(algorithm, environments, SEEDS, find_algorithm(algorithm).settings("paper"), train=training)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        train(job, Path(folder) / "run")
        return time.perf_counter() - began


def main() -> None:
    """Measure one after the other and print as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WORK)}; all if none is given")
    parser.add_argument("--steps", type=int, default=500_000, help="environment steps of each run")
    args = parser.parse_args()
    if unknown := set(args.names) - WORK.keys():
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(WORK)}")
    if jax.default_backend() == "cpu" and args.steps > FEW_STEPS:
        sys.exit(f"no accelerator here, and this would take days; give --steps {FEW_STEPS} or fewer to see it run")
    table = Table("60 runs each", "steps", "seconds", "wanted")
    for name in args.names or WORK:
        algorithms, matmul, wanted = WORK[name]
        total = 0.0
        for algorithm in algorithms:
            seconds = seconds_of(algorithm, matmul, args.steps)
            total += seconds
            print(f"{algorithm} ({matmul}): {seconds:.0f} s", flush=True)
        table.add_row(name, f"{args.steps:,}", f"{total:.0f}", f"≤ {wanted}" if args.steps == 500_000 else "")
    Console().print(table)


if __name__ == "__main__":
    main()
