"""Controllers of the Lagrange multipliers λ: how they answer to the cost of a finished episode.

A controller is a record of pure functions; its state holds λ as an array [J], so that λ can be changed by hand
between chunks (where it waits for the first goal, from then on). `aim` [J] is the cost it steers to, the budget unless
a setting says otherwise.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import relu

from safedsr.core.config import MultiplierConfig


class Multiplier(NamedTuple):
    """λ, what a PID controller remembers, and whether λ has begun."""

    lam: Array  # [J]
    integral: Array  # [J]
    error: Array  # [J] smoothed cost - aim
    level: Array  # [J] smoothed cost
    begun: Array  # [] bool, false while λ waits for the first goal


Update = Callable[[Multiplier, Array, Array, MultiplierConfig], Multiplier]


def init(num_costs: int, config: MultiplierConfig) -> Multiplier:
    """λ₀ for each cost; 0 if λ waits for the first goal."""
    start = 0.0 if config.after_goal else config.lam_start
    return at(jnp.full(num_costs, start, jnp.float32))._replace(begun=jnp.array(not config.after_goal))


def at(lam: Array) -> Multiplier:
    """A controller that has begun, with this λ."""
    zero = jnp.zeros_like(lam)
    return Multiplier(lam=lam, integral=lam, error=zero, level=zero, begun=jnp.array(True))


def begin(m: Multiplier, reached: Array, config: MultiplierConfig) -> Multiplier:
    """λ₀ if the goal was reached for the first time and λ has waited for that."""
    lam, integral = (jnp.where(reached & ~m.begun, config.lam_start, x) for x in (m.lam, m.integral))
    return m._replace(lam=lam, integral=integral, begun=m.begun | reached)


def proportional(m: Multiplier, cost: Array, aim: Array, config: MultiplierConfig) -> Multiplier:
    """Eq. (16): λ ← max(0, λ + α_λ (C_ep - b))."""
    return m._replace(lam=relu(m.lam + config.lam_lr * (cost - aim)))


def sign(m: Multiplier, cost: Array, aim: Array, config: MultiplierConfig) -> Multiplier:
    """Sec. H: a fixed step up when the episode broke the budget, the same step down when it did not."""
    return m._replace(lam=relu(m.lam + jnp.where(cost > aim, config.lam_step, -config.lam_step)))


def chance(m: Multiplier, cost: Array, aim: Array, config: MultiplierConfig) -> Multiplier:
    """Up when an episode breaks the budget, down when not, so that at rest a share `chance` of them does."""
    lam = m.lam + config.lam_step * ((cost > aim) - config.chance)
    return m._replace(lam=jnp.clip(lam, 0.0, config.lam_most))


class Pid(NamedTuple):
    """What one step of a PID controller gives; each [J]."""

    lam: Array
    integral: Array
    error: Array  # smoothed cost - aim
    level: Array  # smoothed cost


class Gains(Protocol):
    """Settings of a PID controller."""

    @property
    def pid_kp(self) -> float: ...
    @property
    def pid_ki(self) -> float: ...
    @property
    def pid_kd(self) -> float: ...
    @property
    def pid_smooth(self) -> float: ...


def pid_step(before: Pid, cost: Array, aim: Array, earlier: Array, gains: Gains) -> Pid:
    """Stooke et al. (2020): proportional and derivative terms on smoothed costs, and an integral that stays ≥ 0.

    The derivative is that since an `earlier` smoothed cost, and counts only where it rises.
    """
    error = gains.pid_smooth * before.error + (1 - gains.pid_smooth) * (cost - aim)
    level = gains.pid_smooth * before.level + (1 - gains.pid_smooth) * cost
    integral = relu(before.integral + gains.pid_ki * (cost - aim))
    lam = relu(gains.pid_kp * error + integral + gains.pid_kd * relu(level - earlier))
    return Pid(lam, integral, error, level)


def pid(m: Multiplier, cost: Array, aim: Array, config: MultiplierConfig) -> Multiplier:
    """A PID controller whose derivative is that since the episode before."""
    found = pid_step(Pid(m.lam, m.integral, m.error, m.level), cost, aim, m.level, config)
    return m._replace(**found._asdict())


RULES: dict[str, Update] = {"proportional": proportional, "sign": sign, "pid": pid, "chance": chance}


def after_step(
    m: Multiplier, cost: Array, aim: Array, done: Array, reached: Array, now: Array, config: MultiplierConfig
) -> Multiplier:
    """The controller after a step before which there were `now`; `cost` [J] is the episode's so far."""
    when = done & m.begun & (now >= config.penalty_start)
    tuned = RULES[config.rule](m, cost, aim, config)
    return begin(jax.tree.map(lambda new, old: jnp.where(when, new, old), tuned, m), reached, config)
