"""An environment made of remembered transitions: episodes in it are walks through the replay memory.

At each step, the remembered transition with the same action and the nearest observation tells what happens: its reward,
its costs, its move and whether the episode ends. The walk goes to s + (s′ - s of that transition), so that it does not
jump to remembered states, where such moves are closer to the truth than s′ itself: this is measured on pairs of near
transitions, for each action and observation. Noise on the observation lets several near transitions take their turn,
where steps are random; with more noise, walks test whether a policy also keeps its budgets if the memory is not
exact. There is none where states are met again and each action in a state has always led to the same state.
Observations with few values, such as a load or a direction, weigh more in distances, so that the nearest transition is
of the same situation.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Environment, Spec, Step
from safedsr.errors import UserError
from safedsr.types import Transition

LONGEST = 1000  # steps of a walk, if neither the environment's Spec nor the training says when episodes are truncated
NOISE = 0.5  # of the observation if steps are random, in units of the median distance of nearest remembered ones
STARTS = 256
SAMPLE = 512  # transitions of an action that are compared with their nearest ones
VALUES, DISCRETE = 64, 8.0  # an observation with at most so many values is discrete; its weight in distances
AGAIN = 1.25  # actions that were tried in a state, on average; more of them mean that states are met again
DISTURBED = 3.0  # more noise than NOISE, in walks that test policies
LEAF, LEAVES = 64, 4  # transitions in a leaf, and leaves that are searched for the nearest one


class Remembered(NamedTuple):
    """Transitions by action and leaf; the parameters of an environment made of memory.

    The transitions of an action are halved along their widest observation until a half is a leaf.
    """

    then: Transition  # [A, leaves, leaf, …]
    known: Array  # [A, leaves, leaf, observations] s in units of `span`
    low: Array  # [A, leaves, observations] smallest s of a leaf
    high: Array  # [A, leaves, observations] largest s of a leaf
    starts: Array  # [m, observations] first observations of episodes
    origin: Array  # [observations] smallest observation
    span: Array  # [observations] the range, divided by its weight in distances
    noise: Array  # [] standard deviation
    moves: Array  # [A, observations] bool, where a walk goes on by s′ - s in place of going to s′
    least: Array  # [observations] smallest s′
    most: Array  # [observations] largest s′


def remembered(steps: Transition, actions: int, *, disturbed: bool = False) -> Remembered:
    """The tables of these transitions [n]; `disturbed` walks have noise also where steps are not random."""
    if isinstance(steps.first, tuple) or not np.any(steps.first):
        raise UserError(
            "this policy's memory does not say where episodes start, so no walk through it can begin; train it again "
            "with this version, or adapt in the environment, without --from-memory"
        )
    obs = np.asarray(steps.obs, np.float32)
    origin, span = obs.min(0), np.maximum(np.ptp(obs, axis=0), 1e-9) / _weights(obs)
    points = (obs - origin) / span
    rows = [np.flatnonzero(steps.action == action) for action in range(actions)]
    for action, own in enumerate(rows):
        if not len(own):
            raise UserError(f"this policy's memory has no step with action {action}; adapt without --from-memory")
    depth = max(max(map(len, rows)) // LEAF, 1).bit_length()
    places = np.stack([_leaves(np.resize(own, LEAF << depth), points, depth) for own in rows])
    known = points[places]
    near = [_neighbours(own, points) for own in rows]
    apart = np.linalg.norm(points[near[0][0]] - points[near[0][1]], axis=1)
    snapped, moved = zip(*(_errors(*pairs, steps, span) for pairs in near), strict=True)
    noisy = 0.0 if _exact(steps) else DISTURBED if disturbed else _chance(snapped, moved)
    return Remembered(
        then=jax.tree.map(lambda x: jnp.asarray(x[places]), steps._replace(extra=())),
        known=jnp.asarray(known),
        low=jnp.asarray(known.min(2)),
        high=jnp.asarray(known.max(2)),
        starts=jnp.asarray(_filled(obs[np.asarray(steps.first) > 0])),
        origin=jnp.asarray(origin),
        span=jnp.asarray(span),
        noise=jnp.float32(NOISE * np.median(apart) / points.shape[1] ** 0.5 * noisy),
        moves=jnp.asarray([(m**2).mean(0) < (s**2).mean(0) for s, m in zip(snapped, moved, strict=True)]),
        least=jnp.asarray(np.min(steps.next_obs, 0)),
        most=jnp.asarray(np.max(steps.next_obs, 0)),
    )


def _weights(obs: np.ndarray) -> np.ndarray:
    """The weight of each observation in distances: larger if it has few values, since others are other situations."""
    values = np.array([len(np.unique(column)) for column in obs.T])
    return np.where(values <= min(VALUES, len(obs) / 16), np.float32(DISCRETE), np.float32(1.0))


def _exact(steps: Transition) -> bool:
    """Whether states were met again, with other actions, and no action in a state has led to two states."""
    states = np.asarray(steps.obs)
    tried = np.column_stack([states, steps.action])
    known, actions = len(np.unique(states, axis=0)), len(np.unique(tried, axis=0))
    if actions <= AGAIN * known:
        return False
    return len(np.unique(np.column_stack([tried, steps.next_obs]), axis=0)) == actions


def _errors(one: np.ndarray, other: np.ndarray, steps: Transition, span: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far s′ of the one row is from s′ of the other, and from s of the one moved by s′ - s of the other."""
    apart = (np.asarray(steps.next_obs)[other] - np.asarray(steps.next_obs)[one]) / span
    return apart, apart + (np.asarray(steps.obs)[one] - np.asarray(steps.obs)[other]) / span


