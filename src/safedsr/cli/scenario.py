"""The command 'safedsr scenario': run, list and report on scenarios of changing constraints."""

import time
from pathlib import Path
from typing import Annotated, Any

import tyro

from safedsr.cli.overview import print_overview
from safedsr.cli.parse import run_command
from safedsr.cli.terminal import Json, print_json, print_table
from safedsr.core.config import Matmul
from safedsr.errors import UserError, unknown
from safedsr.validation import require

HEAD = "Run the benchmark of changing constraints: scenario run FILE ALGORITHM…, scenario list, scenario report."
ABOUT = {
    "run": "Run contestants in a scenario: safedsr scenario run FILE ALGORITHM… The same command goes on later.",
    "list": "List the scenarios that come with the package, and the contestants.",
    "report": "Print the tables of a folder of results, and draw a figure for each scenario.",
}
NOT_COMPARABLE = "A quick run: few seeds and steps, small networks. Its numbers only show that everything runs."
FileName = Annotated[
    str,
    tyro.conf.arg(metavar="FILE", help="A scenario file (.toml), changing-v1, changing-v1/NAME or paper/NAME."),
]


def scenario_command(args: list[str]) -> None:
    """Parse and run a command of 'safedsr scenario'."""
    if not args or args[0] in ("-h", "--help"):
        print_overview("safedsr scenario COMMAND", "…", HEAD, ABOUT)
        if not args:
            raise UserError(f"give one of {', '.join(ABOUT)}")
        return
    commands = {"run": run, "list": list_all, "report": report}
    if args[0] not in commands:
        raise unknown("command of scenario", args[0], commands)
    run_command(commands[args[0]], f"safedsr scenario {args[0]}", args[1:])


def run(
    scenario: tyro.conf.Positional[FileName],
    algorithms: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(
            metavar="ALGORITHM", help="Contestants, or a function of your own FILE.py:NAME; all if not given."
        ),
    ] = (),
    seeds: Annotated[int | None, tyro.conf.arg(help="Number of seeds; 10, or 1 if quick.")] = None,
    first_seed: Annotated[int, tyro.conf.arg(help="The first seed.")] = 0,
    quick: Annotated[
        bool,
        tyro.conf.arg(help="Few steps and small networks, to see that all runs; of a set, the public half."),
    ] = False,
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for the results; runs/scenarios if not given.")] = None,
    seconds: Annotated[
        int | None, tyro.conf.arg(help="Stop after so many seconds, with everything saved; the same command goes on.")
    ] = None,
    workers: Annotated[
        int | None,
        tyro.conf.arg(help="Processes for the contestants that adapt, one seed and one CPU core each."),
    ] = None,
    share_accelerator: Annotated[
        bool, tyro.conf.arg(help="The processes of --workers share the accelerator, instead of a CPU core each.")
    ] = False,
    only_first_phase: Annotated[
        bool, tyro.conf.arg(help="Train only what all variants of SafeDSR-plus share: their first phase.")
    ] = False,
    matmul: Annotated[
        Matmul, tyro.conf.arg(help="Precision of matrix products, on devices that have a choice.")
    ] = "float32",
) -> None:
    """Run contestants in a scenario, or in all of a set. Finished seeds are skipped, interrupted ones go on."""
    end = None if seconds is None else time.monotonic() + _at_least_one(seconds, "seconds")
    from safedsr.engine.lanes import use_cores
    from safedsr.scenario.contestants import CONTESTANTS, QUICK_ONES, find_contestant
    from safedsr.scenario.sets import HELD_OUT, find_scenarios
    from safedsr.validation import seed_numbers

    scenarios = find_scenarios(scenario)
    if quick:  # of a whole set, the public half
        scenarios = [one for one in scenarios if not one.name.startswith(HELD_OUT)] or scenarios
    chosen = [find_contestant(name) for name in algorithms or (QUICK_ONES if quick else CONTESTANTS)]
    numbers = seed_numbers(first_seed, seeds or (1 if quick else 10))
    folder = out or Path("runs") / ("scenarios-quick" if quick else "scenarios")
    use_cores(len(numbers))
    if quick:
        print(NOT_COMPARABLE)
    from safedsr.scenario.place import OutOfTime, Timer
    from safedsr.scenario.run import How
    from safedsr.scenario.run import run as run_all
    from safedsr.scenario.workers import run_with_workers

    if share_accelerator and workers is None:
        raise UserError("--share-accelerator is for the processes of --workers N; add --workers")
    how = How(folder, _say, quick, matmul, Timer(end), only_first_phase, share_accelerator)
    try:
        if workers is None or only_first_phase:
            run_all(scenarios, chosen, numbers, how)
        else:
            run_with_workers(scenarios, chosen, numbers, how, _at_least_one(workers, "workers"))
    except OutOfTime:
        print(f"the {seconds} seconds are over and everything is saved in {folder}; the same command goes on")
        return
    if not only_first_phase:
        from safedsr.scenario.results import read_results

        _print_tables(read_results(folder))
    print(f"results: {folder}")


