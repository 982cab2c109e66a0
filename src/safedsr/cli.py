"""Constrained reinforcement learning where the constraints change."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from safedsr.cli_adapt import adapt, certify
from safedsr.cli_adaptation import adaptation_command
from safedsr.cli_figures import figures
from safedsr.cli_oracle import oracle
from safedsr.cli_paper import pack, reproduce
from safedsr.cli_runs import algos, evaluate, report, train, train_command
from safedsr.compiled import keep_compiled
from safedsr.errors import Refusal, UserError
from safedsr.terminal import CostNames, Json, LayoutName, print_json, print_table


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


def demo(
    out: Annotated[Path, tyro.conf.arg(help="Folder for the run and the picture.")] = Path("demo"),
    seed: Annotated[int, tyro.conf.arg(help="Seed of the training.")] = 0,
) -> None:
    """Train an agent for a moment, move the obstacle into its way, adapt it without a new step and compare."""
    from safedsr.demo import EPISODES, EPSILON, REDUCTION, run_demo
    from safedsr.display import progress_bar

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
