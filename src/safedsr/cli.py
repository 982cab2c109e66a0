"""Constrained reinforcement learning where the constraints change."""

import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from safedsr.cli_adapt import adapt, certify
from safedsr.cli_adaptation import adaptation_command
from safedsr.cli_figures import figures
from safedsr.cli_paper import pack, reproduce
from safedsr.cli_runs import algos, evaluate, report, train, train_command
from safedsr.compiled import keep_compiled
from safedsr.config import EpsilonSchedule, GridConfig, OracleConfig
from safedsr.errors import Refusal, UserError
from safedsr.terminal import Budgets, CostNames, Json, LayoutName, busy, print_json, print_table
from safedsr.validation import parse_budgets


def envs(as_json: Json = False) -> None:
    """List the maps and the cost shapes."""
    from safedsr.scene import COST_SHAPES, ROOM_NAMES, load_scene

    maps = [load_scene(name) for name in ROOM_NAMES]
    if as_json:
        sizes = {m.name: {"height": m.layout.walls.shape[0], "width": m.layout.walls.shape[1]} for m in maps}
        return print_json({"layouts": sizes, "pattern": "rooms-N", "costs": list(COST_SHAPES)})
    print_table(
        ("layout", "rows × columns", ""),
        [
            *(
                (m.name, " × ".join(map(str, m.layout.walls.shape)), "from the left-most to the right-most cell")
                for m in maps
            ),
            ("rooms-N", "11 × 10·N+1", "N rooms"),
            ("FILE.txt", "as drawn", "# wall  . free  S start  G goal  C cost; letters and layers of your own"),
        ],
    )
    print(f"costs: {', '.join(COST_SHAPES)}, FILE.txt; several with commas")


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
        print_json(
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

    with busy(f"planning and walking {scene.name}", quiet=as_json):
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
        return print_json(
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
    print_table(
        ("ε", "goals", "safe goals", "goal rate", "safe goal rate", "steps", "cost"),
        [
            (
                name,
                f"{walks.goal_count:.0f}",
                f"{walks.safe_goal_count:.0f}",
                f"{walks.goal_rate:.3f}",
                f"{walks.safe_goal_rate:.3f}",
                f"{walks.length:.1f}",
                " ".join(f"{value:.1f}" for value in walks.cost),
            )
            for name, walks in rows.items()
        ],
        title=f"oracle, λ = {found.lam:g}",
    )
    print(f"counts over {config.steps} steps, mean of {config.walks} walks; rates and means at the last ε")
    if png:
        print(f"picture: {png}")


def demo(
    out: Annotated[Path, tyro.conf.arg(help="Folder for the run and the picture.")] = Path("demo"),
    seed: Annotated[int, tyro.conf.arg(help="Seed of the training.")] = 0,
) -> None:
    """Train a small agent, move the obstacle into its way, fit its cost weights anew and compare."""
    from safedsr.demo import EPISODES, EPSILON, REDUCTION, run_demo
    from safedsr.display import progress_bar

    print(REDUCTION)
    with progress_bar("training") as show:
        rows, seconds, picture = run_demo(out, seed, show)
    print_table(
        ("", "goal rate", "safe goal rate", "cost", "steps"),
        [(r.title, r.found.goal_rate, r.found.safe_goal_rate, r.found.cost[0], r.found.length) for r in rows],
        title="one room, diamond costs, budget 5",
    )
    print(f"{EPISODES} episodes each, ε = {EPSILON:g}; mean and 95 % interval")
    print(f"new cost weights in {seconds:.1f} s, compilation included; dynamics, rewards and λ untouched")
    print(f"picture: {picture}")


def _walk_json(walks: Any) -> dict[str, float]:
    return {
        name: float(getattr(walks, name)) for name in ("goal_count", "safe_goal_count", "goal_rate", "safe_goal_rate")
    }


COMMANDS = {
    "envs": envs,
    "show": show,
    "oracle": oracle,
    "algos": algos,
    "train": train,
    "evaluate": evaluate,
    "certify": certify,
    "adapt": adapt,
    "report": report,
    "pack": pack,
    "reproduce": reproduce,
    "figures": figures,
    "demo": demo,
}


def main(args: list[str] | None = None) -> int:
    """Run a command; 0 done, 1 broke down or a check failed, 2 bad input (one line, no traceback), 130 stopped."""
    args = sys.argv[1:] if args is None else args
    keep_compiled()
    try:
        if args[:1] == ["train"]:
            train_command(args[1:])
        elif args[:2] == ["reproduce", "adaptation"]:
            adaptation_command(args[2:])
        else:
            tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="safedsr", description=__doc__, args=args)
    except (UserError, OSError) as error:
        print(f"safedsr: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, Refusal) as error:
        print(f"safedsr: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"safedsr: {stop or 'interrupted'}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
