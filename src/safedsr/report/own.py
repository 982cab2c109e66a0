"""Tables that compare a user's own runs: what the trained agents reach, and what happened in training."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr.agent import Agent, load_all
from safedsr.engine.evaluate import Estimate, Evaluation, evaluate
from safedsr.envs.environment import Environment
from safedsr.errors import UserError
from safedsr.runs.compare import Comparison
from safedsr.runs.metrics import summarize
from safedsr.runs.reference import References, any_reference
from safedsr.runs.results import Result

EPISODES, HOST_EPISODES = 1_000, 100  # for each seed; environments on the host are slower
EVALUATION = "Final evaluation"
TRAINING = "Training"
TRAINING_NOTE = (
    "Counts over the whole training, with its exploration; 'last' stands for the last episode of each seed. The "
    "interquartile mean (IQM) over seeds with its 95 % bootstrap interval."
)

Found = dict[str, Estimate]  # by the name of its column
FindEnvironment = Callable[[Path], Environment | None]


class OwnRow(NamedTuple):
    """One run: its label, the number of its seeds (0 for the oracle), and its numbers."""

    label: str
    seeds: int
    found: Found


class OwnTable(NamedTuple):
    """One table of a comparison."""

    kind: str  # EVALUATION or TRAINING
    environment: str
    budgets: dict[str, float]  # of the columns that are costs
    rows: list[OwnRow]
    note: str


def own_tables(
    comparison: Comparison,
    epsilon: float,
    episodes: int | None,
    references: References,
    remarks: list[str],
    find: FindEnvironment = lambda path: None,
) -> list[OwnTable]:
    """The tables of one comparison; `remarks` receives why a run has no final evaluation."""
    budgets = dict(zip(comparison.costs, comparison.budgets, strict=True))
    tables = []
    rows, counts = [], set()
    for result in comparison.results:
        try:
            found = evaluate_result(result, epsilon, episodes, find)
        except (UserError, OSError) as error:
            remarks.append(f"no final evaluation of {result.label} in {comparison.title}: {error}")
            continue
        counts.add(found[0].episodes)
        rows.append(OwnRow(result.label, len(found), over_seeds(found, comparison)))
    if rows:
        rows += _oracle(comparison, epsilon, references)
        columns = {f"{comparison.cost_word} ({name})": budget for name, budget in budgets.items()}
        tables.append(OwnTable(EVALUATION, comparison.title, columns, rows, _note(epsilon, sorted(counts), rows)))
    columns = {f"last {comparison.cost_word} ({name})": budget for name, budget in budgets.items()}
    trained = [OwnRow(one.label, len(one.seeds), in_training(one, comparison)) for one in comparison.results]
    return [*tables, OwnTable(TRAINING, comparison.title, columns, trained, TRAINING_NOTE)]


def evaluate_result(result: Result, epsilon: float, episodes: int | None, find: FindEnvironment) -> list[Evaluation]:
    """The evaluations of a run's trained agents in the task of the result, one for each seed."""
    agents = [agent for agent in load_all(result.path, find(result.path)).values() if _of(agent, result)]
    if not agents:
        raise UserError("the policies saved there are of other costs; its training has not ended since they changed")
    usual = HOST_EPISODES if agents[0].job.environment.host else EPISODES
    return [evaluate(agent, episodes=episodes or usual, epsilon=epsilon) for agent in agents]


def _of(agent: Agent, result: Result) -> bool:
    task = agent.task
    same = (task.name, task.cost_names, task.budgets) == (result.layout, result.costs, result.budgets)
    return same and agent.seed in result.seeds


def over_seeds(found: Sequence[Evaluation], comparison: Comparison) -> Found:
    """The columns of a run: the IQM over seeds with its interval, or the interval over episodes of a single seed."""
    names = {"goal rate": "goal_rate", "safe goal rate": "safe_goal_rate", "return": "reward", "steps": "length"}
    if not comparison.terms.success:
        names = {"safe episodes": "safe_goal_rate", "return": "reward", "steps": "length"}
    columns = {name: [getattr(one, field) for one in found] for name, field in names.items()}
    for j, name in enumerate(comparison.costs):
        columns[f"{comparison.cost_word} ({name})"] = [one.cost[j] for one in found]
    return {name: x[0] if len(x) == 1 else _summary([one.value for one in x]) for name, x in columns.items()}


def _summary(values: Sequence[float] | np.ndarray) -> Estimate:
    found = summarize(values)
    return Estimate(found.iqm, found.low, found.high)


def _oracle(comparison: Comparison, epsilon: float, references: References) -> list[OwnRow]:
    """The oracle at the same ε, if it is known."""
    reference = any_reference(comparison.results, references)
    for level in (reference.exploring, reference.greedy) if reference else ():
        if level.epsilon == epsilon:
            values = {"goal rate": level.goal_rate, "safe goal rate": level.safe_goal_rate, "return": level.reward}
            values |= {f"{comparison.cost_word} ({n})": c for n, c in zip(comparison.costs, level.cost, strict=True)}
            return [OwnRow("oracle", 0, {name: Estimate(value, value, value) for name, value in values.items()})]
    return []


def _note(epsilon: float, counts: Sequence[int], rows: Sequence[OwnRow]) -> str:
    sizes = {row.seeds for row in rows if row.seeds}
    how = []
    if sizes - {1}:
        how.append("Several seeds: the interquartile mean (IQM) over seeds with its 95 % bootstrap interval.")
    if 1 in sizes:
        how.append("One seed: the mean over its episodes with its 95 % interval.")
    words = " or ".join(map(str, counts))
    if rows[-1].label == "oracle":
        how.append("The oracle knows the map and plans for as many safe goals as possible.")
    return " ".join([f"The trained agents in {words} episodes for each seed, ε = {epsilon:g}.", *how])


def in_training(result: Result, comparison: Comparison) -> Found:
    """Goals and safe goals, or episodes and the share of safe ones if none can succeed; the last return and costs."""
    counts, terms = result.counts, comparison.terms
    goals, safe = counts["goal count"], counts["safe goal count"]
    shown = {"goals": goals, "safe goals": safe}
    if not terms.success:
        shown = {"episodes": goals, "safe episodes": safe / np.maximum(goals, 1)}
    shown |= {"last return": counts["last reward"]}
    shown |= {f"last {comparison.cost_word} ({name})": counts[f"last cost {name}"] for name in result.costs}
    return {name: _summary(values) for name, values in shown.items()}
