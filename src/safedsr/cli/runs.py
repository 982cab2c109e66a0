"""The commands for training: algos, train, evaluate, demo."""

import sys
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from safedsr.agents.registry import ALGORITHMS, Algorithm, find_algorithm, preset_help
from safedsr.cli.environments import (
    EnvFlags,
    cost_args,
    costs_from,
    environment_of,
    require_map,
    trained_in,
)
from safedsr.cli.overview import print_overview
from safedsr.cli.parse import run_command
from safedsr.cli.resume import Asked, continue_run, given_flags
from safedsr.cli.terminal import CostNames, Json, busy, print_json, print_table
from safedsr.envs.grid.config import GridConfig
from safedsr.errors import UserError
from safedsr.runs.config import EPISODE, TrainConfig
from safedsr.validation import seed_numbers

if TYPE_CHECKING:
    from safedsr.engine.evaluate import Evaluation


KIND_HELP = (
    "What the budget limits. episode: the cost of each episode; discounted-mean: the mean of the costs of an episode, "
    "discounted by gamma."
)


def algos(as_json: Json = False) -> None:
    """List the algorithms."""
    if as_json:
        return print_json({name: algorithm.about for name, algorithm in ALGORITHMS.items()})
    width = max(map(len, ALGORITHMS))
    for group, members in groupby(ALGORITHMS.values(), lambda algorithm: algorithm.group):
        print(f"{group}:")
        for algorithm in members:
            print(f"  {algorithm.name:{width}}  {algorithm.about}")


def train_command(args: list[str]) -> None:
    """Run `safedsr train`: each algorithm is a command with its own flags."""
    if not args:
        raise UserError(
            "no algorithm given; write for example: safedsr train safedsr-plus --costs diamond --out runs/first"
        )
    name, *rest = args
    if name in ("-h", "--help"):
        abouts = {name: algorithm.about for name, algorithm in ALGORITHMS.items()}
        return print_overview("safedsr train ALGORITHM", "--out DIR …", "Train an agent.", abouts)
    algorithm = find_algorithm(name)
    run_command(_train_function(algorithm, rest), f"safedsr train {name}", rest)


def _train_function(algorithm: Algorithm, args: list[str]) -> Any:
    """The command that trains one algorithm; each setting of the algorithm is a flag."""
    config, names = algorithm.config, tuple(algorithm.presets)
    given = _flag(args, "--preset")
    default = algorithm.settings(given if given in names else None)  # tyro reports a wrong preset

    def run(
        out: Annotated[Path, tyro.conf.arg(help="New folder for the run.")],
        layout: Annotated[tuple[str, ...], tyro.conf.arg(help="Maps; several maps are trained in parallel.")] = (
            "one-room",
        ),
        costs: Annotated[
            tuple[str, ...], tyro.conf.arg(help="Costs, see 'safedsr envs'; each map is trained with each of them.")
        ] = (),
        budget: Annotated[str | None, tyro.conf.arg(help="Cost budget of an episode; 5 if not given.")] = None,
        budget_kind: Annotated[str, tyro.conf.arg(metavar="{episode,discounted-mean}", help=KIND_HELP)] = EPISODE,
        seeds: Annotated[int, tyro.conf.arg(help="Number of seeds, trained in parallel.")] = 1,
        first_seed: Annotated[int, tyro.conf.arg(help="The first seed.")] = 0,
        preset: Annotated[
            Literal[names],  # pyright: ignore[reportInvalidTypeForm]
            tyro.conf.arg(help=preset_help(names)),
        ] = names[0],
        resume: Annotated[
            bool, tyro.conf.arg(help="Continue the run in the folder --out; start it if there is none yet.")
        ] = False,
        agent: Annotated[config, tyro.conf.arg(name="")] = default,  # pyright: ignore[reportInvalidTypeForm]
        grid: Annotated[GridConfig, tyro.conf.arg(name="")] = GridConfig(),
        training: Annotated[TrainConfig, tyro.conf.arg(name="")] = TrainConfig(),
        where: Annotated[EnvFlags, tyro.conf.arg(name="")] = EnvFlags(),
    ) -> None:
        from safedsr.runs.writer import is_new

        if resume and not is_new(out):
            own = Asked(algorithm.name, agent, grid, layout, costs, budget, budget_kind, seeds, first_seed)
            return continue_run(out, own, training, where, args)
        from safedsr.runs.job import Job, grid_job, tasks_for

        numbers = seed_numbers(first_seed, seeds)
        if where.env:
            _require_no_map(args, where.env)
            from safedsr.envs.environment import make_task

            limit = grid.time_limit if "time_limit" in given_flags(args) else None
            environment = trained_in(where, limit, costless=algorithm.costless)
            task = make_task(environment, budget, cost_args(where))
            job = Job(algorithm.name, (task,), numbers, agent, environment, training, budget_kind)
        else:
            require_map(where, "no --env given")
            tasks = tasks_for(algorithm.name, layout, costs, budget)
            job = grid_job(algorithm.name, tasks, numbers, agent, grid, training, budget_kind)
        from safedsr.cli.display import progress_bar
        from safedsr.engine.lanes import use_cores
        from safedsr.engine.train import train
        from safedsr.runs.advice import advice, budgets_not_kept, without_end
        from safedsr.runs.experience import thinned
        from safedsr.runs.folder import load_run

        for line in advice(job):
            print(line, file=sys.stderr)
        use_cores(job.lanes)
        with progress_bar(algorithm.name) as show:
            train(job, out, show=show)
        done = load_run(out)
        for line in filter(None, [*without_end(done), *budgets_not_kept(job, done), thinned(out)]):
            print(f"note: {line}", file=sys.stderr)
        print(f"run folder: {out}")

    run.__doc__ = f"Train {algorithm.name}: {algorithm.about}."
    return tyro.conf.configure(tyro.conf.OmitArgPrefixes)(run)


