"""Many episodes at once with the position at every step, for pictures that have to be quick."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core.exploration import epsilon_greedy
from safedsr.envs import episode as episodes_of
from safedsr.envs.environment import Environment, Task, need
from safedsr.envs.episode import Episode
from safedsr.runs.policy import TrainedPolicy, with_costs
from safedsr.types import PyTree


class Trails(NamedTuple):
    """The episodes; the first of T + 1 positions is the start, and an episode stays where it ended."""

    positions: np.ndarray  # [n, T + 1, 2]
    length: np.ndarray  # [n] steps
    success: np.ndarray  # [n]
    cost: np.ndarray  # [n, J] of the whole episode; discounted if budgets are for means


def trails(
    agent: TrainedPolicy, task: Task, count: int, most_steps: int, epsilon: float = 0.0, seed: int = 0
) -> Trails:
    """Run `count` episodes side by side, of at most so many steps each, which counts as not having reached the goal.

    An episode meets the same random numbers whichever policy acts. Of a mixture, one λ is drawn for all of them.
    """
    agent = agent.drawn(np.random.default_rng(seed))
    environment = with_costs(agent.job.environment, len(task.budgets))
    need(environment.position, "position", environment, "a picture of its episodes")
    keys = jax.random.split(jax.random.key(seed), count)
    how = {"limit": min(environment.spec.time_limit or most_steps, most_steps), "discount": agent.job.discount}
    found = _walk(agent.values_of, environment, agent.policy, task.params, keys, jnp.float32(epsilon), **how)
    positions, steps, now, success = jax.device_get(found)
    return Trails(np.moveaxis(positions[: steps + 1], 0, 1), now.time, success, now.cost)


@partial(jax.jit, static_argnames=("values", "environment", "limit", "discount"))
def _walk(
    values: Any,
    environment: Environment,
    policy: PyTree,
    params: PyTree,
    keys: Array,
    epsilon: Array,
    limit: int,
    discount: float,
) -> tuple[Array, Array, Episode, Array]:
    """Positions [limit + 1, n, 2], the steps of the longest episode, the episodes at their ends, and their success."""
    place = jax.vmap(lambda episode: environment.position(episode.obs, params))  # type: ignore[misc]

    def step(key: Array, before: Episode, done: Array, success: Array) -> tuple[Episode, Array, Array]:
        luck_key, step_key = jax.random.split(jax.random.fold_in(key, before.time))
        best = jnp.argmax(values(policy, before.obs).score)
        luck = jax.random.uniform(luck_key, (2,))
        action = epsilon_greedy(luck, best, epsilon, environment.spec.actions)
        after, moment = episodes_of.step(environment, step_key, before, action, params, discount=discount)
        kept = jax.tree.map(partial(jnp.where, done), before, after)
        return kept, done | moment.done, jnp.where(done, success, moment.step.success)

    def advance(carry: tuple) -> tuple:
        positions, time, now, done, success = carry
        now, done, success = jax.vmap(step)(keys, now, done, success)
        return positions.at[time + 1].set(place(now)), time + 1, now, done, success

    first = jax.vmap(partial(episodes_of.start, environment), (0, None))(keys, params)
    positions = jnp.zeros((limit + 1, len(keys), 2)).at[0].set(place(first))
    no = jnp.zeros(len(keys), bool)
    carry = jax.lax.while_loop(
        lambda carry: (carry[1] < limit) & ~carry[3].all(), advance, (positions, jnp.int32(0), first, no, no)
    )
    positions, time, now, _, success = carry
    return positions, time, now, success