def _say(text: str) -> None:
    """Print a whole line at once, as several threads may do."""
    print(f"{text}\n", end="", flush=True)


def _at_least_one(value: int, name: str) -> int:
    require(value >= 1, name, value, "give at least 1")
    return value


def list_all(as_json: Json = False) -> None:
    """List the scenarios that come with the package, and the contestants."""
    from safedsr.scenario.contestants import CONTESTANTS
    from safedsr.scenario.sets import PAPER, SET, find_scenarios

    found = [
        (f"{owner}/{one.name.removeprefix('paper-')}", one) for owner in (SET, PAPER) for one in find_scenarios(owner)
    ]
    if as_json:
        scenarios = [
            {
                "name": name,
                "about": one.about,
                "steps": one.steps,
                "changes": list(one.starts[1:]),
                "sha256": one.sha256,
            }
            for name, one in found
        ]
        return print_json({"scenarios": scenarios, "contestants": {c.name: c.about for c in CONTESTANTS.values()}})
    print_table(
        ("scenario", "steps", "changes", "sha256", ""),
        [(name, one.steps, len(one.changes), one.sha256[:8], one.about) for name, one in found],
    )
    print_table(("contestant", ""), [(one.name, one.about) for one in CONTESTANTS.values()])
    print("safedsr scenario run NAME CONTESTANT… ; safedsr show FILE.toml draws a timetable")


def report(
    folders: Annotated[
        tyro.conf.Positional[tuple[Path, ...]],
        tyro.conf.arg(
            metavar="FOLDER", help="Folders of results, also packed ones; of two results of one seed, the later counts."
        ),
    ],
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for table.md, results.json.gz and the figures.")] = None,
    as_json: Json = False,
) -> None:
    """Print the tables of folders of results; with --out, also write them, a packed copy and the figures."""
    from safedsr.scenario.results import pack, read_results
    from safedsr.scenario.tables import made_lines, rows
    from safedsr.scenario.target import report_text, verdicts

    if not folders:
        raise UserError("give a folder of results, such as runs/scenarios")
    results = read_results(*folders)
    if as_json:
        aim = [verdict._asdict() for verdict in verdicts(results)]
        return print_json({"rows": [_plain(row) for row in rows(results)], "aim": aim, "made": made_lines(results)})
    _print_tables(results)
    if out:
        from safedsr.runs.storage import write_text

        pack(results, out)
        write_text(out / "table.md", report_text(results))
        for path in _draw(results, out):
            print(f"figure: {path}")
        print(f"written: {out}")


def _draw(results: Any, out: Path) -> list[Path]:
    try:
        from safedsr.figures.scenarios import draw_all
    except ImportError:
        print("no figures: matplotlib is not installed; after pip install matplotlib, run this again")
        return []
    return draw_all(results, out / "figures")


def _print_tables(results: list[dict[str, Any]]) -> None:
    from safedsr.scenario import target
    from safedsr.scenario.tables import COLUMNS, cells, made_lines, rows

    found = rows(results)
    for name in dict.fromkeys(row.scenario for row in found):
        print_table(COLUMNS, [cells(row) for row in found if row.scenario == name], name)
    if judged := target.verdicts(results):
        print_table(target.COLUMNS, [target.verdict_cells(one) for one in judged], "the aim of the benchmark")
    print("\n".join(made_lines(results)))


def _plain(row: Any) -> dict[str, Any]:
    """A row as JSON."""
    return {name: value._asdict() if hasattr(value, "_asdict") else value for name, value in row._asdict().items()}
