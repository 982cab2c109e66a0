"""Seconds a task of our agents in SFT-CoP's benchmark, all trials in one program, beside SFT-CoP's own code.

python benchmarks/transfer.py --tasks 8                 a measurement: the first task compiles and does not count
python benchmarks/transfer.py --weights FILE --out DIR  the whole experiment; --minutes stops it, the same call goes on
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from safedsr.errors import UserError
from safedsr.transfer import tasks as sets
from safedsr.transfer.arms import ARMS
from safedsr.transfer.run import run_arm
from safedsr.transfer.summary import read_courses


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", default="known,unknown")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--first-trial", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=sets.TASKS)
    parser.add_argument("--weights", type=Path, help="SFT-CoP's shapes_weights.csv")
    parser.add_argument("--theirs", type=Path, nargs="*", default=[], help="tables of SFT-CoP's agents")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=1e6)
    args = parser.parse_args()
    for name, value in (("trials", args.trials), ("first-trial", args.first_trial), ("tasks", args.tasks)):
        if value < 1:
            raise UserError(f"--{name} is {value}; give at least 1")
    until = time.time() + 60 * args.minutes
    trials = tuple(range(args.first_trial, args.first_trial + args.trials))
    made = (
        sets.from_file(args.weights, t, args.tasks) if args.weights else sets.generated(t, args.tasks) for t in trials
    )
    rows = list(made)
    out = args.out or Path(tempfile.mkdtemp())
    print(f"{jax.devices()[0].device_kind}, {args.trials} trials in one program; agents: {', '.join(ARMS)}", flush=True)
    for name in args.agents.split(","):
        ends: list[float] = []  # processor time at the end of each task

        def say(text: str, ends: list[float] = ends) -> None:
            ends.append(time.process_time())
            print(text, flush=True)

        run_arm(name, np.stack(rows), trials, out, until=until, say=say)
        if len(ends) > 1:
            each = (ends[-1] - ends[0]) / (len(ends) - 1) / len(trials)
            print(f"{name}: {each:.3f} s of processor time a task and trial, without the first task")
    for course in read_courses([out, *args.theirs]):
        seconds = course.values["seconds"][:, 1:] if course.agent in ARMS else course.values["seconds"]
        if seconds.size:
            print(f"{course.name}: {seconds.mean():.3f} s a task and trial (median {np.median(seconds):.3f})")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
