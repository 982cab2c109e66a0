"""Constrained reinforcement learning where the constraints change."""

import json as jsonlib
import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from safedsr.algorithms import ALGORITHMS, Algorithm, find_algorithm
from safedsr.config import EpsilonSchedule, GridConfig, OracleConfig, TrainConfig, parse_budgets
from safedsr.errors import UserError

Json = Annotated[bool, tyro.conf.arg(name="json", help="Print JSON for machines.")]
LayoutName = Annotated[str, tyro.conf.arg(help="A map: one-room, two-rooms, three-rooms, rooms-N or a text file.")]
CostNames = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="SHAPES",
        help="Costs, separated by commas: none, diamond, small-diamond, square, inverse-diamond or text files.",
    ),
]
Budgets = Annotated[
    str, tyro.conf.arg(metavar="NUMBERS", help="Cost budget an episode, one for all costs or one each.")
]


def envs(as_json: Json = False) -> None:
    """List the maps and the cost shapes."""
    from safedsr.scene import COST_SHAPES, ROOM_NAMES, load_scene

    maps = [load_scene(name) for name in ROOM_NAMES]
    if as_json:
        sizes = {m.name: {"height": m.layout.walls.shape[0], "width": m.layout.walls.shape[1]} for m in maps}
        return _print_json({"layouts": sizes, "pattern": "rooms-N", "costs": list(COST_SHAPES)})
    from rich.console import Console
    from rich.table import Table

    table = Table("layout", "cells", "start → goal")
    for found in maps:
        height, width = found.layout.walls.shape
        table.add_row(found.name, f"{width} × {height}", "left-most → right-most cell of the middle row")
    table.add_row("rooms-N", "10·N+1 × 11", "N rooms, doors of three cells")
    table.add_row("FILE.txt", "as drawn", "# wall  . free  S start  G goal  C cost; letters and layers of your own")
    console = Console()
    console.print(table)
    console.print(f"costs: {', '.join(COST_SHAPES)}, FILE.txt; several with commas")


def show(
    layout: tyro.conf.Positional[LayoutName],
    costs: CostNames = None,
    png: Annotated[Path | None, tyro.conf.arg(help="Also draw it into this picture file.")] = None,
    as_json: Json = False,
) -> None:
    """Print a map as text, and draw it on request."""
    from safedsr.maptext import format_scene
    from safedsr.scene import load_scene

    scene = load_scene(layout, costs)
    text = format_scene(scene)
    if png:
        from safedsr import figures

        figures.save(figures.map_figure(scene), png)
    if as_json:
        height, width = scene.layout.walls.shape
        _print_json(
            {"layout": scene.name, "costs": list(scene.cost_names), "height": height, "width": width, "text": text}
        )
    else:
        print(text, end="")
        if png:
            print(f"\npicture: {png}")


def oracle(
    layout: LayoutName = "one-room",
    costs: CostNames = None,
    budget: Budgets = "5",
    png: Annotated[Path | None, tyro.conf.arg(help="Draw its walk into this picture file.")] = None,
    as_json: Json = False,
    schedule: Annotated[EpsilonSchedule, tyro.conf.arg(name="")] = EpsilonSchedule(),
    config: Annotated[OracleConfig, tyro.conf.arg(name="")] = OracleConfig(),
    grid: Annotated[GridConfig, tyro.conf.arg(name="")] = GridConfig(),
) -> None:
    """Plan the safest short way, walk it on the ε schedule and count the goals."""
    from safedsr.scene import load_scene

    scene = load_scene(layout, costs)
    budgets = parse_budgets(budget, len(scene.cost_names))
    from safedsr.oracle import find_oracle, oracle_paths

    with _busy(f"planning and walking {scene.name}", quiet=as_json):
        found = find_oracle(scene.layout, budgets, schedule, config, grid)
    if png:
        from safedsr import figures

        paths = oracle_paths(found, scene.layout, (0.0, *[schedule.epsilon_end] * 8), config, grid)
        figures.save(figures.map_figure(scene, paths, f"oracle, {scene.name}, λ = {found.lam:g}"), png)
    rows = {
        f"schedule {schedule.epsilon_start:g} → {schedule.epsilon_end:g}": found.scheduled,
        "ε = 0": found.greedy,
        f"ε = {schedule.epsilon_end:g}": found.exploring,
    }
    if as_json:
        return _print_json(
            {
                **_walk_json(found.scheduled),
                "path_length": float(found.greedy.length),
                "path_cost": float(found.greedy.cost.sum()),
                "path_costs": found.greedy.cost.tolist(),
                "lam": float(found.lam),
                "lams": [float(lam) for lam in found.lams],
                "budgets": list(budgets),
                "steps": config.steps,
                "epsilon_0": _walk_json(found.greedy),
                "epsilon_end": _walk_json(found.exploring),
            }
        )
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "ε", "goals", "safe goals", "goal rate", "safe goal rate", "steps", "cost", title=f"oracle, λ = {found.lam:g}"
    )
    for name, walks in rows.items():
        cost = " ".join(f"{value:.1f}" for value in walks.cost)
        counts = (f"{walks.goal_count:.0f}", f"{walks.safe_goal_count:.0f}")
        rates = (f"{walks.goal_rate:.3f}", f"{walks.safe_goal_rate:.3f}", f"{walks.length:.1f}")
        table.add_row(name, *counts, *rates, cost)
    Console().print(table)
    print(f"counts over {config.steps} steps, mean of {config.walks} walks; rates and means at the last ε")
    if png:
        print(f"picture: {png}")


