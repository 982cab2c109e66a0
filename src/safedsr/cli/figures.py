"""The command figures."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from safedsr.cli.terminal import TASK_HELP, Json, print_json
from safedsr.errors import UserError


def figures(
    runs: tyro.conf.Positional[
        Annotated[tuple[Path, ...], tyro.conf.arg(help="Run folders, or folders that contain run folders.")]
    ] = (),
    out: Annotated[Path, tyro.conf.arg(help="Folder for the figures.")] = Path("figures"),
    oracle: Annotated[
        bool,
        tyro.conf.arg(help="Compute the oracle's values that the folder does not have yet: ten seconds for each map."),
    ] = False,
    run: Annotated[
        Path | None, tyro.conf.arg(help="Also draw the values and actions of the agent in this run folder.")
    ] = None,
    seed: Annotated[int | None, tyro.conf.arg(help="Seed of that agent; the best one if not given.")] = None,
    task: Annotated[int, tyro.conf.arg(help=TASK_HELP)] = 0,
    as_json: Json = False,
) -> None:
    """Draw the paper's figures from run folders, as PDF and PNG. Figures without data are left out."""
    if not runs and not run:
        raise UserError(
            "no run folder given; after a training, write for example: safedsr figures runs/first --out figures"
        )
    drawn = _results_figures(runs, out, oracle) if runs else []
    if run:
        drawn.append(_values_figure(run, seed, task, out))
    if as_json:
        return print_json([{"title": title, "png": str(path)} for title, path in drawn])
    for title, path in drawn:
        print(f"{path}  {title}")


def _results_figures(runs: tuple[Path, ...], out: Path, oracle: bool) -> list[tuple[str, Path]]:
    from safedsr.runs.collect import load_results

    remarks: list[str] = []
    results = load_results(runs, remarks)
    for remark in remarks:
        _say(remark)
    if not results:
        raise UserError(f"no results in {', '.join(map(str, runs))}; give folders that 'safedsr train --out' wrote")
    from safedsr.figures.paper import figures_of
    from safedsr.runs import reference

    wanted = [result for result in results if result.on_grid] if oracle else ()
    references = reference.add_references(wanted, out, show=lambda name: _say(f"oracle of {name}"))
    return figures_of(results, out, references)


def _values_figure(run: Path, seed: int | None, task: int, out: Path) -> tuple[str, Path]:
    from safedsr.agent import load
    from safedsr.figures.files import save_for_print
    from safedsr.figures.values import values_figure

    agent = load(run, seed, task)
    name = f"values-{run.resolve().name}-{task}-seed-{agent.seed}"
    title = f"Values and greedy actions: {agent.task.title}, seed {agent.seed}"
    return title, save_for_print(values_figure(agent), out, name)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