def _chance(snapped: Sequence[np.ndarray], moved: Sequence[np.ndarray]) -> float:
    """The share of the median error that moves do not explain: 0 if nothing is random, about 1 if steps are noisy."""
    by_snap, by_move = (float(np.median(np.linalg.norm(np.concatenate(x), axis=1))) for x in (snapped, moved))
    return min(by_move / by_snap, 1.0) if by_snap > 0 else 0.0


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


def _neighbours(rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some of these rows, and for each of them the nearest other one; only itself if there is no other."""
    from scipy.spatial import KDTree

    some = np.random.default_rng(0).choice(len(rows), min(len(rows), SAMPLE), replace=False)
    found = KDTree(points[rows]).query(points[rows[some]], k=min(2, len(rows)))[1].reshape(len(some), -1)
    return rows[some], rows[np.where(found[:, 0] == some, found[:, -1], found[:, 0])]


def nearest(memory: Remembered, here: Array, action: Array) -> tuple[Array, Array]:
    """The leaf, and the place in it, of the nearest transition with this action, in the `LEAVES` closest leaves."""
    outside = jnp.maximum(memory.low[action] - here[None], here[None] - memory.high[action])
    count = min(LEAVES, memory.low.shape[1])
    leaves = jax.lax.top_k(-jnp.sum(jnp.maximum(outside, 0.0) ** 2, -1), count)[1]
    distances = jnp.sum((memory.known[action, leaves] - here[None, None]) ** 2, -1)  # [count, leaf]
    best = jnp.argmin(distances)
    return leaves[best // distances.shape[1]], best % distances.shape[1]


@functools.cache
def memory_environment(spec: Spec, longest: int = 0) -> Environment:
    """The environment whose parameters are `Remembered`; its state is the observation.

    An environment may truncate episodes without a time limit in its Spec; then `longest` is that of the training.
    """

    def reset(key: Array, memory: Remembered) -> tuple[Array, Array]:
        start = memory.starts[jax.random.randint(key, (), 0, len(memory.starts))]
        return start, start

    def step(key: Array, obs: Array, action: Array, memory: Remembered) -> tuple[Array, Step]:
        here = (obs - memory.origin) / memory.span + memory.noise * jax.random.normal(key, obs.shape)
        leaf, place = nearest(memory, here, action)
        t: Any = jax.tree.map(lambda x: x[action, leaf, place], memory.then)
        moved = jnp.clip(obs + t.next_obs - t.obs, memory.least, memory.most)
        after = jnp.where(memory.moves[action], moved, t.next_obs)
        return after, Step(after, t.reward, t.cost, t.terminated == 1, jnp.array(False), t.success > 0)

    limited = replace(spec, time_limit=spec.time_limit or longest or LONGEST, extras=0)
    return Environment("memory", limited, reset, step)
