"""SafeDQN (Alg. 1): Q-learning on the reward r - λ·c."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from safedsr.agents.safedqn.config import SafeDqnConfig
from safedsr.agents.value_based.trainer import Learner, Memory, make_trainer
from safedsr.core import replay
from safedsr.core.nets import Mlp, descend
from safedsr.envs.environment import Environment
from safedsr.types import PyTree, Trainer, Transition, Values


class DqnState(NamedTuple):
    """Q, the target network Q_prev and the optimiser's state."""

    q: Mlp
    target: Mlp
    optimizer: PyTree


def q_loss(q: Mlp, target: Mlp, t: Transition, lam: Array, config: SafeDqnConfig) -> Array:
    """Alg. 1: (r - λ·c + γ max Q_prev(s′, ·) - Q(s, a))², without the maximum if s′ is terminal."""
    ahead = (1 - t.terminated) * jnp.max(target(t.next_obs))
    goal = t.reward - lam @ t.cost + config.gamma * ahead
    return (goal - q(t.obs)[t.action]) ** 2


def make_safedqn(config: SafeDqnConfig, environment: Environment) -> Trainer:
    """The trainer of Alg. 1."""
    spec = environment.spec
    adam: Any = optax.adam(config.learning_rate)  # optax's types do not accept modules as parameters

    def init(key: Array, params: PyTree) -> DqnState:
        del params  # Q does not depend on them
        q = Mlp((spec.observations, *config.hidden, spec.actions), key=key)
        return DqnState(q, q, adam.init(q))

    def learn(s: DqnState, memory: Memory, lam: Array, key: Array, phase: str) -> tuple[DqnState, dict[str, Array]]:
        del phase  # there is only one learning phase

        def batch_loss(q: Mlp, batch: Transition) -> Array:
            return jax.vmap(q_loss, (None, None, 0, None, None))(q, s.target, batch, lam, config).mean()

        def update(carry: tuple[Mlp, PyTree], rows: Array) -> tuple[tuple[Mlp, PyTree], Array]:
            q, optimizer = carry
            loss, slope = jax.value_and_grad(batch_loss)(q, memory.unpack(rows))
            return descend(adam, slope, q, optimizer), loss

        rows = memory.ring[replay.choose(key, memory.filled, (config.update_steps, config.batch_size))]
        (q, optimizer), losses = jax.lax.scan(update, (s.q, s.optimizer), rows)
        return DqnState(q, s.target, optimizer), {"q_loss": losses.mean()}

    def values(q: Mlp, obs: Array, lam: Array) -> Values:
        del lam  # Q is trained on r - λ·c
        return Values(q=q(obs), k=None, m=None, score=q(obs))

    learner = Learner(
        init=init,
        scores=lambda s, obs, lam: s.q(obs),
        learn=learn,
        sync=lambda s: s._replace(target=s.q),
        policy=lambda s: s.q,
        values=values,
        phases=(("collect", config.train_start), ("learn", None)),
        losses=("q_loss",),
    )
    return make_trainer(learner, config, spec)
