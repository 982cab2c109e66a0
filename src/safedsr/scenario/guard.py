"""An agent that acts with the best policy that simulated episodes have shown, and goes on learning beside it.

What acts changes only at a check: the policy that has been learnt since is simulated in the announced task with several
λ, and takes over if it is safer, or as safe as required and better.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.adapt.penalty import Score
from safedsr.agents.value_based.trainer import State
from safedsr.core.exploration import epsilon_at, epsilon_greedy
from safedsr.envs.environment import Spec
from safedsr.types import Choice, Draws, PyTree, Seen, Trainer


class Guarded(NamedTuple):
    """A learner, and the policy that acts in its place if `acts`."""

    own: State
    policy: PyTree
    acts: Array  # [] bool


def guarded(trainer: Trainer, config: Any, spec: Spec) -> Trainer:
    """The trainer whose states are `Guarded`."""

    def init(key: Array, seed: Array, params: PyTree) -> tuple[Guarded, Array]:
        own, rest = trainer.init(key, seed, params)
        return unproven(trainer, own), rest

    def draw(s: Guarded) -> tuple[Guarded, Draws]:
        own, draws = trainer.draw(s.own)
        return s._replace(own=own), draws

    def choose(s: Guarded, obs: Array, luck: Array, now: Array) -> Choice:
        score = jnp.where(s.acts, *(trainer.values(one, obs).score for one in (s.policy, trainer.policy(s.own))))
        return Choice(epsilon_greedy(luck, jnp.argmax(score), epsilon_at(now, config.epsilon), spec.actions))

    def observe(s: Guarded, choice: Choice, seen: Seen, aim: Array, now: Array, phase: str) -> tuple[Guarded, Array]:
        own, row = trainer.observe(s.own, choice, seen, aim, now, phase)
        return s._replace(own=own), row

    def digest(s: Guarded, *rest: Any) -> tuple[Guarded, PyTree, dict[str, Array]]:
        own, cache, losses = trainer.digest(s.own, *rest)
        return s._replace(own=own), cache, losses

    return trainer._replace(
        init=init,
        draw=draw,
        begin=lambda s, obs: s._replace(own=trainer.begin(s.own, obs)),
        choose=choose,
        observe=observe,
        digest=digest,
        sync=lambda s: s._replace(own=trainer.sync(s.own)),
        cache=lambda s, phase: trainer.cache(s.own, phase),
        policy=lambda s: trainer.policy(s.own),
        multipliers=lambda s: trainer.multipliers(s.own),
    )


def unproven(trainer: Trainer, own: State) -> Guarded:
    """A learner that acts itself."""
    return Guarded(own, trainer.policy(own), jnp.zeros((), bool))


def wrap(trainer: Trainer, agents: PyTree) -> Guarded:
    """Learners [1, S] that act themselves."""
    return jax.jit(jax.vmap(jax.vmap(partial(unproven, trainer))))(agents)


def worth(score: Score, required: float) -> tuple[float, float]:
    """A key to compare policies: safety up to what is required, then the return."""
    return min(score.safe, required), score.reward
