"""Digests of short trainings of every algorithm: did a change of the code change a number?

    python benchmarks/digests.py --out before.json          # with the old code
    python benchmarks/digests.py --against before.json      # with the new code, on the same machine

Every training is stopped half-way and resumed. A digest covers one column of a table or one array of a policy, by its
values alone, so that files and names may change. Only the command line is used, so that one script fits both versions.
Digests depend on the processor and on the versions of JAX and NumPy: they are not kept in the repository.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

VALUE_BASED = (
    "--epsilon-from 400 --epsilon-to 1500 --penalty-start 1000 --train-start 500 --batch-size 32 --buffer-size 1500"
)
DSR = "--freeze 1500 --update-steps 2 --features 16 --phi-hidden 16 --successor-hidden 16 --reservoir-size 50"
ON_POLICY = "--steps-per-epoch 1500 --batch-size 300 --update-iters 4 --hidden 16 --decay-steps 3000"
J_1, J_2 = "--costs diamond --budget 5", "--costs diamond,square --budget 5,10"
BASELINES = (
    *("pdo", "ppo-lag", "cppo-pid", "ipo", "p3o", "rcpo", "trpo-lag", "trpo-pid", "oncrpo", "cpo", "pcpo"),
    *("pg", "ppo", "npg", "trpo"),
)
ONE_COST = ("cpo", "pcpo")


def cases() -> dict[str, str]:
    """Name → the arguments of `safedsr train`."""
    found = {"dqn": f"dqn {VALUE_BASED}", "dsr": f"dsr {VALUE_BASED} {DSR}"}
    for name, costs in (("1", J_1), ("2", J_2)):
        found[f"safedqn-{name}"] = f"safedqn {costs} {VALUE_BASED}"
        found[f"safedsr-plus-{name}"] = f"safedsr-plus {costs} {VALUE_BASED} --kept 20 --phi-batch 16"
        for terminal in ("cut", "absorb", "restart"):
            found[f"safedsr-{terminal}-{name}"] = f"safedsr {costs} {VALUE_BASED} {DSR} --terminal {terminal}"
    found["safedsr-pretrained"] = f"safedsr {J_1} {VALUE_BASED} {DSR} --pretrain 50"
    for algorithm in BASELINES:
        found[f"{algorithm}-1"] = f"{algorithm} {J_1} {ON_POLICY}"
        if algorithm not in ONE_COST:
            found[f"{algorithm}-2"] = f"{algorithm} {J_2} {ON_POLICY}"
    return found


def digest(array: np.ndarray) -> str:
    """A short digest of an array's values, type and shape."""
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()[:16]


def read_table(stem: Path) -> dict[str, np.ndarray]:
    """A table of a run folder, in either of its two formats."""
    from safetensors.numpy import load_file

    if stem.with_suffix(".safetensors").exists():
        return load_file(stem.with_suffix(".safetensors"))
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(stem.with_suffix(".parquet"))
    return {column: table[column].to_numpy() for column in table.column_names}


def digests_of(folder: Path) -> dict[str, Any]:
    """Digests of a run folder: columns by name, arrays of the policy as a sorted list."""
    from safetensors.numpy import load_file

    found: dict[str, Any] = {}
    renamed = {"episodes.reached": "episodes.success"}  # the name before
    for name in ("episodes", "curves"):
        for column, values in read_table(folder / name).items():
            key = f"{name}.{column}"
            found[renamed.get(key, key)] = digest(values)
    for name, array in load_file(folder / "trajectories.safetensors").items():
        found[f"trajectories.{name}"] = digest(array)
    found["policy"] = sorted(digest(array) for array in load_file(folder / "policy.safetensors").values())
    return found


def train(arguments: str, folder: Path) -> None:
    """Half of the steps, then the rest."""
    from safedsr.cli import main

    algorithm, *rest = arguments.split()
    shared = f"--steps 3000 --trajectories 3000 --checkpoint-seconds 0 --out {folder}".split()
    maps = ["--layout", "one-room", "two-rooms", "--seeds", "2", "--first-seed", "7", "--time-limit", "100"]
    first = [*rest, *maps, *shared, "--steps", "1500", "--trajectories", "1500"]
    again = [*shared, "--resume"]
    for args in (first, again):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as words:
            code = main(["train", algorithm, *args])
        if code:
            sys.exit(f"{algorithm} ended with {code}: {words.getvalue()}")


def main() -> None:
    """Train every case, then write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the digests to this file")
    parser.add_argument("--against", type=Path, help="compare with this file; exits with 1 if a number differs")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--runs", type=Path, help="keep the run folders here, to look for a difference")
    options = parser.parse_args()
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    before = json.loads(options.against.read_text()) if options.against else {}
    found, different = {}, 0
    for name, arguments in cases().items():
        if options.only and not name.startswith(tuple(options.only)):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = (options.runs or Path(temporary)) / name
            train(arguments, folder)
            found[name] = digests_of(folder)
        if before:
            wrong = [key for key in {**before[name], **found[name]} if before[name].get(key) != found[name].get(key)]
            different += bool(wrong)
            print(f"{name:20} {'same' if not wrong else 'DIFFERS: ' + ', '.join(sorted(wrong))}", flush=True)
        else:
            print(f"{name:20} {len(found[name])} digests", flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    if before:
        print(f"{len(found)} cases, {different} differ")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
