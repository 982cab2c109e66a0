"""Records that modules exchange. The paper's symbols and their names in the code: docs/notation.md."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array

PyTree = Any
JOINED = 2.0  # `terminated` of a stored transition whose episode was truncated and whose s′ is the next episode's start


class Transition(NamedTuple):
    """One transition as the replay memory stores it."""

    obs: Array  # [observations]
    action: Array  # [] int32
    reward: Array  # []
    cost: Array  # [J]
    next_obs: Array  # [observations] s′, before any reset; the next start if SafeDSR has terminal="restart"
    terminated: Array  # [] 1 if the episode terminated (not by a time limit), else 0, or JOINED
    extra: PyTree = ()  # [extras] further values, if the environment has any
    success: Any = ()  # [] 1 if its episode ended here with success, else 0; () if not known
    first: Any = ()  # [] 1 if its episode began with this step, else 0; () if not known


class Seen(NamedTuple):
    """One environment step as an agent observes it."""

    obs: Array  # [observations] s
    action: Array  # [] int32
    reward: Array  # []
    cost: Array  # [J]
    next_obs: Array  # [observations] s′, before any reset
    terminated: Array  # [] bool
    success: Array  # [] bool
    done: Array  # [] bool, terminated or truncated
    start: Array  # [observations] s of the next step: s′, or the start of a new episode if this one is done
    total: Array  # [J] cost of the episode up to and including this step
    ret: Array  # [] its return
    time: Array  # [] int32, its steps
    last: Array  # [] bool, the block of steps ends after this step
    extra: PyTree = ()  # [extras] further values to store with the step, if the environment has any


class Record(NamedTuple):
    """The data of one step for the run folder; `length`, `ret` and `cost` are sums over the episode up to this step."""

    done: Array  # [] bool
    success: Array  # [] bool
    length: Array  # [] int32
    ret: Array  # []
    cost: Array  # [J]
    obs: Array  # [observations] s′


class Values(NamedTuple):
    """An agent's value estimates for each action; None for those that its algorithm does not learn."""

    q: Array  # [A] expected discounted return (SafeDQN: of r - λ·c; on-policy agents: log-probabilities)
    k: Array | None  # [A, J] expected discounted costs
    m: Array | None  # [A, d] successor features
    score: Array  # [A] the greedy action has the largest score, Eq. (15)


class Draws(NamedTuple):
    """The random numbers of one block of steps."""

    choices: PyTree  # [block, …] random numbers for `choose`, for each step
    env: Array  # [block] keys of the environment's steps
    reset: Array | None  # key of a reset before the block; None if the running episode continues


class Choice(NamedTuple):
    """An action, and data about its choice that `observe` needs."""

    action: Array  # [] int32
    about: PyTree = None


class Rehearsal(NamedTuple):
    """Further learning from stored transitions, in rounds (adaptation, level 'memory')."""

    state: PyTree
    keys: Array  # [rounds] one for each round
    learn: Callable[[PyTree, Array, Array], PyTree]  # (state, λ, key) -> state after one more round
    policy: Callable[[PyTree], PyTree]  # state -> policy, without λ
    lam: Array | None  # λ of the targets; None: chosen anew for each round


class Adaptable(NamedTuple):
    """Functions for adaptation, of an agent whose values are linear in weights; its policy has `phi` and `weights`."""

    features: Callable[[PyTree, Array, Array], Array]  # (policy, obs, action) -> φ [d]
    learner: Callable[..., PyTree]  # (policy, key, units or None) -> learner state that continues from the policy
    rehearse: Callable[..., Rehearsal]  # (policy, steps, updates, seed, units or None)
    settled: int  # environment step at which every schedule has ended and φ is frozen, if the agent freezes it
    settings: Any  # the algorithm's settings for further training, without pretraining
    with_rows: Callable[[PyTree, Any], PyTree] = lambda policy, units: policy
    """(policy, units or None) -> the same policy in the form of a trained one, if its number of costs has changed."""


class Trainer(NamedTuple):
    """An algorithm as pure functions for ONE seed in ONE environment; the engine vmaps and compiles them.

    Before a block of steps, `draw` draws random numbers. At each step, `choose` selects an action and `observe`
    processes the result: it updates λ and running statistics before the next choice. After the block, `digest` stores
    its rows and learns; after each period, `sync` updates the target networks. `aim` [J] is the target cost, `now` the
    number of environment steps so far. Both, the environment's parameters and λ (in the state) are arrays, so that they
    can change without recompiling. The engine compiles these functions together with the environment's step; a loop on
    the host can call them with any other environment.
    """

    init: Callable[..., tuple[PyTree, Array]]  # (key, seed, params) -> state, key of the first reset
    draw: Callable[[PyTree], tuple[PyTree, Draws]]
    begin: Callable[[PyTree, Array], PyTree]  # (state, obs) -> state, if a block begins with a reset
    choose: Callable[[PyTree, Array, PyTree, Array], Choice]  # (state, obs, random numbers, now)
    observe: Callable[..., tuple[PyTree, Array]]  # (state, choice, seen, aim, now, phase) -> state, row for `digest`
    digest: Callable[..., tuple[PyTree, PyTree, dict[str, Array]]]
    """(state, cache, rows, params, aim, now, phase) -> state, cache, losses."""
    sync: Callable[[PyTree], PyTree]
    cache: Callable[[PyTree, str], PyTree]  # (state, phase) -> values cached during a phase, or None
    phase_at: Callable[[int], tuple[str, int | None]]  # step -> its phase, and the step at which that phase ends
    last_phase: str
    block: int  # environment steps between two calls of `digest`
    period: int  # environment steps between two calls of `sync`, a multiple of `block`
    policy: Callable[[PyTree], PyTree]  # state -> policy, the part of the state that acting needs
    values: Callable[[PyTree, Array], Values]  # (policy, obs) -> value estimates
    multipliers: Callable[[PyTree], Array]  # state -> λ [J]
    memory: Callable[[PyTree], tuple[Array, Array]] | None = None
    """State -> stored rows [n, width] that may be saved with a policy, and which of them are filled [n]."""
    refill: Callable[..., PyTree] | None = None
    """(state, key, rows, params) -> the state with these rows in its reservoir, if it has one."""
    proceed: Callable[..., PyTree] | None = None
    """(fresh state, policy, keys [2], rows, count, params) -> a state that continues from a policy and these rows."""
    crop: Callable[[PyTree, Any], PyTree] = lambda policy, params: policy  # removes padding from a policy
    adaptable: Adaptable | None = None
