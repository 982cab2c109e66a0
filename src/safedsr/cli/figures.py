"""The command that draws: figures."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from safedsr.cli.terminal import Json, print_json
from safedsr.errors import UserError


def figures(
    runs: tyro.conf.Positional[
        Annotated[tuple[Path, ...], tyro.conf.arg(help="Run folders, or folders that hold some.")]
    ] = (),
    out: Annotated[Path, tyro.conf.arg(help="Folder for the pictures.")] = Path("figures"),
    oracle: Annotated[
        bool, tyro.conf.arg(help="Compute the oracle's lines that the folder has not got yet: ten seconds a map.")
    ] = False,
    run: Annotated[Path | None, tyro.conf.arg(help="Also draw what the agent of this run folder expects.")] = None,
    seed: Annotated[int | None, tyro.conf.arg(help="Its seed; the best if not given.")] = None,
    environment: Annotated[int, tyro.conf.arg(help="Its environment, counted from 0.")] = 0,
    as_json: Json = False,
) -> None:
    """Draw the paper's figures from run folders, as PDF and PNG; what is missing in them is left out."""
    if not runs and not run:
        raise UserError("no run folder given; write for example: safedsr figures results/baselines --out figures")
    drawn = _results_figures(runs, out, oracle) if runs else []
    if run:
        drawn.append(_values_figure(run, seed, environment, out))
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

    wanted = results if oracle else ()
    references = reference.add_references(wanted, out, show=lambda name: _say(f"oracle of {name}"))
    return figures_of(results, out, references)


def _values_figure(run: Path, seed: int | None, environment: int, out: Path) -> tuple[str, Path]:
    from safedsr.agent import load
    from safedsr.figures.files import save_for_print
    from safedsr.figures.values import values_figure

    agent = load(run, seed, environment)
    name = f"values-{run.resolve().name}-{environment}-seed-{agent.seed}"
    title = f"Values and greedy actions: {agent.task.title}, seed {agent.seed}"
    return title, save_for_print(values_figure(agent), out, name)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
