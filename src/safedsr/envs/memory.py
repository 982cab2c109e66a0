"""An environment made of remembered transitions: episodes in it are walks through the replay memory.

At each step, the remembered transition with the same action and the nearest observation tells what happens: its reward,
its costs, its s′ and whether the episode ends. Noise on the observation lets several near ones take their turn.
"""

import functools
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Environment, Spec, Step
from safedsr.errors import UserError
from safedsr.types import Transition

LONGEST = 1000  # steps of a walk, if the environment's Spec does not say when an episode is truncated
NOISE = 0.5  # of the observation, in units of the median distance between nearest remembered ones
STARTS = 256
SAMPLE = 512  # observations that this distance is measured at
LEAF, LEAVES = 64, 4  # transitions in a leaf, and leaves that are searched for the nearest one


class Remembered(NamedTuple):
    """Transitions by action and leaf; the parameters of an environment made of memory.

    The transitions of an action are halved along their widest observation until a half is a leaf.
    """

    then: Transition  # [A, leaves, leaf, …]
    known: Array  # [A, leaves, leaf, observations] s in units of the range of each observation
    low: Array  # [A, leaves, observations] smallest s of a leaf
    high: Array  # [A, leaves, observations] largest s of a leaf
    starts: Array  # [m, observations] first observations of episodes
    origin: Array  # [observations] smallest observation
    span: Array  # [observations] the range
    noise: Array  # [] standard deviation


def remembered(steps: Transition, actions: int) -> Remembered:
    """The tables of these transitions [n]."""
    if isinstance(steps.first, tuple) or not np.any(steps.first):
        raise UserError(
            "this policy's memory does not say where episodes start, so no walk through it can begin; train it again "
            "with this version, or adapt in the environment, without --from-memory"
        )
    obs = np.asarray(steps.obs, np.float32)
    origin, span = obs.min(0), np.maximum(np.ptp(obs, axis=0), 1e-9)
    points = (obs - origin) / span
    rows = [np.flatnonzero(steps.action == action) for action in range(actions)]
    for action, own in enumerate(rows):
        if not len(own):
            raise UserError(f"this policy's memory has no step with action {action}; adapt without --from-memory")
    depth = max(max(map(len, rows)) // LEAF, 1).bit_length()
    places = np.stack([_leaves(np.resize(own, LEAF << depth), points, depth) for own in rows])
    known = points[places]
    return Remembered(
        then=jax.tree.map(lambda x: jnp.asarray(x[places]), steps._replace(extra=())),
        known=jnp.asarray(known),
        low=jnp.asarray(known.min(2)),
        high=jnp.asarray(known.max(2)),
        starts=jnp.asarray(_filled(obs[np.asarray(steps.first) > 0])),
        origin=jnp.asarray(origin),
        span=jnp.asarray(span),
        noise=jnp.float32(NOISE * _apart(points[rows[0]]) / points.shape[1] ** 0.5),
    )


def _filled(starts: np.ndarray) -> np.ndarray:
    """The starts, repeated up to a fixed number, so that memories of several agents share a compiled program."""
    return starts[np.resize(np.arange(len(starts)), max(STARTS, len(starts)))]


def _leaves(rows: np.ndarray, points: np.ndarray, depth: int) -> np.ndarray:
    """The rows [2^depth, n / 2^depth], halved `depth` times along their widest dimension."""
    if not depth:
        return rows[None]
    widest = np.ptp(points[rows], axis=0).argmax()
    halves = np.split(rows[np.argsort(points[rows, widest], kind="stable")], 2)
    return np.concatenate([_leaves(half, points, depth - 1) for half in halves])


def _apart(points: np.ndarray) -> float:
    """The median distance from a point to the nearest other one."""
    some = np.random.default_rng(0).choice(len(points), min(len(points), SAMPLE), replace=False)
    distances = ((points[some, None] - points[None]) ** 2).sum(-1)
    distances[np.arange(len(some)), some] = np.inf
    return float(np.median(distances.min(1)) ** 0.5) if len(points) > 1 else 0.0


def nearest(memory: Remembered, here: Array, action: Array) -> tuple[Array, Array]:
    """The leaf, and the place in it, of the nearest transition with this action, in the `LEAVES` closest leaves."""
    outside = jnp.maximum(memory.low[action] - here[None], here[None] - memory.high[action])
    count = min(LEAVES, memory.low.shape[1])
    leaves = jax.lax.top_k(-jnp.sum(jnp.maximum(outside, 0.0) ** 2, -1), count)[1]
    distances = jnp.sum((memory.known[action, leaves] - here[None, None]) ** 2, -1)  # [count, leaf]
    best = jnp.argmin(distances)
    return leaves[best // distances.shape[1]], best % distances.shape[1]


@functools.cache
def memory_environment(spec: Spec) -> Environment:
    """The environment whose parameters are `Remembered`; its state is the observation."""

    def reset(key: Array, memory: Remembered) -> tuple[Array, Array]:
        start = memory.starts[jax.random.randint(key, (), 0, len(memory.starts))]
        return start, start

    def step(key: Array, obs: Array, action: Array, memory: Remembered) -> tuple[Array, Step]:
        here = (obs - memory.origin) / memory.span + memory.noise * jax.random.normal(key, obs.shape)
        leaf, place = nearest(memory, here, action)
        t: Any = jax.tree.map(lambda x: x[action, leaf, place], memory.then)
        return t.next_obs, Step(t.next_obs, t.reward, t.cost, t.terminated == 1, jnp.array(False), t.success > 0)

    limited = replace(spec, time_limit=spec.time_limit or LONGEST, extras=0)
    return Environment("memory", limited, reset, step)