def algos(as_json: Json = False) -> None:
    """List the algorithms."""
    if as_json:
        return _print_json({name: algorithm.about for name, algorithm in ALGORITHMS.items()})
    for name, algorithm in ALGORITHMS.items():
        print(f"{name:10} {algorithm.about}")


def train() -> None:
    """Train an agent: safedsr train ALGORITHM --out DIR (its flags: safedsr train ALGORITHM --help)."""
    _train(["--help"])


def _train(args: list[str]) -> None:
    if args and not args[0].startswith("-"):
        find_algorithm(args[0])
    functions = {name: _train_function(algorithm, args) for name, algorithm in ALGORITHMS.items()}
    tyro.extras.subcommand_cli_from_dict(functions, prog="safedsr train", description="Train an agent.", args=args)


def _train_function(algorithm: Algorithm, args: list[str]) -> Any:
    """The command that trains one algorithm; each of its settings is a flag."""
    config = algorithm.config

    def run(
        out: Annotated[Path, tyro.conf.arg(help="Run folder to write.")],
        layout: Annotated[tuple[str, ...], tyro.conf.arg(help="Maps; several are trained at once.")] = ("one-room",),
        costs: Annotated[tuple[str, ...], tyro.conf.arg(help="Costs of each map, as in 'safedsr show'.")] = (),
        budget: Budgets = "5",
        seeds: Annotated[int, tyro.conf.arg(help="How many seeds to train at once.")] = 1,
        first_seed: Annotated[int, tyro.conf.arg(help="The first of them.")] = 0,
        resume: Annotated[bool, tyro.conf.arg(help="Go on with the run in that folder.")] = False,
        agent: Annotated[config, tyro.conf.arg(name="")] = config(),  # pyright: ignore[reportInvalidTypeForm]
        grid: Annotated[GridConfig, tyro.conf.arg(name="")] = GridConfig(),
        training: Annotated[TrainConfig, tyro.conf.arg(name="")] = TrainConfig(),
    ) -> None:
        from safedsr.job import Job, make_environments

        given = {arg.split("=")[0] for arg in args if arg.startswith("--")} - {"--resume", "--out"}
        job = None
        if not resume or given - {"--steps"}:
            environments = make_environments(algorithm.name, layout, costs, budget)
            job = Job(algorithm.name, environments, tuple(range(first_seed, first_seed + seeds)), agent, grid, training)
        from safedsr import train
        from safedsr.display import progress_bar

        with progress_bar(algorithm.name) as show:
            if resume:
                train.resume(out, training.steps if "--steps" in given else None, expect=job, show=show)
            elif job:
                train.train(job, out, show=show)
        print(f"run folder: {out}")

    run.__doc__ = f"Train {algorithm.name}: {algorithm.about}."
    return tyro.conf.configure(tyro.conf.OmitArgPrefixes)(run)


