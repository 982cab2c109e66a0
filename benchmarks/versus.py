"""Two versions of safedsr take turns: how long does a chunk of each training take?

    git worktree add /tmp/old COMMIT
    python benchmarks/versus.py /tmp/old
    python benchmarks/versus.py /tmp/old --platform cuda --seeds 60 --matmul tensorfloat32

A process for each version compiles the same training; then both run the same chunks, one after the other, and the
medians are compared. Each line shows new / old: below 1 the version of this folder is faster.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

CASES = {  # algorithm, first step, steps of a chunk
    "safedqn": ("safedqn", 20_000, 5_000),
    "safedsr, φ learns": ("safedsr", 20_000, 500),
    "safedsr, φ frozen": ("safedsr", 60_000, 500),
    "safedsr-plus": ("safedsr-plus", 20_000, 2_500),
    "ppo-lag": ("ppo-lag", 0, 20_000),
    "trpo-pid": ("trpo-pid", 0, 20_000),
}
SHARED_STEPS = 500_000


def make_program(case: str, seeds: int, matmul: Any) -> Any:
    """The program of a case, with whichever version is on the path."""
    import safedsr
    from safedsr import TrainConfig
    from safedsr.engine.lanes import use_cores

    algorithm, _, chunk = CASES[case]
    use_cores(seeds)
    from safedsr.agents.registry import find_algorithm
    from safedsr.engine.program import Program

    tasks = safedsr.tasks_for(algorithm, ["one-room"], ["diamond"], "5")
    train = TrainConfig(steps=SHARED_STEPS, chunk=chunk, matmul=matmul)
    return Program(safedsr.grid_job(algorithm, tasks, range(seeds), find_algorithm(algorithm).default, train=train))


def make_old_program(case: str, seeds: int, matmul: Any) -> Any:
    """The same before the rooms (up to commit e807894)."""
    from safedsr.algorithms import find_algorithm  # pyright: ignore[reportMissingImports]
    from safedsr.config import TrainConfig  # pyright: ignore[reportMissingImports]
    from safedsr.devices import use_cores  # pyright: ignore[reportMissingImports]
    from safedsr.job import Job, make_environments  # pyright: ignore[reportMissingImports]
    from safedsr.program import Program  # pyright: ignore[reportMissingImports]

    algorithm, _, chunk = CASES[case]
    use_cores(seeds)
    environments = make_environments(algorithm, ["one-room"], ["diamond"], "5")
    train = TrainConfig(steps=SHARED_STEPS, chunk=chunk, matmul=matmul)
    return Program(Job(algorithm, environments, tuple(range(seeds)), find_algorithm(algorithm).default, train=train))


def work(case: str, seeds: int, matmul: str) -> None:
    """Run a chunk for each line of standard input and print its seconds."""
    import jax

    _, step, chunk = CASES[case]
    try:
        import safedsr.engine  # noqa: F401

        program = make_program(case, seeds, matmul)
    except ModuleNotFoundError:
        program = make_old_program(case, seeds, matmul)
    state = program.init()
    if "count" in getattr(getattr(state, "agent", None), "_fields", ()):  # a full ring, as it is at that step
        state = state._replace(agent=state.agent._replace(count=state.agent.count + step))
    for _ in sys.stdin:
        began = time.perf_counter()
        state, _, _ = program.advance(state, step, chunk)
        jax.block_until_ready(state)
        print(time.perf_counter() - began, flush=True)


def start(case: str, tree: Path, options: argparse.Namespace) -> subprocess.Popen[str]:
    """A worker with one version on its path."""
    path = os.pathsep.join([str(tree / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": options.platform}
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # two processes share an accelerator
    command = [sys.executable, __file__, "--work", case, "--seeds", str(options.seeds), "--matmul", options.matmul]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def turn(worker: subprocess.Popen[str]) -> float:
    """The seconds of one chunk."""
    stdin, stdout = worker.stdin, worker.stdout
    assert stdin and stdout
    stdin.write("go\n")
    stdin.flush()
    return float(stdout.readline())


def main() -> None:
    """Compare all cases, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?", help="a checkout of the other version")
    parser.add_argument("--turns", type=int, default=15, help="chunks of each version")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of a training")
    parser.add_argument("--platform", default="cpu", help="JAX's name of the device")
    parser.add_argument("--matmul", default="float32", help="precision of matrix products")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.work, options.seeds, options.matmul)
    if options.old is None:
        parser.error("give a checkout of the other version")
    here = Path(__file__).parent.parent
    for case in CASES:
        if options.only and not case.startswith(tuple(options.only)):
            continue
        workers = {"old": start(case, options.old, options), "new": start(case, here, options)}
        seconds: dict[str, list[float]] = {name: [] for name in workers}
        for worker in workers.values():
            turn(worker)  # compiles
        for number in range(options.turns):
            for name in ("old", "new") if number % 2 else ("new", "old"):
                seconds[name].append(turn(workers[name]))
        for worker in workers.values():
            worker.kill()
            worker.wait()
        old, new = (median(seconds[name]) for name in ("old", "new"))
        print(f"{case:20} old {1e3 * old:8.1f} ms  new {1e3 * new:8.1f} ms  new / old {new / old:.3f}", flush=True)
    return None


if __name__ == "__main__":
    main()
