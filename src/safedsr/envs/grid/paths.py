"""Single episodes as lists of positions, for figures."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core.exploration import epsilon_greedy
from safedsr.envs.grid import physics
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout


def episode_paths(
    best: Callable[[physics.GridState], Array],
    layout: Layout,
    epsilons: Sequence[float],
    config: GridConfig,
    seed: int = 0,
) -> list[np.ndarray]:
    """The positions [steps + 1, 2] of one episode for each ε; `best` is the greedy action in a state."""

    def one(key: Array, epsilon: Array):
        def advance(state: physics.GridState, key: Array):
            luck_key, step_key = jax.random.split(key)
            action = epsilon_greedy(jax.random.uniform(luck_key, (2,)), best(state), epsilon, physics.NUM_ACTIONS)
            state, out = physics.step(step_key, state, action, layout, config)
            return state, (state.pos, out.terminated)

        start, _ = physics.reset(key, layout)
        _, (path, reached) = jax.lax.scan(advance, start, jax.random.split(key, config.time_limit))
        return start.pos, path, reached

    keys = jax.random.split(jax.random.key(seed), len(epsilons))
    walked = jax.device_get(jax.jit(jax.vmap(one))(keys, jnp.asarray(epsilons, jnp.float32)))
    lengths = [int(np.argmax(reached)) + 1 if reached.any() else len(reached) for reached in walked[2]]
    return [np.concatenate([start[None], path[:n]]) for start, path, n in zip(*walked[:2], lengths, strict=True)]