def evaluate(
    run: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(help="A run folder.")]],
    costs: CostNames = None,
    budget: Annotated[str | None, tyro.conf.arg(help="Other budgets than it was trained with.")] = None,
    episodes: Annotated[int, tyro.conf.arg(help="Episodes of each policy.")] = 1000,
    epsilon: Annotated[float, tyro.conf.arg(help="Share of random actions.")] = 0.0,
    seed: Annotated[int | None, tyro.conf.arg(help="Only the policy of this seed.")] = None,
    as_json: Json = False,
) -> None:
    """Walk the policies of a run and report goal rate, safe goal rate, reward and cost with 95 % intervals."""
    from safedsr.evaluate import evaluate_run

    with _busy(f"walking {run}", quiet=as_json):
        rows = evaluate_run(run, costs, budget, episodes, epsilon, seed)
    if as_json:
        return _print_json(
            [{"environment": name, "seed": number, **found.to_dict()} for (name, number), found in rows.items()]
        )
    from rich.console import Console
    from rich.table import Table

    table = Table("environment", "seed", "goal rate", "safe goal rate", "reward", "cost", "steps")
    for (name, number), found in rows.items():
        cost = " | ".join(map(str, found.cost))
        cells = (found.goal_rate, found.safe_goal_rate, found.reward, cost, found.length)
        table.add_row(name, str(number), *map(str, cells))
    Console().print(table)
    print(f"{episodes} episodes each, ε = {epsilon:g}; mean and 95 % interval")


def report(
    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(help="Run folders.")]], as_json: Json = False
) -> None:
    """Print the end-of-training statistics of run folders: mean, std, p25, IQM with 95 % interval, p75 over seeds."""
    from safedsr.report import report as make_report

    if not runs:
        raise UserError("no run folder given; write for example: safedsr report runs/safedsr")
    lines = make_report(runs)
    if as_json:
        return _print_json([{**line._asdict(), "found": line.found._asdict()} for line in lines])
    from rich.console import Console
    from rich.table import Table

    table = Table("run", "environment", "metric", "seeds", "mean", "std", "p25", "IQM (95 %)", "p75")
    for line in lines:
        found = line.found
        middle = f"{found.iqm:.1f} ({found.low:.1f} … {found.high:.1f})"
        numbers = (f"{found.mean:.1f}", f"{found.std:.1f}", f"{found.p25:.1f}", middle, f"{found.p75:.1f}")
        table.add_row(line.run, line.environment, line.metric, str(line.seeds), *numbers)
    Console().print(table)


def demo(
    out: Annotated[Path, tyro.conf.arg(help="Folder for the run and the picture.")] = Path("demo"),
    seed: Annotated[int, tyro.conf.arg(help="Seed of the training.")] = 0,
) -> None:
    """Train a small agent, move the obstacle into its way, fit its cost weights anew and compare."""
    from rich.console import Console
    from rich.table import Table

    from safedsr.demo import EPISODES, EPSILON, run_demo
    from safedsr.display import progress_bar

    with progress_bar("training") as show:
        rows, seconds, picture = run_demo(out, seed, show)
    table = Table("", "goal rate", "safe goal rate", "cost", "steps", title="one room, diamond costs, budget 5")
    for row in rows:
        found = row.found
        table.add_row(row.title, *map(str, (found.goal_rate, found.safe_goal_rate, found.cost[0], found.length)))
    Console().print(table)
    print(f"{EPISODES} episodes each, ε = {EPSILON:g}; mean and 95 % interval")
    print(f"new cost weights in {seconds:.1f} s, compilation included; dynamics, rewards and λ untouched")
    print(f"picture: {picture}")


def _walk_json(walks: Any) -> dict[str, float]:
    return {
        name: float(getattr(walks, name)) for name in ("goal_count", "safe_goal_count", "goal_rate", "safe_goal_rate")
    }


def _print_json(data: Any) -> None:
    print(jsonlib.dumps(data, ensure_ascii=False, allow_nan=False))


def _busy(message: str, quiet: bool = False) -> Any:
    """A spinner on the terminal while something takes its time."""
    from rich.console import Console

    return Console(stderr=True, quiet=quiet).status(message)


COMMANDS = {
    "envs": envs,
    "show": show,
    "oracle": oracle,
    "algos": algos,
    "train": train,
    "evaluate": evaluate,
    "report": report,
    "demo": demo,
}


def main(args: list[str] | None = None) -> int:
    """Run a command; 0 done, 2 bad input (one line, no traceback), 130 interrupted."""
    args = sys.argv[1:] if args is None else args
    try:
        if args[:1] == ["train"]:
            _train(args[1:])
        else:
            tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="safedsr", description=__doc__, args=args)
    except UserError as error:
        print(f"safedsr: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("safedsr: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
