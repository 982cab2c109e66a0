"""The command watch: films of episodes, and curves of a running training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from safedsr.cli.environments import EnvFlags, costs_from, environment_of
from safedsr.cli.terminal import TASK_HELP, CostNames, busy
from safedsr.errors import UserError

if TYPE_CHECKING:
    from safedsr.figures.film import Watched

RUNS_HELP = (
    "Run folders, or pretrained:NAME. Several agents are shown side by side, all of them in the task of the last one: "
    "safedsr watch RUN ADAPTED."
)


def watch(
    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(help=RUNS_HELP)]],
    out: Annotated[Path, tyro.conf.arg(help="The film: a name that ends in .gif or .mp4.")] = Path("episodes.gif"),
    episodes: Annotated[int, tyro.conf.arg(help="Number of episodes, one after the other.")] = 1,
    epsilon: Annotated[float, tyro.conf.arg(help="Probability of a random action.")] = 0.0,
    costs: CostNames = None,
    budget: Annotated[str | None, tyro.conf.arg(help="New cost budgets; those of the last run if not given.")] = None,
    seed: Annotated[int | None, tyro.conf.arg(help="Seed of the policies; the best one if not given.")] = None,
    task: Annotated[int, tyro.conf.arg(help=TASK_HELP)] = 0,
    episode_seed: Annotated[int, tyro.conf.arg(help="Seed of the first episode.")] = 0,
    rate: Annotated[int, tyro.conf.arg(help="Frames per second.")] = 12,
    live: Annotated[bool, tyro.conf.arg(help="Show curves of a running training in the terminal instead.")] = False,
    where: Annotated[EnvFlags, tyro.conf.arg(name="")] = EnvFlags(),
) -> None:
    """Draw episodes of agents as a GIF or MP4 film. With --live, show the curves of a running training."""
    if not runs:
        raise UserError("no run folder given; write for example: safedsr watch pretrained:two-rooms --out episodes.gif")
    if live:
        from safedsr.cli.live import show_live

        return show_live(runs[0])
    from safedsr.figures.film import ENDINGS, find_ffmpeg, frames_of, save_film
    from safedsr.validation import require

    require(episodes >= 1, "episodes", episodes, "give at least 1")
    require(1 <= rate <= 50, "rate", rate, "give 1 to 50")
    require(0 <= epsilon <= 1, "epsilon", epsilon, "give a share between 0 and 1")
    if out.suffix.lower() not in ENDINGS:
        raise UserError(f"out is '{out}'; give a name that ends in {' or '.join(ENDINGS)}")
    if out.suffix.lower() == ".mp4":
        find_ffmpeg()
    with busy(f"filming {', '.join(map(str, runs))}"):
        watched = _watched(runs, costs, budget, seed, task, where)
        for one in watched:
            _run(one, episodes, epsilon, episode_seed)
        save_film(frames_of(watched, rate), out, rate)
    for one in watched:
        print(f"{one.title}, in {one.task.title}: {_outcome(one)}")
    print(f"film: {out}")


def _watched(
    runs: tuple[Path, ...], costs: str | None, budget: str | None, seed: int | None, task: int, where: EnvFlags
) -> "list[Watched]":
    """The agents of all runs, and the task of the last one."""
    from safedsr.adapt.costs import task_of
    from safedsr.agent import load
    from safedsr.figures.film import Watched

    environments = [environment_of(run, where) for run in runs]
    agents = [load(run, seed, task, environment) for run, environment in zip(runs, environments, strict=True)]
    names = {agent.job.environment.name for agent in agents}
    if len(names) > 1:
        raise UserError(f"these runs are of different environments ({', '.join(sorted(names))}); film them one by one")
    last = agents[-1]
    there = task_of(last, costs_from(runs[-1], environments[-1], costs, where), budget)
    return [Watched(title, agent, there, []) for title, agent in zip(_titles(runs), agents, strict=True)]


def _titles(runs: tuple[Path, ...]) -> list[str]:
    """The names of the folders; those of two runs of which the second is adapted say so."""
    names = [str(run) for run in runs]
    if len(runs) == 2 and (runs[1] / "certificate.json").is_file():
        return [f"before adaptation: {names[0]}", f"after adaptation: {names[1]}"]
    return names


def _run(one: "Watched", episodes: int, epsilon: float, first: int) -> None:
    from safedsr.engine.record import record

    one.episodes.extend(record(one.agent, one.task, epsilon, first + number) for number in range(episodes))


def _outcome(one: "Watched") -> str:
    """What the episodes cost and whether they reached the goal, in words."""
    pairs = zip(one.task.cost_names, one.task.budgets, strict=True)
    words = [
        f"{name} {', '.join(f'{found.cost[-1][j]:g}' for found in one.episodes)} (budget {budget:g})"
        for j, (name, budget) in enumerate(pairs)
    ]
    if one.agent.job.terms.success:
        words.insert(0, f"goal reached in {sum(found.success for found in one.episodes)} of {len(one.episodes)}")
    returns = ", ".join(f"{found.ret[-1]:.2f}" for found in one.episodes)
    return "; ".join([*words, f"return {returns}"])
