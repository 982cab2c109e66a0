"""Episodes of a policy in an environment that runs on the host."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core.exploration import epsilon_greedy
from safedsr.engine.host_loop import processes_for
from safedsr.engine.host_parts import Tally
from safedsr.engine.outcome import Outcome, endless, most_steps
from safedsr.envs.environment import Environment
from safedsr.errors import EnvironmentFailed
from safedsr.types import PyTree

COPIES = 32  # that step together


def run_on_host(
    values: Any,
    environment: Environment,
    policy: PyTree,
    params: PyTree,
    keys: Array,
    epsilon: float,
    discount: float,
    processes: int | None = None,
) -> Outcome:
    """Run one episode for each random key [n], which also gives the seed of the environment's reset.

    Copy i runs the episodes i, i + copies, i + 2·copies and so on, so that episodes do not depend on each other.
    """
    host, count = environment.host, len(keys)
    assert host
    copies = min(COPIES, count)
    rounds = -(-count // copies)
    envs = host.idle_copies(copies, params, processes_for(host, processes, copies))
    seeds = np.resize(np.asarray(_seeds(keys), np.int64), rounds * copies).reshape(rounds, copies).T
    tally, episode = Tally(copies, environment.spec.costs, discount), np.arange(copies)
    numbers = np.asarray(jax.random.key_data(keys))
    outcome = Outcome(
        np.zeros(count, bool), np.zeros(count, np.int32), np.zeros(count, np.float32),
        np.zeros((count, environment.spec.costs), np.float32),
    )  # fmt: skip
    try:
        obs = envs.reset(seeds)
        while (episode < count).any():
            chosen = numbers[np.minimum(episode, count - 1)]
            actions = choose_actions(
                values, environment.spec.actions, policy, obs, chosen, tally.time, np.float32(epsilon)
            )
            envs.begin_step(np.asarray(actions))
            rows = envs.end_step()
            done = tally.add(rows)
            if ((tally.time >= most_steps(environment)) & ~done & (episode < count)).any():
                raise endless(environment)
            ended = done & (episode < count)
            place = episode[ended]
            for kept, new in zip(outcome, (rows.success, tally.time, tally.ret, tally.cost), strict=True):
                kept[place] = new[ended]
            tally.clear(done)
            episode = np.where(done, episode + copies, episode)
            obs = rows.start.copy()
    except EnvironmentFailed:
        host.close()
        raise
    return outcome


@jax.jit
def _seeds(keys: Array) -> Array:
    return jax.vmap(jax.random.bits)(keys) >> 1


@partial(jax.jit, static_argnames=("values", "actions"))
def choose_actions(values: Any, actions: int, policy: PyTree, obs: Any, keys: Any, time: Any, epsilon: Any) -> Array:
    """ε-greedy actions; the random numbers are those of the compiled episodes."""

    def one(obs: Array, key: Array, time: Array) -> Array:
        luck_key, _ = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(key), time))
        best = jnp.argmax(values(policy, obs).score)
        return epsilon_greedy(jax.random.uniform(luck_key, (2,)), best, epsilon, actions)

    return jax.vmap(one)(obs, keys, time)
