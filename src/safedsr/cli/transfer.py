"""The command 'safedsr reproduce transfer': many tasks in a row, SFT-CoP's benchmark."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from safedsr.cli.parse import run_command
from safedsr.errors import UserError

if TYPE_CHECKING:
    from safedsr.transfer.others import Experiment
    from safedsr.transfer.summary import Course

TIMES = "--quick takes about a minute on two cores; --full up to an hour for each agent, or minutes on a GPU"
NOT_COMPARABLE = "QUICK: few trials, tasks and steps; these numbers are NOT comparable with those of --full."
QUICK_TASKS, QUICK_STEPS, QUICK_TRIALS = 6, 5_000, 2
FULL_TRIALS = 10


def transfer_command(args: list[str]) -> None:
    """Parse and run the command."""
    run_command(transfer, "safedsr reproduce transfer", args)


def transfer(
    quick: Annotated[bool, tyro.conf.arg(help="Few trials, tasks and steps, to test that everything runs.")] = False,
    full: Annotated[bool, tyro.conf.arg(help="Ten trials of 128 tasks of 20 000 steps.")] = False,
    agents: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            help="Only these agents; all of ours with a table if not given ('network' takes hours); spaces or commas "
            "between."
        ),
    ] = (),
    weights: Annotated[
        Path | None,
        tyro.conf.arg(help="SFT-CoP's file shapes_weights.csv, for its tasks; our own set of tasks if not given."),
    ] = None,
    theirs: Annotated[
        tuple[Path, ...],
        tyro.conf.arg(help="Tables of other agents on the same tasks, for the table and figures; not with --quick."),
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
    if quick and theirs:
        raise UserError(f"--theirs is for --full only: with --quick, tasks have {QUICK_STEPS} steps, and theirs 20000")
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
    from safedsr.transfer.arms import ARMS, TABLES, find_arm
    from safedsr.transfer.others import beside, require_same_tasks
    from safedsr.transfer.run import run_arm

    named = tuple(dict.fromkeys(name for text in agents for name in text.split(",") if name))
    if agents and not named:
        raise UserError(f"--agents names no agent; give some of {', '.join(ARMS)}")
    chosen = named or tuple(TABLES)
    lengths = [QUICK_STEPS if quick else config.steps for config in map(find_arm, chosen)]
    folder = out or Path("runs") / ("transfer-quick" if quick else "transfer")
    there = _others_in(folder, chosen)
    ours = _experiment(weights, range(first_trial, first_trial + number), count, lengths[0], chosen)
    require_same_tasks(there, ours, folder)  # wrong tables are refused now, not after the runs
    others = beside(theirs, ours._replace(agents=(*chosen, *(course.agent for course in there))))
    if quick:
        print(NOT_COMPARABLE)
    for name in chosen:
        run_arm(
            name,
            ours.tasks,
            ours.trials,
            folder,
            steps=lengths[0],
            say=lambda text: print(text, flush=True),
        )
    _show(folder, others)
    if quick:
        print(NOT_COMPARABLE)


def _others_in(folder: Path, chosen: tuple[str, ...]) -> list["Course"]:
    """The agents that have a table in the folder already and are not run now."""
    from safedsr.transfer.summary import SPEED, WITHIN, read_courses, read_within

    read_within(folder / WITHIN)  # refuses a damaged one
    left_out = (WITHIN, SPEED, *(f"{name}.csv" for name in chosen))
    return read_courses([path for path in sorted(folder.glob("*.csv")) if path.name not in left_out])


def _experiment(weights: Path | None, trials: range, count: int, steps: int, chosen: tuple[str, ...]) -> "Experiment":
    import numpy as np

    from safedsr.transfer import tasks as sets
    from safedsr.transfer.others import Experiment

    given = [sets.from_file(weights, t, count) if weights else sets.generated(t, count) for t in trials]
    sftcops = weights is not None and sets.is_sftcops(weights)
    return Experiment(tuple(trials), np.stack(given), steps, weights is not None, chosen, sftcops)


def _show(folder: Path, others: list["Course"]) -> None:
    """Print the table and draw the figures."""
    from safedsr.cli.terminal import print_table
    from safedsr.transfer.summary import COLUMNS, in_order, read_courses, summary_rows

    courses = in_order([*read_courses([folder]), *others])
    print_table(COLUMNS, summary_rows(courses), title="means over all tasks: IQM over trials and 95 % interval")
    if len({(course.trials, course.values["reward"].shape[1]) for course in courses}) > 1:
        print("note: these agents have not all learnt the same trials and tasks; compare only rows that have")
    try:
        from safedsr.figures.transfer import draw_all
    except ImportError:
        print("no figures: matplotlib is not installed")
    else:
        for path in draw_all(courses, folder / "figures"):
            print(path)
    print(f"tables: {folder}")
