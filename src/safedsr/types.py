"""Records that travel between modules. The paper's symbols and our names for them: docs/notation.md."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array

PyTree = Any


class Step(NamedTuple):
    """What one environment step gives."""

    obs: Array  # [2] where the agent acts next: a fresh start if the episode ended
    reward: Array  # []
    cost: Array  # [J]
    terminated: Array  # [] bool, the goal was reached
    truncated: Array  # [] bool, the time limit was
    next_obs: Array  # [2] s′, before any reset


class Transition(NamedTuple):
    """One step as the agents remember it."""

    obs: Array  # [2]
    action: Array  # [] int32
    reward: Array  # []
    cost: Array  # [J]
    next_obs: Array  # [2] before any reset
    terminated: Array  # [] 1 at the goal; a time limit does not count


class Record(NamedTuple):
    """What every environment step leaves for the run folder; the sums are those of the episode up to this step."""

    done: Array  # [] bool
    reached: Array  # [] bool
    length: Array  # [] int32
    ret: Array  # []
    cost: Array  # [J]
    obs: Array  # [2] s′


class Values(NamedTuple):
    """What an agent expects of each action; None for what its kind does not learn."""

    q: Array  # [A] reward to come (SafeDQN: less λ times the cost to come)
    k: Array | None  # [A, J] cost to come
    m: Array | None  # [A, d] successor features
    score: Array  # [A] what the action is chosen by, Eq. (15)


class Trainer(NamedTuple):
    """An algorithm as pure functions for ONE seed in ONE environment; the host loop vmaps and compiles them.

    `aim` [J] is the cost to steer to, `step` the environment steps so far: both, the layout and λ (in the state) are
    arrays, so that they can change without recompiling.
    """

    init: Callable[..., PyTree]  # (key, layout) -> state
    advance: Callable[..., tuple[PyTree, Record, dict[str, Array]]]  # (state, layout, aim, step, phase, periods)
    phase_at: Callable[[int], tuple[str, int | None]]  # step -> what is learnt there, and the step at which that ends
    period: int  # environment steps of one period; `advance` takes whole ones
    policy: Callable[[PyTree], PyTree]  # state -> what acting needs
    values: Callable[[PyTree, Array], Values]  # (policy, obs) -> what it expects
    multipliers: Callable[[PyTree], Array]  # state -> λ [J]
    memory: Callable[[PyTree], Array] | None = None  # state -> rows that a policy may take along, [n, 7 + J]
    known: Callable[[PyTree], PyTree] = lambda state: None  # what `advance` makes of a state and keeps beside it
    crop: Callable[[PyTree, Any], PyTree] = lambda policy, layout: policy  # a policy without what padded its map
    refill: Callable[..., PyTree] | None = None  # (state, key, rows, layout) -> a state that remembers these rows
