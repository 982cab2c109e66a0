"""The commands for the paper's experiments: reproduce, pack."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from safedsr.cli.where import Executors, Where, executor_for, only_plan
from safedsr.errors import UserError, unknown
from safedsr.runs.config import Matmul, TrainConfig

if TYPE_CHECKING:
    from safedsr.paper.reproduce import PlannedRun

NOT_COMPARABLE = """\
QUICK: two seeds, 1/50 of the steps, schedules shortened to match. This run only tests that everything works;
its numbers are NOT comparable with the paper's, nor with those of --full."""
Algos = Annotated[tuple[str, ...], tyro.conf.arg(help="Only these algorithms.")]
Layouts = Annotated[tuple[str, ...], tyro.conf.arg(help="Maps to use instead of the experiment's maps.")]


def reproduce(
    experiment: tyro.conf.Positional[
        Annotated[
            str,
            tyro.conf.arg(
                help="baselines (Tables 3 to 7), extras (additional experiments of Sec. 5.3), readings (other "
                "readings of SafeDSR), plus (SafeDSR-plus and its ablations), adaptation (changing costs, Sec. 5.4), "
                "or transfer (SFT-CoP's benchmark). The last two have flags of their own: "
                "safedsr reproduce adaptation --help."
            ),
        ]
    ],
    quick: Annotated[bool, tyro.conf.arg(help="Few seeds and steps, to test that everything runs.")] = False,
    full: Annotated[bool, tyro.conf.arg(help="All seeds and steps of the paper.")] = False,
    algos: Algos = (),
    layouts: Layouts = (),
    seeds: Annotated[int | None, tyro.conf.arg(help="Number of seeds, if not that of the experiment.")] = None,
    runs: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help="Only the run folders of these names; several processes can share one --out."),
    ] = (),
    matmul: Annotated[
        Matmul, tyro.conf.arg(help="Precision of matrix products on accelerators; tables are of float32.")
    ] = TrainConfig.matmul,
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for the run folders; runs/EXPERIMENT if not given.")] = None,
    executor: Annotated[
        Executors | None,
        tyro.conf.arg(help="Train several runs at the same time, as 'safedsr sweep' does; if not given, one by one."),
    ] = None,
    where: Annotated[Where, tyro.conf.arg(name="")] = Where(),
) -> None:
    """Run the paper's experiments. The same command continues an interrupted experiment."""
    from safedsr.paper.experiments import EXPERIMENTS, TIMES

    if experiment not in EXPERIMENTS:
        raise unknown("experiment", experiment, (*EXPERIMENTS, "adaptation", "transfer"))
    if quick == full:
        raise UserError(f"choose either --quick (not comparable with the paper) or --full. {TIMES[experiment]}")
    if executor:
        only_plan()
    elif where != Where():
        raise UserError("flags of an executor are given, but none is chosen; add --executor local, ray or slurm")
    from safedsr.paper.reproduce import plan

    tasks = plan(experiment, quick=quick, algos=algos, layouts=layouts, seeds=seeds, runs=runs, matmul=matmul)
    out = out or Path("runs") / (f"{experiment}-quick" if quick else experiment)
    if quick:
        print(NOT_COMPARABLE)
    broken = _run_by(executor, where, tasks, out) if executor else _run_here(experiment, tasks, out)
    if experiment == "plus" and not broken and not runs:
        _finish_plus(quick, out)
    print(f"run folders: {out}\ntables and figures: safedsr report {out} --out {out}-report")
    if quick:
        print("QUICK: not comparable with the paper's numbers")
    if broken:
        raise FloatingPointError("; ".join(broken))


def _run_here(experiment: str, planned: "Sequence[PlannedRun]", out: Path) -> list[str]:
    """Train runs one by one in this process; return the errors of those that failed."""
    from safedsr.cli.display import jobs_bar
    from safedsr.paper.reproduce import reproduce as run
    from safedsr.paper.reproduce import share_done

    with jobs_bar(experiment, share_done(planned, out)) as show:
        return run(planned, out, show)


def _run_by(executor: str, where: Where, planned: "Sequence[PlannedRun]", out: Path) -> list[str]:
    """Train runs by an executor of sweeps; return the errors of those that failed."""
    from safedsr.cli.sweep_display import watching
    from safedsr.sweep.plan import Planned
    from safedsr.sweep.run import run_all

    doing = executor_for(executor, where, out, len(planned))
    try:
        with watching(out) as watcher:
            found = run_all([Planned(one.name, one.name, {}, one.job) for one in planned], out, doing, watcher)
    finally:
        doing.close()
    return [f"{name}: {outcome.reason}" for name, outcome in found.items() if outcome.state == "failed"]


def _finish_plus(quick: bool, out: Path) -> None:
    """Print and save the tables of the experiment 'plus', among them those of the adaptation to other costs."""
    from safedsr.cli.terminal import print_table
    from safedsr.paper import plus_adaptation, plus_greedy, plus_tables
    from safedsr.paper.adaptation_plan import QUICK, Scale
    from safedsr.paper.adaptation_tables import TextTable

    def show(tables: Sequence[TextTable]) -> None:
        for table in tables:
            print_table(table.columns, table.rows, table.title)
            print(table.note)

    show(plus_tables.finish(out, oracle=not quick))
    show(plus_greedy.finish(out))
    show(plus_adaptation.finish(out, QUICK if quick else Scale()))
    print(
        f"these tables are saved in {out / plus_tables.FILE} and {out / plus_adaptation.FOLDER / plus_adaptation.FILE}"
    )


def pack(
    runs: tyro.conf.Positional[
        Annotated[tuple[Path, ...], tyro.conf.arg(help="Run folders, or folders that contain run folders.")]
    ],
    out: Annotated[Path, tyro.conf.arg(help="Folder for the small copies; each copy keeps its name.")],
) -> None:
    """Make small copies of run folders that hold all data for tables and figures."""
    from safedsr.runs.collect import find_runs
    from safedsr.runs.pack import pack_all

    remarks: list[str] = []
    folders = find_runs(runs, remarks)
    if not folders:
        why = "; ".join(remarks) or "no run folder given"
        raise UserError(f"{why}; after a training, write for example: safedsr pack runs/first --out packed")
    for folder in pack_all(folders, out, remarks):
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{folder}  {size / 1024:.0f} KiB")
    for remark in remarks:
        print(remark)
