"""The oracle: value iteration on a fine grid, then ε-greedy runs of its policy in the continuous grid.

The oracle is the reference for agents with the same ε schedule. It is not a proven upper bound; an agent with another
exploration can exceed it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core.capacity import fitting, free_memory, require_room
from safedsr.core.config import EpsilonSchedule
from safedsr.core.exploration import anneal, epsilon_greedy
from safedsr.envs import episode
from safedsr.envs.grid import physics
from safedsr.envs.grid.config import GridConfig, OracleConfig
from safedsr.envs.grid.environment import make_grid
from safedsr.envs.grid.layout import Layout
from safedsr.envs.grid.paths import episode_paths
from safedsr.validation import MOST, require

LAMBDAS = (0.0, 0.003, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
TIE = 1e-4  # values this close count as equal
SEARCH_WALKS = 8  # runs for each λ of the search; the best policy is then run again with other random numbers


class Plan(NamedTuple):
    """The result of value iteration: a value and an action for each sub-cell."""

    values: Array  # [H·n, W·n]
    actions: Array  # [H·n, W·n] int32


class Walks(NamedTuple):
    """Averages over runs of the policy; rates, length and cost are means over the episodes at the last ε."""

    goal_count: Array
    safe_goal_count: Array
    goal_rate: Array
    safe_goal_rate: Array
    length: Array  # steps of an episode
    cost: Array  # [J] cost of an episode


class Oracle(NamedTuple):
    """The safe oracle of a layout."""

    lam: float  # the λ with the largest safe goal count
    lams: np.ndarray  # [J] λ of each cost: `lam` times a factor that is larger for a smaller budget
    plan: Plan
    scheduled: Walks  # with the ε schedule
    greedy: Walks  # with ε = 0
    exploring: Walks  # with the last ε of the schedule from the start
    tried: dict[float, float]  # λ -> safe goal count in the search


def find_oracle(
    layout: Layout,
    budgets: Sequence[float],
    schedule: EpsilonSchedule | None = None,
    config: OracleConfig | None = None,
    grid_config: GridConfig | None = None,
    rewards: Array | None = None,
) -> Oracle:
    """The policy with the largest safe goal count among the optimal policies for r - λ·c, over a range of λ.

    `rewards` [sub-cells, A], if given, are the expected rewards of a step from each sub-cell, instead of the true r.
    """
    schedule, config, grid_config = schedule or EpsilonSchedule(), config or OracleConfig(), grid_config or GridConfig()
    check_room(layout, config)
    limits = np.asarray(budgets, np.float32)
    relative = (1 + limits.mean()) / (1 + limits) if len(limits) else limits
    lams = (0.0,) if not np.any(layout.costs) else LAMBDAS
    walk = partial(_walk, layout=layout, budgets=limits, schedule=schedule, config=config, grid_config=grid_config)
    search_key, walk_key = jax.random.split(jax.random.key(config.seed))

    plans = [plan(layout, lam * relative, config, grid_config, rewards) for lam in lams]
    actions = jnp.stack([found.actions for found in plans])
    first, last = schedule.epsilon_start, schedule.epsilon_end
    trials = walk(search_key, actions, jnp.array([[first, last]]), walks=SEARCH_WALKS)
    best = int(np.argmax(trials.safe_goal_count[:, 0]))
    walked = walk(walk_key, actions[best][None], jnp.array([[first, last], [0, 0], [last, last]]), walks=config.walks)
    scheduled, greedy, exploring = (jax.tree.map(lambda x, i=i: np.asarray(x[0, i]), walked) for i in range(3))
    tried = dict(zip(lams, np.asarray(trials.safe_goal_count[:, 0], float), strict=True))
    return Oracle(lams[best], lams[best] * relative, plans[best], scheduled, greedy, exploring, tried)


def check_room(layout: Layout, config: OracleConfig) -> None:
    """Raise if a plan with so many sub-cells, or so many runs of it, does not fit into memory."""
    cells, free = float(np.size(layout.walls)), free_memory()
    need = cells * config.subcells**2 * (4 * len(LAMBDAS) + 24.0 * physics.NUM_ACTIONS * config.noise_points)
    fit = fitting(config.subcells, need, free, power=2)
    cure = f"at most about {fit} fit" if fit else "the map is too large to plan on"
    require_room(f"subcells {config.subcells} on a map of {cells:.0f} cells", need, free, cure)
    count = cells * config.subcells**2
    require(count <= MOST, "subcells", config.subcells, f"at most {int((MOST / cells) ** 0.5)} on this map")
    walking = 600.0 * max(config.walks, SEARCH_WALKS)
    need = 4.0 * config.steps + walking
    cure = f"walks: at most about {fitting(config.walks, need, free)} fit; or lower steps"
    require_room(f"walks {config.walks} of {config.steps} steps", need, free, cure)


@partial(jax.jit, static_argnames=("config", "grid_config"))
def plan(
    layout: Layout, lam: Array, config: OracleConfig, grid_config: GridConfig, rewards: Array | None = None
) -> Plan:
    """The optimal policy for the reward r - λ·c, if a share `plan_epsilon` of the actions is random."""
    height, width = layout.walls.shape
    n = config.subcells
    centres = _centres(layout, n)
    points, weights = np.polynomial.hermite_e.hermegauss(config.noise_points)
    lengths = grid_config.step_mean + grid_config.step_std * jnp.asarray(
        np.clip(points, -grid_config.step_clip, grid_config.step_clip), jnp.float32
    )
    weights = jnp.asarray(weights / weights.sum(), jnp.float32)

    def outcome(pos: Array, action: Array, length: Array) -> tuple[Array, Array, Array]:
        there = physics.land(pos, action, length, layout)
        goal = physics.at_goal(there, layout)
        cost = physics.cost_at(there, layout)
        reward = physics.reward(goal, grid_config) * (rewards is None) - lam @ cost
        column, row = physics.cell_of(there * n)
        return row * (width * n) + column, reward, config.gamma * ~goal

    by_length = jax.vmap(outcome, (None, None, 0))
    by_action = jax.vmap(by_length, (None, 0, None))
    index, reward, discount = jax.vmap(by_action, (0, None, None))(centres, jnp.arange(physics.NUM_ACTIONS), lengths)

    def action_values(values: Array) -> Array:
        return (reward + discount * values[index]) @ weights + (0.0 if rewards is None else rewards)  # [cells, actions]

    def sweep(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        values, _, count = carry
        q = action_values(values)
        new = (1 - config.plan_epsilon) * q.max(1) + config.plan_epsilon * q.mean(1)
        return new, jnp.abs(new - values).max(), count + 1

    def unsettled(carry: tuple[Array, Array, Array]) -> Array:
        return (carry[1] > config.tolerance) & (carry[2] < config.sweeps)

    start = (jnp.zeros(len(centres)), jnp.array(jnp.inf), jnp.array(0))
    values, _, _ = jax.lax.while_loop(unsettled, sweep, start)
    shape = (height * n, width * n)
    q = action_values(values)
    # Many paths around a corner are equally short: of equal actions take the last, left or right before up or down.
    best = q >= q.max(1, keepdims=True) - TIE
    actions = physics.NUM_ACTIONS - 1 - best[:, ::-1].argmax(1)
    return Plan(values.reshape(shape), actions.reshape(shape))


def _centres(layout: Layout, subcells: int) -> Array:
    """The positions [sub-cells, 2] of the centres of all sub-cells, row by row."""
    height, width = layout.walls.shape
    rows, columns = jnp.meshgrid(jnp.arange(height * subcells), jnp.arange(width * subcells), indexing="ij")
    return (jnp.stack([columns, rows], -1).reshape(-1, 2) + 0.5) / subcells


def expected_rewards(features: Callable[[Array, Array], Array], w_r: Array, layout: Layout, subcells: int) -> Array:
    """φ(s, a)·w_r of every action at the centre of every sub-cell, [sub-cells, A]; `features` gives φ(s, a)."""

    def one(pos: Array, action: Array) -> Array:
        return features(pos / layout.scale, action) @ w_r

    by_action = jax.vmap(one, (None, 0))
    places = _centres(layout, subcells)
    return jax.lax.map(lambda pos: by_action(pos, jnp.arange(physics.NUM_ACTIONS)), places, batch_size=1000)


def planned(actions: Array, pos: Array, subcells: int) -> Array:
    """The planned action at a position."""
    return physics.lookup(actions, pos * subcells)


class _Count(NamedTuple):
    goals: Array
    safe_goals: Array
    episodes: Array
    length: Array
    cost: Array


@partial(jax.jit, static_argnames=("schedule", "config", "grid_config", "walks"))
def _walk(
    key: Array,
    actions: Array,
    epsilons: Array,
    layout: Layout,
    budgets: Array,
    schedule: EpsilonSchedule,
    config: OracleConfig,
    grid_config: GridConfig,
    walks: int,
) -> Walks:
    """Run each policy of `actions` [policies, H·n, W·n] with each of `epsilons` [levels, start and end].

    Each run has `config.steps` steps; the result is the averages [policies, levels] over `walks` runs.
    """
    num_costs = len(layout.costs)
    environment = make_grid(grid_config, num_costs)
    settled = min(schedule.span[1], config.steps // 2)  # of a run shorter than the schedule, the second half counts

    def advance(key, carry, time, table, ends):
        before, total, late = carry
        luck_key, step_key = jax.random.split(jax.random.fold_in(key, time))
        epsilon = anneal(time, ends[0], ends[1], *schedule.span)
        best = planned(table, before.state.pos, config.subcells)
        action = epsilon_greedy(jax.random.uniform(luck_key, (2,)), best, epsilon, physics.NUM_ACTIONS)
        after, moment = episode.step_or_restart(environment, step_key, before, action, layout)
        reached, done = moment.step.success, moment.done
        ended = _Count(
            goals=reached,
            safe_goals=reached & (moment.cost <= budgets).all(),
            episodes=done,
            length=done * moment.time,
            cost=done * moment.cost,
        )
        at_last = time >= settled
        total = jax.tree.map(jnp.add, total, ended)
        late = jax.tree.map(lambda sum_, x: sum_ + at_last * x, late, ended)
        return after, total, late

    def one(key, table, ends):
        zero = _Count(*[jnp.zeros(())] * 4, cost=jnp.zeros(num_costs))
        start = (episode.start(environment, key, layout), zero, zero)
        carry, _ = jax.lax.scan(lambda c, t: (advance(key, c, t, table, ends), None), start, jnp.arange(config.steps))
        return carry[-2:]

    keys = jax.random.split(key, walks)  # the same random numbers for every policy and level
    by_walk = jax.vmap(one, (0, None, None))
    by_level = jax.vmap(by_walk, (None, None, 0))
    total, late = jax.vmap(by_level, (None, 0, None))(keys, actions, epsilons)
    total, late = jax.tree.map(lambda x: x.mean(2), (total, late))
    episodes = jnp.maximum(late.episodes, 1 / walks)
    return Walks(
        goal_count=total.goals,
        safe_goal_count=total.safe_goals,
        goal_rate=late.goals / episodes,
        safe_goal_rate=late.safe_goals / episodes,
        length=late.length / episodes,
        cost=late.cost / episodes[..., None],
    )


def oracle_paths(
    found: Oracle,
    layout: Layout,
    epsilons: Sequence[float],
    config: OracleConfig | None = None,
    grid_config: GridConfig | None = None,
) -> list[np.ndarray]:
    """The positions of one episode of the oracle for each ε, for figures."""
    subcells = (config or OracleConfig()).subcells
    return episode_paths(
        lambda state: planned(found.plan.actions, state.pos, subcells), layout, epsilons, grid_config or GridConfig()
    )