def _require_no_map(args: list[str], env: str) -> None:
    """Raise if a flag of maps is given together with another environment."""
    for flag in ("layout", "costs", *GridConfig.__dataclass_fields__):
        if flag != "time_limit" and flag in given_flags(args):
            name = f"--{flag.replace('_', '-')}"
            raise UserError(f"{name} is for maps, not for '{env}'; leave it out (costs: --cost-fn, --cost-entries)")


def _flag(args: list[str], name: str) -> str | None:
    """The value of a flag, if it is given."""
    joined = [arg.partition("=")[2] for arg in args if arg.startswith(f"{name}=")]
    apart = [value for arg, value in pairwise(args) if arg == name]
    return next(iter(joined + apart), None)


def evaluate(
    run: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(help="A run folder.")]],
    costs: CostNames = None,
    budget: Annotated[str | None, tyro.conf.arg(help="New cost budgets; those of the training if not given.")] = None,
    episodes: Annotated[int, tyro.conf.arg(help="Number of episodes for each policy.")] = 1000,
    epsilon: Annotated[float, tyro.conf.arg(help="Probability of a random action.")] = 0.0,
    seed: Annotated[int | None, tyro.conf.arg(help="Evaluate only the policies of this seed.")] = None,
    as_json: Json = False,
    where: Annotated[EnvFlags, tyro.conf.arg(name="")] = EnvFlags(),
) -> None:
    """Evaluate the policies of a run: goal rate, safe goal rate, reward and cost, with 95 % intervals."""
    from safedsr.agent import evaluate_run

    with busy(f"evaluating {run}", quiet=as_json):
        environment = environment_of(run, where)
        new = costs_from(run, environment, costs, where)
        rows = evaluate_run(run, new, budget, episodes, epsilon, seed, environment)
    if as_json:
        return print_json(
            [
                {"trained": agent.task.title, "environment": where.title, "seed": agent.seed, **found.to_dict()}
                for agent, where, found in rows
            ]
        )
    table = [
        {"trained on": agent.task.title, "evaluated on": where.title, "seed": agent.seed, **_outcome(found)}
        for agent, where, found in rows
    ]
    print_table(tuple(table[0]), [tuple(row.values()) for row in table])
    print(f"{episodes} episodes each, ε = {epsilon:g}; mean and 95 % interval")


def _outcome(found: "Evaluation") -> dict[str, object]:
    """The numbers of an evaluation by the names of their columns."""
    shares = {"goal rate": found.goal_rate, "safe goal rate": found.safe_goal_rate, "reward": found.reward}
    if not found.terms.success:
        shares = {"safe episodes": found.safe_goal_rate, "return": found.reward}
    cost = "discounted cost" if found.terms.on_mean else "cost"
    return {**shares, cost: " | ".join(map(str, found.cost)), "steps": found.length}


def demo(
    out: Annotated[Path, tyro.conf.arg(help="Folder for the run and the picture.")] = Path("demo"),
    seed: Annotated[int, tyro.conf.arg(help="Seed of the training.")] = 0,
) -> None:
    """Train an agent for some seconds, move the obstacle onto its path, adapt without new training steps, compare."""
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
        f"time with compilation: {found.fit_seconds:.1f} s for cost weights, {found.learn_seconds:.1f} s for λ and M. "
        "No new training steps; λ was chosen in simulated episodes on the new map."
    )
    print(f"picture: {found.picture}")
