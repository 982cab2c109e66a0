"""Records that travel between modules. The paper's symbols and our names for them: docs/notation.md."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array

PyTree = Any
JOINED = 2.0  # `terminated` of a remembered step whose episode was cut and whose s′ is the start of the next one


class Transition(NamedTuple):
    """One step as the agents remember it."""

    obs: Array  # [observations]
    action: Array  # [] int32
    reward: Array  # []
    cost: Array  # [J]
    next_obs: Array  # [observations] before any reset
    terminated: Array  # [] 1 where nothing follows; a time limit does not count. 2: s′ starts the next episode


class Seen(NamedTuple):
    """One environment step as an agent sees it; the sums are those of the episode up to this step."""

    obs: Array  # [observations] where the agent acted
    action: Array  # [] int32
    reward: Array  # []
    cost: Array  # [J]
    next_obs: Array  # [observations] s′, before any reset
    terminated: Array  # [] bool
    success: Array  # [] bool
    done: Array  # [] bool, terminated or truncated
    start: Array  # [observations] where the agent acts next: a fresh start if the episode is done
    total: Array  # [J] the episode's cost


class Record(NamedTuple):
    """What every environment step leaves for the run folder; the sums are those of the episode up to this step."""

    done: Array  # [] bool
    success: Array  # [] bool
    length: Array  # [] int32
    ret: Array  # []
    cost: Array  # [J]
    obs: Array  # [observations] s′


class Values(NamedTuple):
    """What an agent expects of each action; None for what its kind does not learn."""

    q: Array  # [A] reward to come (SafeDQN: less λ times the cost to come)
    k: Array | None  # [A, J] cost to come
    m: Array | None  # [A, d] successor features
    score: Array  # [A] what the action is chosen by, Eq. (15)


class Draws(NamedTuple):
    """The random numbers of one block of steps."""

    choices: PyTree  # [block, …] what `choose` takes at each step
    env: Array  # [block] keys of the environment's steps
    reset: Array | None  # key of a fresh start; None where the running episode goes on


class Choice(NamedTuple):
    """An action, and what the agent wants to remember of how it was chosen."""

    action: Array  # [] int32
    about: PyTree = None


class Rehearsal(NamedTuple):
    """How an agent goes on learning from remembered steps, in rounds (adaptation, rung 3)."""

    state: PyTree
    keys: Array  # [rounds] one a round
    learn: Callable[[PyTree, Array, Array], PyTree]  # (state, λ, key) -> state after one more round
    policy: Callable[[PyTree], PyTree]  # state -> what acting needs of it, without λ
    lam: Array | None  # the λ to learn for; None: the one that acted best so far


class Adaptable(NamedTuple):
    """What adaptation needs of an agent whose values are linear in weights: its policy has phi and weights."""

    features: Callable[[PyTree, Array, Array], Array]  # (policy, obs, action) -> φ [d]
    learner: Callable[[PyTree, Array], PyTree]  # (policy, key) -> a learner that goes on from it
    rehearse: Callable[[PyTree, Transition, int, int, int], Rehearsal]  # (policy, steps, costs, updates, seed)
    settled: int  # environment step at which everything that is frozen is frozen and every schedule at its end
    settings: Any  # the algorithm's configuration for going on, without what is done only once


class Trainer(NamedTuple):
    """An algorithm as pure functions for ONE seed in ONE environment; the engine vmaps and compiles them.

    A block of steps is: `draw` random numbers; at each step `choose` an action and `observe` what came of it (λ and
    running statistics have to know before the next choice); then `digest` what was kept of the block, that is,
    remember and learn. After each period comes `sync`. `aim` [J] is the cost to steer to, `now` the environment steps
    so far: both, the environment's parameters and λ (in the state) are arrays, so that they can change without
    recompiling. A program compiles these functions round the environment's own step; a loop on the host can call the
    same ones round any other.
    """

    init: Callable[..., tuple[PyTree, Array]]  # (key, seed, params) -> state, key of the first reset
    draw: Callable[[PyTree], tuple[PyTree, Draws]]
    begin: Callable[[PyTree, Array], PyTree]  # (state, obs) -> state, where a block begins with a fresh start
    choose: Callable[[PyTree, Array, PyTree, Array], Choice]  # (state, obs, random numbers, now)
    observe: Callable[..., tuple[PyTree, Array]]  # (state, choice, seen, aim, now, phase) -> state, row to keep
    digest: Callable[..., tuple[PyTree, PyTree, dict[str, Array]]]
    """(state, cache, rows, params, aim, now, phase) -> state, cache, losses."""
    sync: Callable[[PyTree], PyTree]
    cache: Callable[[PyTree, str], PyTree]  # (state, phase) -> what stays true during a phase; None for nothing
    phase_at: Callable[[int], tuple[str, int | None]]  # step -> what is learnt there, and the step at which that ends
    last_phase: str
    block: int  # environment steps between two digestions
    period: int  # environment steps of one period, whole blocks
    policy: Callable[[PyTree], PyTree]  # state -> what acting needs
    values: Callable[[PyTree, Array], Values]  # (policy, obs) -> what it expects
    multipliers: Callable[[PyTree], Array]  # state -> λ [J]
    memory: Callable[[PyTree], tuple[Array, Array]] | None = None
    """State -> rows that a policy may take along, [n, width], and which of them are filled, [n]."""
    refill: Callable[..., PyTree] | None = None
    """(state, key, rows, params) -> a state whose reservoir, if it has one, holds these rows."""
    crop: Callable[[PyTree, Any], PyTree] = lambda policy, params: policy  # a policy without what padded its params
    adaptable: Adaptable | None = None
