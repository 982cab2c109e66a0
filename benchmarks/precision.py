"""What a precision of matrix products costs and gives: SafeDSR's updates on one accelerator, and errors of products.

    python benchmarks/precision.py                      # sixty lanes: three maps with and without costs, ten seeds
    python benchmarks/precision.py --seeds 1 --steps 500            # small enough for processors

An update is timed with everything between two updates: steps in the environment, sampling, remembering.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
from gpu import paper_job  # and XLA's flags
from rich.console import Console
from rich.table import Column, Table
from timing import as_at, interleave

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.core.config import Matmul
from safedsr.core.precision import precision
from safedsr.engine.program import Program
from safedsr.runs.config import TrainConfig

PHASES = {"before t_freeze": 20_000, "after t_freeze": 60_000}  # a step in each
SYNC = SafeDsrConfig().period
SHAPES = {"a layer": ((256, 128), (128, 128)), "its slope": ((128, 256), (256, 128))}


def errors(matmul: Matmul) -> dict[str, float]:
    """Root mean square error of products against float64, as a share of the product's size."""
    found = {}
    for name, shapes in SHAPES.items():
        x, w = (jax.random.normal(jax.random.key(n), shape) for n, shape in enumerate(shapes))
        x = jax.nn.relu(x)
        with precision(matmul):
            product = jax.jit(jnp.matmul)(x, w)
        exact = np.asarray(x, np.float64) @ np.asarray(w, np.float64)
        error = np.asarray(product, np.float64) - exact
        found[name] = float(np.sqrt((error**2).mean() / (exact**2).mean()))
    return found


def turns(matmul: Matmul, seeds: int, steps: int) -> dict[str, Callable[[], object]]:
    """Some steps of all lanes, in each phase of the training."""
    program = Program(paper_job("safedsr", TrainConfig(steps, chunk=steps, matmul=matmul), range(seeds)))
    states = [program.advance(program.init(), 0, steps)[0]]  # some steps to remember

    def turn(at: int) -> None:
        states.append(program.advance(as_at(states.pop(), at), at, steps)[0])  # the state goes in, and is gone
        jax.block_until_ready(states)

    return {f"{matmul} {name}": partial(turn, at) for name, at in PHASES.items()}


def main() -> None:
    """All precisions in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1000, help=f"environment steps of a turn, a multiple of {SYNC}")
    args = parser.parse_args()
    if args.steps < 1 or args.steps % SYNC:
        parser.error(f"--steps is {args.steps}; give a multiple of {SYNC}")
    if args.seeds < 1:
        parser.error(f"--seeds is {args.seeds}; give at least 1")
    choices: tuple[Matmul, ...] = get_args(Matmul)
    works = {name: work for matmul in choices for name, work in turns(matmul, args.seeds, args.steps).items()}
    seconds = interleave(works, repeats=3)
    lanes = Column(f"{6 * args.seeds} lanes", no_wrap=True)
    table = Table(lanes, *(f"{name}, ms" for name in PHASES), *(f"error of {x}" for x in SHAPES))
    for matmul in choices:
        times = (1e3 * seconds[f"{matmul} {name}"] / args.steps for name in PHASES)
        table.add_row(matmul, *(f"{x:.3f}" for x in times), *(f"{x:.1e}" for x in errors(matmul).values()))
    Console().print(table)


if __name__ == "__main__":
    main()
