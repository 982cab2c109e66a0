"""How good a policy is: episodes on the real grid, each number with a 95 % interval."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr import grid
from safedsr.agent import Agent, load_all
from safedsr.job import DEFAULT_BUDGET, Environment
from safedsr.layout import Layout
from safedsr.metrics import within
from safedsr.scene import with_costs
from safedsr.types import PyTree
from safedsr.validation import parse_budgets, require
from safedsr.walks import episode_paths


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
        same = budget is None and len(scene.cost_names) == len(trained.budgets)
        budgets = trained.budgets if same else parse_budgets(budget or DEFAULT_BUDGET, len(scene.cost_names))
        environment = Environment(scene, budgets)
        rows.append((agent, environment, evaluate(agent, environment, episodes, epsilon)))
    return rows


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
    """Whole episodes, all at once; the program ends when the last of them does."""
    require(episodes >= 2, "episodes", episodes, "give at least 2, for an interval")
    require(0 <= epsilon <= 1, "epsilon", epsilon, "give a share between 0 and 1")
    keys = jax.random.split(jax.random.key(seed), episodes)
    return jax.device_get(_run(agent.values_of, agent.job.grid, agent.policy, layout, keys, jnp.float32(epsilon)))


def agent_paths(agent: Agent, layout: Layout, epsilons: Sequence[float]) -> list[np.ndarray]:
    """The positions of one episode of the agent for each ε, for pictures."""

    def best(state: grid.GridState) -> Array:
        return jnp.argmax(agent.values_of(agent.policy, grid.observe(state, layout)).score)

    return episode_paths(best, layout, epsilons, agent.job.grid)


@partial(jax.jit, static_argnames=("values", "grid_config"))
def _run(values: Any, grid_config: Any, policy: PyTree, layout: Layout, keys: Array, epsilon: Array) -> Outcome:
    def step(key: Array, state: grid.GridState, so_far: Outcome, done: Array):
        luck_key, step_key = jax.random.split(jax.random.fold_in(key, state.time))
        best = jnp.argmax(values(policy, grid.observe(state, layout)).score)
        action = grid.epsilon_greedy(jax.random.uniform(luck_key, (2,)), best, epsilon)
        after, out = grid.move(step_key, state, action, layout, grid_config)
        ahead = Outcome(out.terminated, after.time, so_far.ret + out.reward, so_far.cost + out.cost)
        state, so_far = jax.tree.map(lambda new, old: jnp.where(done, old, new), (after, ahead), (state, so_far))
        return state, so_far, done | out.terminated | out.truncated

    def advance(carry):
        return jax.vmap(step)(keys, *carry)

    start, _ = jax.vmap(grid.reset, (0, None, None))(keys, layout, grid_config)
    count = len(keys)
    nothing = Outcome(
        jnp.zeros(count, bool), jnp.zeros(count, jnp.int32), jnp.zeros(count), jnp.zeros((count, len(layout.costs)))
    )
    _, outcome, _ = jax.lax.while_loop(lambda c: ~c[2].all(), advance, (start, nothing, jnp.zeros(count, bool)))
    return outcome


def _share(hits: np.ndarray) -> Estimate:
    from scipy.stats import binomtest

    found = binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, method="exact")  # Clopper-Pearson
    return Estimate(float(hits.mean()), float(found.low), float(found.high))


def _mean(values: np.ndarray) -> Estimate:
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
    mean = float(values.mean())
    return Estimate(mean, mean - half, mean + half)
