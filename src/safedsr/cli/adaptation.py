"""The command 'safedsr reproduce adaptation': the paper's experiment with changing costs, in parts."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro

from safedsr.cli.parse import run_command
from safedsr.core.config import Matmul
from safedsr.errors import UserError

KINDS = ("before", "after", "finetune", "scratch")
OWNERS = (
    *("safedsr-cut", "safedsr-cut-pretrained", "safedsr-absorb", "safedsr-absorb-pretrained"),
    *("safedqn", "ppo-lag", "trpo-pid"),
)
LATER = ("rungs", "summary", "figures")
ON_REQUEST = ("readings",)
TIMES = (
    "--quick takes about 5 minutes on two cores, --full takes days. On one NVIDIA H200, --full trains all agents in a "
    "quarter of an hour; the part 'rungs' then needs about two minutes of one CPU core for each of its 60 agents"
)
PARTS_HELP = (
    "Run only these parts: one training such as safedsr-cut-before, all trainings of one agent, all trainings of one "
    f"kind ({', '.join(KINDS)}), "
)
Parts = Annotated[
    tuple[str, ...],
    tyro.conf.arg(help=PARTS_HELP + f"{', '.join(LATER)}, or readings (other readings of the paper, only if named)."),
]


def adaptation_command(args: list[str]) -> None:
    """Parse and run the command."""
    run_command(adaptation, "safedsr reproduce adaptation", args)


def adaptation(
    quick: Annotated[bool, tyro.conf.arg(help="Few seeds and steps, to test that everything runs.")] = False,
    full: Annotated[bool, tyro.conf.arg(help="All seeds and steps of the paper.")] = False,
    parts: Parts = (),
    seeds: Annotated[int | None, tyro.conf.arg(help="Number of seeds, if not that of the experiment.")] = None,
    rung_seeds: Annotated[int | None, tyro.conf.arg(help="Number of seeds in the part 'rungs'.")] = None,
    readings: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help="Only these readings, with --parts readings; processes can share one --out."),
    ] = (),
    matmul: Annotated[
        Matmul, tyro.conf.arg(help="Precision of matrix products, on devices that have a choice.")
    ] = "float32",
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for the run folders; runs/adaptation if not given.")] = None,
) -> None:
    """Train with one set of costs, change the costs, adapt in the paper's seven phases, and compare with other methods.

    The same command continues an interrupted experiment.
    """
    if quick == full:
        raise UserError(f"choose either --quick (not comparable with the paper) or --full. {TIMES}")
    wanted = choose(parts)
    _check_readings(readings, wanted)
    from safedsr.paper import adaptation_plan as plan
    from safedsr.paper.adaptation_tables import NOT_COMPARABLE

    scale = plan.QUICK if quick else plan.Scale()
    scale = scale._replace(matmul=matmul, seeds=seeds or scale.seeds)
    scale = scale._replace(rung_seeds=min(rung_seeds or scale.rung_seeds, scale.seeds))
    out = out or Path("runs") / ("adaptation-quick" if quick else "adaptation")
    if quick:
        print(NOT_COMPARABLE)
    if wanted.stages:
        _train(wanted, scale, out)
    for name in (*LATER, *ON_REQUEST):
        if name in wanted.later:
            STEPS[name](scale, out, *([readings] if name == "readings" else []))
    if quick:
        print(NOT_COMPARABLE)


class Wanted(NamedTuple):
    """The parts to run."""

    stages: tuple[str, ...]  # names, owners or kinds of trainings
    later: tuple[str, ...]


def choose(parts: Sequence[str]) -> Wanted:
    """The given parts; all parts but other readings if none is given."""
    known = {*KINDS, *OWNERS, *(f"{owner}-{kind}" for owner in OWNERS for kind in KINDS)}
    for part in parts:
        if part not in {*known, *STEPS}:
            from safedsr.errors import unknown

            raise unknown("part", part, (*known, *STEPS))
    if not parts:
        return Wanted(KINDS, LATER)
    return Wanted(tuple(part for part in parts if part in known), tuple(part for part in parts if part in STEPS))


def _check_readings(readings: Sequence[str], wanted: "Wanted") -> None:
    """Raise if readings are named that do not exist, or that are not asked for."""
    if not readings:
        return
    from safedsr.errors import UserError, unknown
    from safedsr.paper.adaptation_readings import READINGS

    if "readings" not in wanted.later:
        raise UserError("--readings names readings, which are run by --parts readings; add it")
    for name in readings:
        if name not in (known := [reading.name for reading in READINGS]):
            raise unknown("reading", name, known)


def _train(wanted: Wanted, scale: Any, out: Path) -> None:
    from safedsr.cli.display import jobs_bar
    from safedsr.engine.lanes import use_cores
    from safedsr.paper.adaptation_runs import run_stages, stages

    every = stages(scale)
    use_cores(max(stage.job.lanes for stage in every))
    chosen = [s for s in every if {s.name, s.owner, s.kind} & set(wanted.stages)]
    with jobs_bar("adaptation") as show:
        run_stages(chosen, every, out, show)


def _rungs(scale: Any, out: Path) -> None:
    from safedsr.paper.adaptation_rungs import agents, climb_all

    def show(done: int, count: int, name: str) -> None:
        print(f"rungs {done}/{count}  {name}", file=sys.stderr, flush=True)

    climb_all(list(agents(scale)), scale, out, show)


def _summary(scale: Any, out: Path) -> None:
    from safedsr.cli.terminal import print_table
    from safedsr.paper.adaptation_summary import read_summary, summarize_all
    from safedsr.paper.adaptation_tables import NOT_COMPARABLE, tables, write_tables

    folder = summarize_all(scale, out)
    found = tables(read_summary(folder))
    for table in found:
        print_table(table.columns, table.rows, table.title)
        print(table.note)
    write_tables(folder / "tables.md", found, NOT_COMPARABLE if scale.quick else "")
    print(f"summary: {folder}")


def _figures(scale: Any, out: Path) -> None:
    del scale  # all functions of STEPS take the same arguments
    try:
        from safedsr.figures.adaptation import draw_all
    except ImportError:
        print(
            "no figures: matplotlib is not installed; after pip install matplotlib, run this again with --parts figures"
        )
        return
    for title, path in draw_all(out, out / "figures"):
        print(f"{path}  {title}")


def _readings(scale: Any, out: Path, names: Sequence[str] = ()) -> None:
    from safedsr.cli.display import jobs_bar
    from safedsr.engine.lanes import use_cores
    from safedsr.paper.adaptation_readings import reading_stages, write_readings
    from safedsr.paper.adaptation_runs import run_stages

    every, folder = reading_stages(scale), out / "readings"
    chosen = reading_stages(scale, names)
    use_cores(max(stage.job.lanes for stage in chosen))
    try:
        with jobs_bar("readings") as show:
            run_stages(chosen, every, folder, show)
    finally:  # those that are finished, also if the rest was interrupted
        print(f"summary: {write_readings(folder, folder / 'summary', scale)}")


STEPS: dict[str, Callable[..., None]] = {
    "rungs": _rungs,
    "summary": _summary,
    "figures": _figures,
    "readings": _readings,
}
