"""The commands about training: algos, train, evaluate, report, demo."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from safedsr.agents.registry import ALGORITHMS, Algorithm, find_algorithm
from safedsr.cli.overview import print_overview
from safedsr.cli.terminal import CostNames, Json, busy, print_json, print_table
from safedsr.envs.grid.config import GridConfig
from safedsr.errors import UserError
from safedsr.runs.config import TrainConfig

if TYPE_CHECKING:
    from safedsr.report.tables import Report


def algos(as_json: Json = False) -> None:
    """List the algorithms."""
    if as_json:
        return print_json({name: algorithm.about for name, algorithm in ALGORITHMS.items()})
    for name, algorithm in ALGORITHMS.items():
        print(f"{name:10} {algorithm.about}")


def train_command(args: list[str]) -> None:
    """`safedsr train` with its own arguments: a command for each algorithm."""
    if not args:
        raise UserError("no algorithm given; write for example: safedsr train safedsr-plus --out runs/first")
    name, *rest = args
    if name in ("-h", "--help"):
        abouts = {name: algorithm.about for name, algorithm in ALGORITHMS.items()}
        return print_overview("safedsr train ALGORITHM", "--out DIR …", "Train an agent.", abouts)
    algorithm = find_algorithm(name)
    tyro.cli(_train_function(algorithm, rest), prog=f"safedsr train {name}", args=rest)


def _train_function(algorithm: Algorithm, args: list[str]) -> Any:
    """The command that trains one algorithm; each of its settings is a flag."""
    config, names = algorithm.config, tuple(algorithm.presets)
    given = _flag(args, "--preset")
    default = algorithm.settings(given if given in names else None)  # of a wrong one tyro will tell

    def run(
        out: Annotated[Path, tyro.conf.arg(help="Run folder to write.")],
        layout: Annotated[tuple[str, ...], tyro.conf.arg(help="Maps; several are trained at once.")] = ("one-room",),
        costs: Annotated[tuple[str, ...], tyro.conf.arg(help="Costs of each map, as in 'safedsr show'.")] = (),
        budget: Annotated[str | None, tyro.conf.arg(help="Cost budget of an episode, 5 if not given.")] = None,
        seeds: Annotated[int, tyro.conf.arg(help="How many seeds to train at once.")] = 1,
        first_seed: Annotated[int, tyro.conf.arg(help="The first of them.")] = 0,
        preset: Annotated[
            Literal[names],  # pyright: ignore[reportInvalidTypeForm]
            tyro.conf.arg(help="Settings to start from; the flags below change single ones."),
        ] = names[0],
        resume: Annotated[bool, tyro.conf.arg(help="Go on with the run in that folder.")] = False,
        agent: Annotated[config, tyro.conf.arg(name="")] = default,  # pyright: ignore[reportInvalidTypeForm]
        grid: Annotated[GridConfig, tyro.conf.arg(name="")] = GridConfig(),
        training: Annotated[TrainConfig, tyro.conf.arg(name="")] = TrainConfig(),
    ) -> None:
        if resume:
            return _resume(out, algorithm.name, training, args)
        from safedsr.runs.job import grid_job, tasks_for

        tasks = tasks_for(algorithm.name, layout, costs, budget)
        job = grid_job(algorithm.name, tasks, range(first_seed, first_seed + seeds), agent, grid, training)
        from safedsr.cli.display import progress_bar
        from safedsr.engine.lanes import use_cores
        from safedsr.engine.train import train

        use_cores(job.lanes)
        with progress_bar(algorithm.name) as show:
            train(job, out, show=show)
        print(f"run folder: {out}")

    run.__doc__ = f"Train {algorithm.name}: {algorithm.about}."
    return tyro.conf.configure(tyro.conf.OmitArgPrefixes)(run)


def _flag(args: list[str], name: str) -> str | None:
    """The value that a flag is given, if it is."""
    joined = [arg.partition("=")[2] for arg in args if arg.startswith(f"{name}=")]
    apart = [value for arg, value in pairwise(args) if arg == name]
    return next(iter(joined + apart), None)


def _resume(out: Path, algorithm: str, training: TrainConfig, args: list[str]) -> None:
    """Go on with a run; only how long, how often and how it computes may be given anew."""
    from safedsr.runs.folder import load_config

    config = load_config(out)
    trained = config["algorithm"]
    if trained != algorithm:
        raise UserError(f"the run in {out} trains '{trained}', not '{algorithm}'; safedsr train {trained} --resume")
    given = {arg.partition("=")[0][2:].replace("-", "_") for arg in args if arg.startswith("--")} - {"out", "resume"}
    changes = {name: getattr(training, name) for name in given if name in TrainConfig.__dataclass_fields__}
    if others := sorted(given - set(changes)):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise UserError(f"--resume takes its settings from {out}; leave out {names}")
    from safedsr.cli.display import progress_bar
    from safedsr.engine.lanes import use_cores
    from safedsr.engine.train import resume
    from safedsr.runs.job import job_from_dict

    use_cores(job_from_dict(config).lanes)
    with progress_bar(algorithm) as show:
        resume(out, changes, show=show)
    print(f"run folder: {out}")


def evaluate(
    run: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(help="A run folder.")]],
    costs: CostNames = None,
    budget: Annotated[str | None, tyro.conf.arg(help="Other budgets than it was trained with.")] = None,
    episodes: Annotated[int, tyro.conf.arg(help="Episodes of each policy.")] = 1000,
    epsilon: Annotated[float, tyro.conf.arg(help="Share of random actions.")] = 0.0,
    seed: Annotated[int | None, tyro.conf.arg(help="Only the policies of this seed.")] = None,
    as_json: Json = False,
) -> None:
    """Walk the policies of a run and report goal rate, safe goal rate, reward and cost with 95 % intervals."""
    from safedsr.agent import evaluate_run

    with busy(f"walking {run}", quiet=as_json):
        rows = evaluate_run(run, costs, budget, episodes, epsilon, seed)
    if as_json:
        return print_json(
            [
                {"trained": agent.task.title, "environment": where.title, "seed": agent.seed, **found.to_dict()}
                for agent, where, found in rows
            ]
        )
    columns = ("trained on", "walked on", "seed", "goal rate", "safe goal rate", "reward", "cost", "steps")
    print_table(
        columns,
        [
            (
                agent.task.title,
                where.title,
                agent.seed,
                found.goal_rate,
                found.safe_goal_rate,
                found.reward,
                " | ".join(map(str, found.cost)),
                found.length,
            )
            for agent, where, found in rows
        ],
    )
    print(f"{episodes} episodes each, ε = {epsilon:g}; mean and 95 % interval")


def report(
    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(help="Run folders, or folders of them.")]],
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for tables.md, tables.csv and index.html.")] = None,
    as_json: Json = False,
) -> None:
    """Show run folders beside the printed tables: mean, std, p25, IQM with 95 % interval, p75 over seeds, verdict."""
    from safedsr.report.tables import report as make_report

    if not runs:
        raise UserError("no run folder given; write for example: safedsr report runs/safedsr")
    with busy("reading run folders", quiet=as_json):
        found = make_report(runs)
    if not found.rows:
        raise UserError("nothing to report: " + "; ".join(found.remarks))
    from safedsr.report.files import as_dict, write_report

    page = None
    if out:
        with busy("drawing figures", quiet=as_json):
            page = write_report(found, out, _draw(found, out / "figures"))
    if as_json:
        doubled = {name: value._asdict() for name, value in (found.doubled or {}).items()}
        rows = [as_dict(row) for row in found.rows]
        return print_json({"rows": rows, "doubled_costs": doubled, "remarks": found.remarks})
    _print_report(found)
    if page:
        print(f"page: {page}")


def _draw(found: "Report", folder: Path) -> list[tuple[str, Path]]:
    """The figures of a report; where they cannot be drawn the report says so."""
    try:
        from safedsr.figures.paper import figures_of
    except ImportError as error:
        found.remarks.append(f"no figures: {error}; pip install matplotlib")
        return []
    try:
        return figures_of(found.results, folder)
    except UserError as error:
        found.remarks.append(f"no figures: {error}")
        return []


def _print_report(found: "Report") -> None:
    from safedsr.paper.tables import TABLES
    from safedsr.report import files as files
    from safedsr.report.tables import VERDICTS

    for table in TABLES:
        for environment, rows in files.sections(found.of(table)):
            print_table(files.COLUMNS, map(files.cells, rows), title=f"{files.heading(table)}; {environment}")
        if table.note and found.of(table):
            print(table.note)
    if rows := files.doubled_rows(found):
        print_table(files.DOUBLED_COLUMNS, rows, title=files.DOUBLED)
        print(files.DOUBLED_NOTE)
    for name, meaning in VERDICTS.items():
        print(f"{name}: {meaning}")
    for remark in found.remarks:
        print(f"remark: {remark}")


def demo(
    out: Annotated[Path, tyro.conf.arg(help="Folder for the run and the picture.")] = Path("demo"),
    seed: Annotated[int, tyro.conf.arg(help="Seed of the training.")] = 0,
) -> None:
    """Train an agent for a moment, move the obstacle into its way, adapt it without a new step and compare."""
    from safedsr.cli.display import progress_bar
    from safedsr.demo import EPISODES, EPSILON, REDUCTION, run_demo

    print(REDUCTION)
    with progress_bar("training") as show:
        found = run_demo(out, seed, show)
    print_table(
        ("", "goal rate", "safe goal rate", "cost", "steps"),
        [(r.title, r.found.goal_rate, r.found.safe_goal_rate, r.found.cost[0], r.found.length) for r in found.rows],
        title="one room, diamond costs, budget 5",
    )
    print(f"{EPISODES} episodes each, ε = {EPSILON:g}; mean and 95 % interval")
    print(
        f"new cost weights in {found.fit_seconds:.1f} s, λ and M in {found.learn_seconds:.1f} s, compilation included; "
        "no new step was taken"
    )
    print(f"picture: {found.picture}")
