"""The command sweep."""

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from safedsr.cli.environments import EnvFlags, Repeated, trained_in
from safedsr.cli.ranking import Metric, is_sweep, print_ranking
from safedsr.cli.terminal import Json, print_json
from safedsr.cli.where import ExecutorName, Where, executor_for, only_plan
from safedsr.errors import Refusal, UserError
from safedsr.validation import in_file

if TYPE_CHECKING:
    from safedsr.sweep.plan import Planned, Sweep


@dataclass(frozen=True)
class SweepFlags:
    """What a sweep trains; each flag may also be a line of the TOML file."""

    algos: tuple[str, ...] = ()
    """Algorithms (safedsr algos)."""
    layout: tuple[str, ...] = ()
    """Maps; all maps of a configuration are trained together."""
    costs: tuple[str, ...] = ()
    """Costs, see 'safedsr envs'; each map is trained with each of them."""
    budget: tuple[str, ...] = ()
    """Cost budgets; each map is trained with each of them."""
    budget_kind: str | None = None
    """What the budget limits: episode, or discounted-mean."""
    seeds: int | None = None
    """Number of seeds of each configuration; 1 if not given."""
    first_seed: int | None = None
    """The first seed."""
    preset: str | None = None
    """Named settings to start from, as in 'safedsr train'."""
    set: Annotated[Repeated, tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """A setting of all runs, named as the flags of 'safedsr train', such as steps=100000; may be repeated."""
    vary: Annotated[Repeated, tyro.conf.arg(metavar="NAME=VALUES")] = ()
    """Values of a setting, such as learning-rate=1e-4,5e-4, or with --sample a range, such as
    learning-rate=log:1e-5..1e-3; may be repeated. ALGORITHM.NAME is for one algorithm only."""
    sample: int | None = None
    """Draw this many combinations of the varied settings, instead of training all of them."""
    sample_seed: int | None = None
    """Seed of these draws."""
    halving: int | None = None
    """Successive halving: after each rung, only one in this many configurations goes on."""
    metric: Metric | None = None
    """What configurations are ranked by, over the last quarter of the steps; safe-goal-rate if not given, or return
    where episodes have no goal."""
    pack: int | None = None
    """Most lanes (seeds × maps × costs) in one run folder; as many as fit into memory if not given."""


def sweep(
    file: tyro.conf.Positional[
        Annotated[Path | None, tyro.conf.arg(help="A TOML file with the same names as the flags.")]
    ] = None,
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for the sweep; one that exists is continued.")] = None,
    best: Annotated[
        bool, tyro.conf.arg(help="Train nothing; print the command that trains the best configuration again.")
    ] = False,
    as_json: Json = False,
    executor: ExecutorName = "local",
    what: Annotated[SweepFlags, tyro.conf.arg(name="")] = SweepFlags(),
    where: Annotated[Where, tyro.conf.arg(name="")] = Where(),
    environment: Annotated[EnvFlags, tyro.conf.arg(name="")] = EnvFlags(),
) -> None:
    """Train many settings, algorithms and seeds: on this computer, a Ray cluster or SLURM. Rank them."""
    if out is None:
        raise UserError("no folder given; write for example: safedsr sweep --algos safedsr-plus --out sweeps/first")
    if best:
        return _print_best(out, what.metric, as_json)
    only_plan()
    from safedsr.cli.sweep_display import watching
    from safedsr.sweep.local import memory_each
    from safedsr.sweep.plan import begin, plan, with_pack
    from safedsr.sweep.run import run_sweep

    found = _chosen(file, out, what, environment)
    if found.halving and not where.shared:
        raise UserError("--halving continues runs and needs a shared folder; leave out --halving or --no-shared")
    planned = _plan(found)
    doing = executor_for(executor, where, out, len(planned))
    try:
        if found.pack is None and not is_sweep(out):
            found = with_pack(found, planned, memory_each(getattr(doing, "workers", 1)))
            planned = plan(found, _maker(found)) if found.pack else planned
        begin(found, planned, out)
        with watching(out, quiet=as_json) as watcher:
            outcomes = run_sweep(found, planned, out, doing, watcher)
    finally:
        doing.close()
    failed = {name: outcome.reason for name, outcome in outcomes.items() if outcome.state == "failed"}
    print_ranking(out, found.metric, as_json, failed)
    if failed:
        first = next(iter(failed))
        raise Refusal(f"{len(failed)} of {len(planned)} runs failed; {first} ({out / first}): {failed[first]}")


def _plan(found: "Sweep") -> "list[Planned]":
    from safedsr.sweep.plan import plan

    return plan(found, _maker(found))


def _maker(found: "Sweep") -> Any:
    """Makes the environment of a sweep that is not on maps."""
    if not found.env.get("env"):
        return None
    flags = EnvFlags(**found.env)
    return lambda costless: trained_in(flags, None, costless=costless)


def _chosen(file: Path | None, out: Path, what: SweepFlags, environment: EnvFlags) -> "Sweep":
    """The sweep that file and flags describe, or that of the folder if they say nothing."""
    from safedsr.envs.functions import parse_assignments
    from safedsr.sweep.plan import read_sweep, sweep_from
    from safedsr.sweep.values import parse_choices

    given: dict[str, Any] = {name: value for name, value in vars(what).items() if value not in ((), None)}
    flags = {name: _absolute(value) for name, value in vars(environment).items() if value}
    if not given and not flags and file is None and is_sweep(out):
        return read_sweep(out)
    if what.vary:
        given["vary"] = parse_choices(what.vary)
    if what.set:
        pairs = [text.partition("=") for text in what.set]
        given["set"] = parse_assignments([f"{n.replace('-', '_').replace('.', '__')}={v}" for n, _, v in pairs])
        given["set"] = {name.replace("__", "."): value for name, value in given["set"].items()}
    read = _read(file) if file else {}
    for name in [name for name in read if name.replace("-", "_") in EnvFlags.__dataclass_fields__]:
        flags = {name.replace("-", "_"): _absolute(read.pop(name)), **flags}
    found = sweep_from({**read, **given, "env": flags})
    if is_sweep(out) and found.pack is None:
        found = dataclasses.replace(found, pack=read_sweep(out).pack)  # as it was found to fit at the start
    return found


def _absolute(value: Any) -> Any:
    """Files of functions by their whole path, because processes may run in other folders."""
    if isinstance(value, list | tuple):
        return tuple(map(_absolute, value))
    if isinstance(value, str) and ".py:" in value:
        path, _, name = value.rpartition(":")
        return f"{Path(path).absolute()}:{name}"
    return value


def _read(file: Path) -> dict[str, Any]:
    try:
        with in_file(file):
            return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; give a TOML file, or flags alone") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is no TOML file: {error}") from None


def _print_best(out: Path, metric: str | None, as_json: bool) -> None:
    from safedsr.sweep.ranking import commands, rank

    winner = rank(out, metric)[0]
    lines = commands(out, winner)
    if as_json:
        return print_json({"configuration": winner.configuration, "settings": winner.settings, "commands": lines})
    print("\n".join(lines))
