"""How good a policy is: episodes on the real grid, each number with a 95 % interval."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.grid import physics as grid
from safedsr.envs.grid.catalog import with_costs
from safedsr.envs.grid.layout import Layout, Scene
from safedsr.envs.grid.paths import episode_paths
from safedsr.runs.experiment import DEFAULT_BUDGET, Environment
from safedsr.runs.metrics import within
from safedsr.runs.policy import Agent, load_all
from safedsr.types import PyTree
from safedsr.validation import parse_budgets, require

WALKERS = 64  # enough to keep the matrix products busy, and few wait for the last episode


class Outcome(NamedTuple):
    """What each of n episodes came to."""

    reached: Any  # [n] bool
    length: Any  # [n]
    ret: Any  # [n]
    cost: Any  # [n, J]


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} … {self.high:.3f})"


class Evaluation(NamedTuple):
    """A policy's numbers over `episodes` episodes."""

    episodes: int
    goal_rate: Estimate
    safe_goal_rate: Estimate
    reward: Estimate
    cost: tuple[Estimate, ...]  # one a cost
    length: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        named = {name: getattr(self, name)._asdict() for name in ("goal_rate", "safe_goal_rate", "reward", "length")}
        return {"episodes": self.episodes, **named, "cost": [cost._asdict() for cost in self.cost]}


def evaluate_run(
    path: str | Path,
    costs: str | None = None,
    budget: str | None = None,
    episodes: int = 1000,
    epsilon: float = 0.0,
    seed: int | None = None,
) -> list[tuple[Agent, Environment, Evaluation]]:
    """Every policy of a run folder, or those of one seed, where it was walked, and its numbers."""
    agents = load_all(path)
    seeds = {number for _, number in agents}
    require(seed is None or seed in seeds, "seed", seed, f"the run has {', '.join(map(str, sorted(seeds)))}")
    rows = []
    for (_, number), agent in agents.items():
        if seed not in (None, number):
            continue
        trained = agent.environment
        scene = trained.scene if costs is None else with_costs(trained.scene, costs)
        environment = Environment(scene, budgets_for(trained, scene, budget))
        rows.append((agent, environment, evaluate(agent, environment, episodes, epsilon)))
    return rows


def budgets_for(trained: Environment, scene: Scene, budget: Any = None) -> tuple[float, ...]:
    """The budgets given, or those it was trained with if they fit the costs, or the usual one."""
    count = len(scene.cost_names)
    if budget is None and count == len(trained.budgets):
        return trained.budgets
    return parse_budgets(DEFAULT_BUDGET if budget is None else budget, count)


def evaluate(
    agent: Agent, environment: Environment | None = None, episodes: int = 1000, epsilon: float = 0.0, seed: int = 0
) -> Evaluation:
    """Episodes of the agent's ε-greedy policy in its own environment or another one."""
    environment = environment or agent.environment
    outcome = run_episodes(agent, environment.scene.layout, episodes, epsilon, seed)
    safe = outcome.reached & within(outcome.cost, environment.budgets)
    return Evaluation(
        episodes=episodes,
        goal_rate=_share(outcome.reached),
        safe_goal_rate=_share(safe),
        reward=_mean(outcome.ret),
        cost=tuple(_mean(column) for column in outcome.cost.T),
        length=_mean(outcome.length),
    )


def run_episodes(agent: Agent, layout: Layout, episodes: int, epsilon: float = 0.0, seed: int = 0) -> Outcome:
    """Whole episodes; each has a key of its own, so that none depends on how many there are or who walks beside it."""
    require(episodes >= 2, "episodes", episodes, "give at least 2, for an interval")
    require(0 <= epsilon <= 1, "epsilon", epsilon, "give a share between 0 and 1")
    return run_keys(agent, layout, jax.random.split(jax.random.key(seed), episodes), epsilon)


