"""SafeDSR-plus learns M from stored transitions only, for a small λ (adaptation, level 'memory')."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax import Array

from safedsr.agents.plus import learner as plus
from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.plus.learner import Kit, PlusPolicy, PlusState
from safedsr.core.units import Units, ones
from safedsr.types import Rehearsal, Transition

ROUNDS = 4  # a search for λ follows each round
FAST, SLOW = 2.0, 0.2  # first and last learning rate, as multiples of the learning rate in training
SYNC = 250  # updates between copies into the target network


def rehearse(
    policy: PlusPolicy, steps: Transition, updates: int, seed: int, units: Units | None, kit: Kit
) -> Rehearsal:
    """Rounds of updates for λ₀, not for the current λ: if λ is large, errors of K hide small differences of Q."""
    units = units or ones(len(policy.weights.w_c))

    def learn(s: PlusState, lam: Array, key: Array) -> PlusState:
        return learn_from(steps, s, lam, units, key, kit, -(-updates // ROUNDS), updates)[0]

    return Rehearsal(
        state=plus.go_on(policy, _optimizer(kit.config, updates), units, kit),
        keys=jax.random.split(jax.random.key(seed), ROUNDS),
        learn=learn,
        policy=lambda s: policy._replace(successor=s.successor, weights=s.weights),
        lam=kit.config.multiplier.lam_start * units.lam,
    )


@partial(jax.jit, static_argnames=("kit", "count", "updates"))
def learn_from(
    steps: Transition, s: PlusState, lam: Array, units: Units, key: Array, kit: Kit, count: int, updates: int
) -> tuple[PlusState, Array]:
    """The state after `count` of all `updates` on batches of stored transitions, and the mean loss."""
    optimizer = _optimizer(kit.config, updates)

    def update(s: PlusState, xs: tuple[Array, Array]) -> tuple[PlusState, Array]:
        n, key = xs
        chosen = jax.random.randint(key, (kit.config.batch_size,), 0, len(steps.action))
        batch = jax.tree.map(lambda x: x[chosen], steps)
        s, loss = plus.learn_successor(s, batch, lam, units, optimizer, kit)
        target = jax.tree.map(lambda new, old: jnp.where(n % SYNC == SYNC - 1, new, old), s.successor, s.target)
        return s._replace(target=target), loss

    s, losses = jax.lax.scan(update, s, (jnp.arange(count), jax.random.split(key, count)))
    return s, losses.mean()


def _optimizer(config: SafeDsrPlusConfig, updates: int) -> optax.GradientTransformation:
    rate = config.learning_rate
    return optax.adam(optax.linear_schedule(FAST * rate, SLOW * rate, updates))
