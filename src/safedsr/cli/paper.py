"""The commands about the paper's experiments: reproduce, pack."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from safedsr.errors import UserError

NOT_COMPARABLE = """\
QUICK: two seeds, a fiftieth of the steps, settings shortened to match. This shows that everything runs;
its numbers are NOT comparable with the paper's, nor with those of --full."""
Algos = Annotated[tuple[str, ...], tyro.conf.arg(help="Only these algorithms.")]
Layouts = Annotated[tuple[str, ...], tyro.conf.arg(help="Other maps than the experiment's.")]


def reproduce(
    experiment: tyro.conf.Positional[
        Annotated[
            str,
            tyro.conf.arg(
                help="baselines (Tables 3 to 7), extras (side experiments of Sec. 5.3), plus (SafeDSR-plus and its "
                "ablations), or adaptation (changing costs, Sec. 5.4; it has flags of its own: safedsr reproduce "
                "adaptation --help)."
            ),
        ]
    ],
    quick: Annotated[bool, tyro.conf.arg(help="Few seeds and steps, to see it run.")] = False,
    full: Annotated[bool, tyro.conf.arg(help="All seeds and steps of the paper.")] = False,
    algos: Algos = (),
    layouts: Layouts = (),
    seeds: Annotated[int | None, tyro.conf.arg(help="Another number of seeds.")] = None,
    out: Annotated[Path | None, tyro.conf.arg(help="Folder of the run folders; runs/EXPERIMENT if not given.")] = None,
) -> None:
    """Run the paper's experiments; the same command goes on with what was stopped."""
    from safedsr.paper.experiments import EXPERIMENTS, TIMES

    if quick == full:
        times = "; ".join(f"{name}: {TIMES[name]}" for name in ([experiment] if experiment in TIMES else EXPERIMENTS))
        raise UserError(f"choose either --quick (not comparable with the paper) or --full. {times}")
    from safedsr.cli.display import jobs_bar
    from safedsr.paper.reproduce import plan, share_done
    from safedsr.paper.reproduce import reproduce as run

    tasks = plan(experiment, quick=quick, algos=algos, layouts=layouts, seeds=seeds)
    out = out or Path("runs") / (f"{experiment}-quick" if quick else experiment)
    done = share_done(tasks, out)
    if quick:
        print(NOT_COMPARABLE)
    with jobs_bar(experiment, done) as show:
        broken = run(tasks, out, show)
    if experiment == "plus" and not broken:
        _finish_plus(quick, out)
    print(f"run folders: {out}\ntables and figures: safedsr report {out} --out {out}-report")
    if quick:
        print("QUICK: not comparable with the paper's numbers")
    if broken:
        raise FloatingPointError("; ".join(broken))


def _finish_plus(quick: bool, out: Path) -> None:
    """All tables, and what the agents that know one cost map make of others."""
    from safedsr.cli.terminal import print_table
    from safedsr.paper import plus_adaptation, plus_tables
    from safedsr.paper.adaptation_plan import QUICK, Scale
    from safedsr.paper.adaptation_tables import TextTable

    def show(tables: Sequence[TextTable]) -> None:
        for table in tables:
            print_table(table.columns, table.rows, table.title)
            print(table.note)

    show(plus_tables.finish(out, oracle=not quick))
    show(plus_adaptation.finish(out, QUICK if quick else Scale()))
    print(f"these tables: {out / plus_tables.FILE} and {out / plus_adaptation.FOLDER / plus_adaptation.FILE}")


def pack(
    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(help="Run folders, or folders of them.")]],
    out: Annotated[Path, tyro.conf.arg(help="Folder for the packed ones, each under its name.")],
) -> None:
    """Pack run folders: what tables and figures need, small enough to commit."""
    from safedsr.runs.collect import find_runs
    from safedsr.runs.pack import pack_all

    remarks: list[str] = []
    folders = find_runs(runs, remarks)
    if not folders:
        why = "; ".join(remarks) or "no run folder given"
        raise UserError(f"{why}; write for example: safedsr pack runs/safedsr --out packed")
    for folder in pack_all(folders, out, remarks):
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{folder}  {size / 1024:.0f} KiB")
    for remark in remarks:
        print(remark)