def run_keys(agent: Agent, layout: Layout, keys: Array, epsilon: float = 0.0) -> Outcome:
    """One episode for each key [n]."""
    return jax.device_get(_run(agent.values_of, agent.job.grid, agent.policy, layout, keys, jnp.float32(epsilon)))


def agent_paths(agent: Agent, layout: Layout, epsilons: Sequence[float]) -> list[np.ndarray]:
    """The positions of one episode of the agent for each ε, for pictures."""

    def best(state: grid.GridState) -> Array:
        return jnp.argmax(agent.values_of(agent.policy, grid.observe(state, layout)).score)

    return episode_paths(best, layout, epsilons, agent.job.grid)


@partial(jax.jit, static_argnames=("values", "grid_config"))
def _run(values: Any, grid_config: Any, policy: PyTree, layout: Layout, keys: Array, epsilon: Array) -> Outcome:
    """A few walkers; whoever ends an episode takes the next one that nobody has begun."""
    count = len(keys)
    walkers = min(WALKERS, count)

    def step(key: Array, state: grid.GridState, so_far: Outcome) -> tuple[grid.GridState, Outcome, Array]:
        luck_key, step_key = jax.random.split(jax.random.fold_in(key, state.time))
        best = jnp.argmax(values(policy, grid.observe(state, layout)).score)
        action = grid.epsilon_greedy(jax.random.uniform(luck_key, (2,)), best, epsilon)
        state, out = grid.move(step_key, state, action, layout, grid_config)
        so_far = Outcome(out.terminated, state.time, so_far.ret + out.reward, so_far.cost + out.cost)
        return state, so_far, out.terminated | out.truncated

    def begin(episode: Array) -> tuple[grid.GridState, Outcome]:
        state, _ = jax.vmap(grid.reset, (0, None, None))(keys[episode], layout, grid_config)
        return state, _nothing(walkers, len(layout.costs))

    def advance(walk: Walk) -> Walk:
        state, so_far, done = jax.vmap(step)(keys[walk.episode], walk.state, walk.so_far)
        done &= walk.episode < count
        place = jnp.where(done, walk.episode, count)  # that of nobody who goes on
        outcome = jax.tree.map(lambda kept, new: kept.at[place].set(new, mode="drop"), walk.outcome, so_far)
        episode = jnp.where(done, walk.begun + jnp.cumsum(done) - 1, walk.episode)
        state, so_far = _where(done, begin(episode), (state, so_far))
        return Walk(episode, walk.begun + done.sum(), state, so_far, outcome)

    first = jnp.arange(walkers)
    start = Walk(first, jnp.int32(walkers), *begin(first), _nothing(count, len(layout.costs)))
    return jax.lax.while_loop(lambda walk: (walk.episode < count).any(), advance, start).outcome


class Walk(NamedTuple):
    """Where the walkers are; an episode number past the last means that there is none left."""

    episode: Array  # [walkers]
    begun: Array  # [] episodes that somebody has taken
    state: grid.GridState
    so_far: Outcome
    outcome: Outcome  # of all episodes


def _nothing(count: int, num_costs: int) -> Outcome:
    return Outcome(jnp.zeros(count, bool), jnp.zeros(count, jnp.int32), jnp.zeros(count), jnp.zeros((count, num_costs)))


def _where(chosen: Array, one: PyTree, other: PyTree) -> PyTree:
    """Rows of `one` where chosen, of `other` elsewhere."""
    pick = jax.vmap(lambda chosen, x, y: jax.tree.map(partial(jnp.where, chosen), x, y))
    return pick(chosen, one, other)


def _share(hits: np.ndarray) -> Estimate:
    from scipy.stats import binomtest

    found = binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, method="exact")  # Clopper-Pearson
    return Estimate(float(hits.mean()), float(found.low), float(found.high))


def _mean(values: np.ndarray) -> Estimate:
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
    mean = float(values.mean())
    return Estimate(mean, mean - half, mean + half)
