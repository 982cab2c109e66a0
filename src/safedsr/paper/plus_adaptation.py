"""How SafeDSR-plus adapts: agents of the experiment 'plus' that were trained with one set of costs get other costs.

There are no new training steps. The results of every agent are saved in a small file, so that the work can be
interrupted and shared between processes, as in the experiment with changing costs (`adaptation_rungs`).
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.adapt.costs import learner_of, task_of
from safedsr.agent import Agent, load_all
from safedsr.envs.grid import physics
from safedsr.envs.grid.config import GridConfig
from safedsr.errors import UserError
from safedsr.paper.adaptation_arms import RUNG_NAMES
from safedsr.paper.adaptation_plan import Scale
from safedsr.paper.adaptation_rungs import climb, oracles
from safedsr.paper.adaptation_tables import TextTable, over_seeds, write_tables
from safedsr.paper.experiments import ABLATIONS, NO_MAP, PLUS, SINGLE, WHOLE
from safedsr.runs import storage
from safedsr.runs.folder import read_config
from safedsr.runs.labels import fixed, interval

KNOWN, NEW = ("two-rooms", "diamond"), ("small-diamond", "square", "inverse-diamond")
UPDATES, EPISODES, PLACES = 10_000, 1_000, 20_000
FOLDER, FILE, UNKNOWN = "adaptation", "table.md", "–"
ENOUGH = 0.92  # safe goal rate in the search at which M has learnt enough; no knowledge of the oracle is used
SIMULATOR, MEMORY = "simulator", "memory"  # where the episodes of the search for λ come from
RECOMMENDED = (WHOLE, f"{NO_MAP}-{KNOWN[1]}")  # adapted with the simulator, and from memory alone
# The controls and ablations that are adapted too, with the simulator only.
OTHERS = (SINGLE, "safedsr-matched", *(f"{PLUS}-{name}" for name in ABLATIONS))


def finish(out: Path, scale: Scale) -> list[TextTable]:
    """Adapt the agents of the experiment in `out`, except those already done, and return a table for each run."""
    folder = out / FOLDER
    oracle = {costs: row["safe_goal_rate"] for costs, row in oracles(scale, folder, NEW).items()}
    runs = [run for run in (*RECOMMENDED, *OTHERS) if (folder / run).is_dir() or _can_adapt(out / run)]
    for run in runs:
        searches = (SIMULATOR, MEMORY) if run in RECOMMENDED else (SIMULATOR,)
        adapt_all(out / run, folder / run, searches, scale.of(UPDATES))
    tables = [adaptation_table(folder / run, oracle) for run in runs]
    write_tables(folder / FILE, tables)
    return tables


def _can_adapt(run: Path) -> bool:
    """Whether a run has agents, which a packed one does not, and the task that they are adapted from."""
    return (run / "policy.json").is_file() and known_task(run) is not None


class Try(NamedTuple):
    """One agent, its new costs, and where λ is searched."""

    seed: int
    costs: str
    search: str

    @property
    def file(self) -> str:
        """The file for its numbers."""
        return f"{self.costs}-{self.search}-{self.seed}.json"


def adapt_all(
    run: Path,
    out: Path,
    searches: Sequence[str] = (SIMULATOR, MEMORY),
    updates: int = UPDATES,
    show: Callable[[str], None] = print,
) -> None:
    """Adapt every agent of a run to all new costs."""
    storage.make_folder(out)
    seeds = storage.read_json(run / "manifest.json", ["seeds"])["seeds"]
    places = {out / one.file: one for one in tries(seeds, searches)}
    if all(path.exists() for path in places):
        return
    known = known_task(run)
    if known is None:
        raise UserError(f"{run} has no agent trained in {KNOWN[0]} with {KNOWN[1]} costs; train that part first")
    agents = {seed: agent for (task, seed), agent in load_all(run).items() if task == known}
    for path in storage.unclaimed(places):
        one = places[path]
        agent = agents[one.seed]
        rows = climb(agent, one.costs, ENOUGH, updates, EPISODES, from_memory=one.search == MEMORY)
        storage.write_json(path, {**one._asdict(), "r2": held_out_r2(agent, one.costs), "rows": rows})
        show(f"{run.name}: seed {one.seed} adapted to {one.costs}, λ by {one.search}")


def tries(seeds: Iterable[int], searches: Sequence[str]) -> Iterator[Try]:
    """All combinations of seed, new costs and search."""
    for seed in sorted(seeds):
        for costs in NEW:
            for search in searches:
                yield Try(seed, costs, search)


def known_task(run: Path) -> int | None:
    """The number of the task with the known costs; None if there is no such run or task."""
    if not (run / "config.json").is_file():
        return None
    about = read_config(run)["tasks"]
    return next((i for i, one in enumerate(about) if (one["name"], *one["costs"]) == KNOWN), None)


def held_out_r2(agent: Agent, costs: str, seed: int = 0) -> float:
    """R² of the new costs predicted from φ with refitted weights, for random free positions and random actions."""
    layout = task_of(agent, costs).params
    w_c = np.asarray(learner_of(agent.refit(costs)).weights.w_c, np.float64)[0]
    rng, config = np.random.default_rng(seed), GridConfig(**agent.job.environment.settings)
    height, width = layout.walls.shape
    place = rng.uniform(0, (width, height), (PLACES, 2)).astype(np.float32)
    place = place[~layout.walls[place[:, 1].astype(int), place[:, 0].astype(int)]]
    action = rng.integers(physics.NUM_ACTIONS, size=len(place))
    keys = jax.random.split(jax.random.key(seed), len(place))

    def cost(key: jax.Array, place: jax.Array, action: jax.Array) -> jax.Array:
        length = physics.step_length(key, config)
        return physics.cost_at(physics.land(place, action, length, layout), layout)[0]

    actual = np.asarray(jax.jit(jax.vmap(cost))(keys, jnp.asarray(place), jnp.asarray(action)), np.float64)
    phi = agent.features(place / layout.scale, action)
    guess = phi @ w_c[: phi.shape[1]]  # M may have further features, whose weights are 0 after a refit
    return float(1 - np.mean((actual - guess) ** 2) / actual.var())


def adaptation_table(out: Path, oracle: Mapping[str, float]) -> TextTable:
    """The safe goal rate after each level of adaptation, over seeds, and the oracle's."""
    found = [storage.read_json(path, ["costs", "search", "rows", "r2"]) for path in sorted(out.glob("*.json"))]
    measured = all("safe_greedy" in one["rows"][-1] for one in found)  # earlier versions did not
    lines = []
    for costs, search in itertools.product(NEW, (SIMULATOR, MEMORY)):
        here = [one for one in found if (one["costs"], one["search"]) == (costs, search)]
        if here:
            rungs = list(zip(*(one["rows"] for one in here), strict=True))
            rates = [interval(over_seeds(rung, "safe"), 3) for rung in rungs]
            least = fixed(min(row["safe"] for row in rungs[-1]), 3)
            foreseen = fixed(over_seeds(rungs[-1], "foreseen").iqm, 3) if search == MEMORY else UNKNOWN
            greedy = [interval(over_seeds(rungs[-1], "safe_greedy"), 3)] if measured else []
            seconds = fixed(float(np.median([row["seconds"] for row in rungs[-1]])), 0)
            fit = fixed(over_seeds(here, "r2").iqm, 3)
            lines.append(
                (costs, search, str(len(here)), fit, *rates, least, *greedy, foreseen, fixed(oracle[costs], 3), seconds)
            )
    columns = ("new costs", "λ by", "agents", "R² of costs", *RUNG_NAMES.values())
    columns += ("worst agent", *(["ε = 0"] if measured else []), "foreseen", "oracle", "seconds")
    note = (
        f"Safe goal rate in {EPISODES} true episodes at ε = 0.25: IQM over agents with a 95 % bootstrap interval"
        f"{'; ε = 0: the last level without random actions' if measured else ''}. λ is searched in simulated episodes "
        "of the new map, or on walks through the replay memory; foreseen: the safe goal rate on such walks."
    )
    return TextTable(f"{out.name}, {KNOWN[0]}, trained on {KNOWN[1]}", columns, lines, note)
