"""SafeDSR learns M from stored transitions only; this needs unchanged dynamics (adaptation, level 'memory')."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.equations import DsrPolicy, both_features
from safedsr.agents.safedsr.learner import DsrState, go_on, learn_cached
from safedsr.envs.environment import Spec
from safedsr.types import Rehearsal, Transition

ROUND = 500  # updates between two searches for λ


def rehearse(
    policy: DsrPolicy, steps: Transition, updates: int, seed: int, units: None, spec: Spec, config: SafeDsrConfig
) -> Rehearsal:
    """Rounds of updates of M by Eq. (11) on stored transitions; φ is frozen, so their features are computed once."""
    del units  # the paper's agent works with rewards and costs as they are
    key, learner_key = jax.random.split(jax.random.key(seed))
    cached = _all_features(policy.phi, steps)

    def learn(s: DsrState, lam: Array, key: Array) -> DsrState:
        return learn_from(steps, cached, s, lam, key, config, min(ROUND, updates))[0]

    return Rehearsal(
        state=go_on(policy, learner_key, spec, config),
        keys=jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(0, updates, ROUND)),
        learn=learn,
        policy=lambda s: policy._replace(successor=s.successor),
        lam=None,
    )


_all_features = jax.jit(jax.vmap(both_features, (None, 0)))


@partial(jax.jit, static_argnames=("config", "updates"))
def learn_from(
    steps: Transition, cached: Array, s: DsrState, lam: Array, key: Array, config: SafeDsrConfig, updates: int
) -> tuple[DsrState, Array]:
    """The state after updates of M on batches of stored transitions, and the mean loss; targets sync as in training."""
    between = config.sync_every // config.train_every * config.update_steps

    def update(s: DsrState, key: Array) -> tuple[DsrState, Array]:
        chosen = jax.random.randint(key, (config.batch_size,), 0, len(cached))
        t = jax.tree.map(lambda x: x[chosen], steps)
        return learn_cached(s, cached, chosen, t, lam, config)

    def period(s: DsrState, keys: Array) -> tuple[DsrState, Array]:
        s, losses = jax.lax.scan(update, s, keys)
        return s._replace(target_successor=s.successor), losses.mean()

    keys = jax.random.split(key, (max(updates // between, 1), between))
    s, losses = jax.lax.scan(period, s, keys)
    return s, losses.mean()
