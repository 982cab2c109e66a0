"""Episodes in any environment: their time, return and cost, and the reset after their end."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.envs.environment import Environment, Step
from safedsr.types import PyTree


class Episode(NamedTuple):
    """A running episode."""

    state: PyTree  # state of the environment
    obs: Array  # [observations] s of the next step
    time: Array  # [] int32, steps so far
    ret: Array  # [] sum of rewards so far
    cost: Array  # [J] sum of each cost so far: C_ep, discounted if a discount is given


class Moment(NamedTuple):
    """One step of an episode; time, return and cost include this step."""

    step: Step
    done: Array  # [] bool, terminated or truncated
    time: Array  # [] int32
    ret: Array  # []
    cost: Array  # [J]


def start(environment: Environment, key: Array, params: PyTree) -> Episode:
    """A new episode."""
    state, obs = environment.reset(key, params)
    return Episode(state, obs, jnp.zeros((), jnp.int32), jnp.zeros(()), jnp.zeros(environment.spec.costs))


def step(
    environment: Environment, key: Array, episode: Episode, action: Array, params: PyTree, *, discount: float = 1.0
) -> tuple[Episode, Moment]:
    """One step without a reset, also if the episode has ended; `discount` is the γ of the sum of costs."""
    state, out = environment.step(key, episode.state, action, params)
    time, limit = episode.time + 1, environment.spec.time_limit
    terminated, truncated, success = (jnp.asarray(x, bool) for x in (out.terminated, out.truncated, out.success))
    if limit is not None:
        truncated = truncated | (~terminated & (time >= limit))
    if not environment.spec.success:
        success = terminated | truncated
    out = out._replace(terminated=terminated, truncated=truncated, success=success)
    moment = Moment(
        step=out,
        done=terminated | truncated,
        time=time,
        ret=episode.ret + out.reward,
        cost=episode.cost + _discounted(out.cost, discount, episode.time),
    )
    return Episode(state, out.obs, moment.time, moment.ret, moment.cost), moment


def _discounted(cost: Array, discount: float, time: Array) -> Array:
    """γᵗ·c of the step after `time` steps."""
    if discount == 1.0:
        return cost
    return jnp.power(discount, time.astype(jnp.float32)) * cost


def step_or_restart(
    environment: Environment, key: Array, episode: Episode, action: Array, params: PyTree, *, discount: float = 1.0
) -> tuple[Episode, Moment]:
    """One step, with a reset if the episode has ended; the `Moment` is that of the step, before the reset."""
    after, moment = step(environment, key, episode, action, params, discount=discount)
    fresh = start(environment, jax.random.fold_in(key, 1), params)
    return jax.tree.map(lambda new, old: jnp.where(moment.done, new, old), fresh, after), moment
