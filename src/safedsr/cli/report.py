"""The command report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from safedsr.cli.environments import EnvFlags, environment_of
from safedsr.cli.ranking import Metric, is_sweep, report_sweep
from safedsr.cli.terminal import Json, busy, print_json, print_table
from safedsr.errors import UserError

if TYPE_CHECKING:
    from safedsr.report.tables import Report
    from safedsr.runs.results import Result

ORACLE_HELP = "With --out, compute the oracle of each map that the folder does not have yet: some 20 seconds each."


def report(
    runs: tyro.conf.Positional[
        Annotated[
            tuple[Path, ...],
            tyro.conf.arg(help="Run folders, or folders that contain them; or one folder of 'safedsr sweep'."),
        ]
    ],
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for index.html, tables.md, CSV files and figures.")] = None,
    epsilon: Annotated[float, tyro.conf.arg(help="Probability of a random action in the final evaluation.")] = 0.0,
    episodes: Annotated[
        int | None,
        tyro.conf.arg(help="Episodes of each seed in the final evaluation; 1000, or 100 in Gymnasium, if not given."),
    ] = None,
    oracle: Annotated[bool, tyro.conf.arg(help=ORACLE_HELP)] = True,
    metric: Annotated[
        Metric | None,
        tyro.conf.arg(help="Of a sweep: what its configurations are ranked by; that of the sweep if not given."),
    ] = None,
    paper: Annotated[bool, tyro.conf.arg(help="Use the paper's tables and figures for all runs on maps.")] = False,
    as_json: Json = False,
    where: Annotated[EnvFlags, tyro.conf.arg(name="")] = EnvFlags(),
) -> None:
    """Compare runs by final evaluation, tables and curves, with 95 % intervals; experiments of the paper beside it."""
    from safedsr.report.tables import Evaluating
    from safedsr.report.tables import report as make_report
    from safedsr.validation import require

    if not runs:
        raise UserError("no run folder given; after a training, write for example: safedsr report runs/first")
    if sweeps := [path for path in runs if is_sweep(path)]:
        if len(runs) > 1:
            raise UserError(f"{sweeps[0]} is a sweep; give one sweep alone, or run folders inside it")
        return report_sweep(sweeps[0], metric, out, as_json)
    require(metric is None, "metric", metric, "this is for the folder of a sweep; leave it out")
    require(0 <= epsilon <= 1, "epsilon", epsilon, "give a share between 0 and 1")
    require(episodes is None or episodes >= 2, "episodes", episodes, "give at least 2, for an interval")

    def find_oracle(results: "Sequence[Result]") -> Any:
        return _references(results, out / "figures", compute=oracle) if out else {}

    with busy("reading and evaluating runs", quiet=as_json):
        how = Evaluating(epsilon, episodes, find_oracle, lambda path: environment_of(path, where))
        found = make_report(runs, paper, how)
    if not found.rows and not found.own:
        raise UserError("nothing to report: " + "; ".join(found.remarks))
    from safedsr.report.files import as_dict, own_dict, write_report

    page = None
    if out:
        with busy("drawing figures", quiet=as_json):
            page = write_report(found, out, draw(found, out / "figures"))
    if as_json:
        doubled = {name: value._asdict() for name, value in (found.doubled or {}).items()}
        beside = {"rows": [as_dict(row) for row in found.rows], "doubled_costs": doubled} if found.rows else {}
        return print_json({**beside, "runs": [own_dict(table) for table in found.own], "remarks": found.remarks})
    _print_report(found)
    if page:
        print(f"page: {page}")


def _references(results: "Sequence[Result]", folder: Path, *, compute: bool) -> Any:
    from dataclasses import asdict

    from safedsr.envs.grid.config import GridConfig
    from safedsr.runs.reference import add_references

    usual = asdict(GridConfig())
    fitting = [one for one in results if {**usual, **one.config["environment"]} == {**usual, "name": "grid"}]
    return add_references(fitting if compute else (), folder)


def draw(found: "Report", folder: Path) -> list[tuple[str, Path]]:
    """Draw the figures of a report. If that fails, the report gets a remark with the reason."""
    try:
        from safedsr.figures.own import own_figures
        from safedsr.figures.paper import figures_of
    except ImportError as error:
        found.remarks.append(f"no figures: {error}; pip install matplotlib")
        return []
    evaluated = {
        (table.environment, row.label): row.found
        for table in found.own
        if table.kind == "Final evaluation"
        for row in table.rows
    }
    try:
        drawn = figures_of(found.results, folder) if found.results else []
        return drawn + own_figures(found.compared, evaluated, folder, found.references)
    except UserError as error:
        found.remarks.append(f"no figures: {error}")
        return []


def _print_report(found: "Report") -> None:
    from safedsr.paper.tables import TABLES
    from safedsr.report import files
    from safedsr.report.tables import VERDICTS

    for table in TABLES:
        for environment, rows in files.sections(found.of(table)):
            print_table(files.COLUMNS, map(files.cells, rows), title=f"{files.heading(table)}; {environment}")
        if table.note and found.of(table):
            print(table.note)
    if rows := files.doubled_rows(found):
        print_table(files.DOUBLED_COLUMNS, rows, title=files.DOUBLED)
        print(files.DOUBLED_NOTE)
    for table in found.own:
        print_table(files.own_columns(table), files.own_cells(table), title=f"{table.kind}: {table.environment}")
        print(table.note)
    for name, meaning in VERDICTS.items() if found.rows else ():
        print(f"{name}: {meaning}")
    for remark in found.remarks:
        print(f"remark: {remark}")
