"""The command 'safedsr reproduce transfer': many tasks in a row, SFT-CoP's benchmark."""

from pathlib import Path
from typing import Annotated

import tyro

from safedsr.cli.parse import run_command
from safedsr.errors import UserError

TIMES = "--quick takes about a minute on two cores; --full up to an hour for each agent, or minutes on a GPU"
NOT_COMPARABLE = "QUICK: two trials, few tasks and steps; these numbers are NOT comparable with those of --full."
QUICK_TASKS, QUICK_STEPS, QUICK_TRIALS = 6, 5_000, 2
FULL_TRIALS = 10


def transfer_command(args: list[str]) -> None:
    """Parse and run the command."""
    run_command(transfer, "safedsr reproduce transfer", args)


def transfer(
    quick: Annotated[bool, tyro.conf.arg(help="Few trials, tasks and steps, to test that everything runs.")] = False,
    full: Annotated[bool, tyro.conf.arg(help="Ten trials of 128 tasks of 20 000 steps.")] = False,
    agents: Annotated[tuple[str, ...], tyro.conf.arg(help="Only these agents; all of ours if not given.")] = (),
    weights: Annotated[
        Path | None,
        tyro.conf.arg(help="SFT-CoP's file shapes_weights.csv, for its tasks; our own set of tasks if not given."),
    ] = None,
    theirs: Annotated[
        tuple[Path, ...],
        tyro.conf.arg(help="Tables of other agents on the same tasks, for the table and the figures."),
    ] = (),
    trials: Annotated[int | None, tyro.conf.arg(help="Number of trials.")] = None,
    first_trial: Annotated[int, tyro.conf.arg(help="The first trial.")] = 1,
    tasks: Annotated[int | None, tyro.conf.arg(help="Number of tasks in a row.")] = None,
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for the tables; runs/transfer if not given.")] = None,
) -> None:
    """Learn 128 tasks in a row in four rooms with traps, and compare with SFT-CoP's agents.

    The same command continues an interrupted experiment.
    """
    if quick == full:
        raise UserError(f"choose either --quick (not comparable) or --full. {TIMES}")
    from safedsr.transfer import tasks as sets

    count = tasks if tasks is not None else (QUICK_TASKS if quick else sets.TASKS)
    number = trials if trials is not None else (QUICK_TRIALS if quick else FULL_TRIALS)
    for name, value, most in (
        ("tasks", count, sets.TASKS),
        ("trials", number, 1000),
        ("first-trial", first_trial, 1000),
    ):
        if not 1 <= value <= most:
            raise UserError(f"--{name} is {value}; give 1 to {most}")
    import numpy as np

    which = range(first_trial, first_trial + number)
    given = [sets.from_file(weights, t, count) if weights else sets.generated(t, count) for t in which]
    from safedsr.transfer.run import ARMS, find_arm, run_arm
    from safedsr.transfer.summary import read_courses

    chosen = agents or tuple(ARMS)
    for name in chosen:
        find_arm(name)
    for course in read_courses(theirs):  # wrong tables are refused now, not after the runs
        if course.agent in chosen:
            raise UserError(f"--theirs has the agent '{course.agent}', which is run here; leave one of them out")
    folder = out or Path("runs") / ("transfer-quick" if quick else "transfer")
    if quick:
        print(NOT_COMPARABLE)
    for name in chosen:
        run_arm(
            name,
            np.stack(given),
            tuple(which),
            folder,
            steps=QUICK_STEPS if quick else None,
            say=lambda text: print(text, flush=True),
        )
    _show(folder, theirs)
    if quick:
        print(NOT_COMPARABLE)


def _show(folder: Path, theirs: tuple[Path, ...]) -> None:
    """Print the table and draw the figures."""
    from safedsr.cli.terminal import print_table
    from safedsr.transfer.summary import COLUMNS, read_courses, summary_rows

    courses = read_courses([folder, *theirs])
    print_table(COLUMNS, summary_rows(courses), title="means over all tasks: IQM over trials and 95 % interval")
    try:
        from safedsr.figures.transfer import draw_all
    except ImportError:
        print("no figures: matplotlib is not installed")
    else:
        for path in draw_all(courses, folder / "figures"):
            print(path)
    print(f"tables: {folder}")
