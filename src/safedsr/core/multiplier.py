"""Controllers of the Lagrange multipliers λ, which update λ after each episode (Eq. (16), Sec. H).

The state of a controller holds λ as an array [J], so that λ can be set by hand between chunks (if λ waits for the
first goal, only after that goal). `aim` [J] is the target cost of an episode, the budget unless a setting says
otherwise.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import relu

from safedsr.core.config import MultiplierConfig
from safedsr.core.units import Units, known


class Multiplier(NamedTuple):
    """State of a controller: λ, averages over episodes, and whether updates have begun."""

    lam: Array  # [J]
    integral: Array  # [J]
    error: Array  # [J] smoothed cost - aim
    level: Array  # [J] smoothed cost; under the share rule, of costs up to 1
    begun: Array  # [] bool, false while λ waits for the first goal
    episodes: Array  # [] int32, episodes that updated λ; this and the next four under the share rule alone
    over: Array  # [J] smoothed share of episodes above `aim`
    failed: Array  # [] smoothed share of episodes without success
    safe: Array  # [] smoothed share of successful episodes with no cost above its `aim`
    length: Array  # [] smoothed number of steps


class Ended(NamedTuple):
    """An episode that has ended."""

    cost: Array  # [J]
    aim: Array  # [J]
    goals: bool = True  # whether episodes can reach a goal
    success: Array | bool = True  # whether this one did
    steps: Array | float = 1.0


Update = Callable[[Multiplier, Ended, MultiplierConfig], Multiplier]
LEAST_AIM = 0.1  # the mean rule divides by at least this
LEAST, MOST = 2.0**-8, 2.0**8  # limits of λ under the share rule, whatever the problem needs
WINDOW, LONG_WINDOW = 50, 200  # episodes over which the share rule averages costs, and rates of success
TINY = 1e-6
HARD = 0.1  # share of episodes above `aim` from which the share rule compares two λ
OFTEN = 0.3  # share of episodes above `aim`, or without success, from which λ changes whatever the comparison says


def init(num_costs: int, config: MultiplierConfig) -> Multiplier:
    """The initial state: λ₀ for each cost, or 0 if λ waits for the first goal."""
    start = 0.0 if config.after_goal else config.lam_start
    return at(jnp.full(num_costs, start, jnp.float32))._replace(begun=jnp.array(not config.after_goal))


def at(lam: Array) -> Multiplier:
    """The state with this λ, after updates have begun."""
    zero = jnp.zeros_like(lam)
    none = jnp.zeros(())
    return Multiplier(lam, lam, zero, zero, jnp.array(True), jnp.zeros((), jnp.int32), zero, none, none, none)


def acting(m: Multiplier, config: MultiplierConfig, *, goals: bool) -> Array:
    """The λ [J] of the current episode; where the share rule compares two λ, a little above or below `m.lam`."""
    if not compares(config, goals=goals):
        return m.lam
    return m.lam * jnp.exp(jnp.where(m.over > HARD, config.tilt * _sides(m), 0.0))


def compares(config: MultiplierConfig, *, goals: bool) -> bool:
    """Whether the share rule compares two λ if a budget is hard to keep."""
    return config.rule == "share" and goals and config.tilt > 0 and config.lam_most is None


def _sides(m: Multiplier) -> Array:
    """1 for the larger λ or -1 for the smaller one [J]: in turn, so that all combinations of several λ occur."""
    return 1.0 - 2.0 * ((m.episodes >> jnp.arange(len(m.lam))) & 1)


def begin(m: Multiplier, reached: Array, start: Array | float) -> Multiplier:
    """Set λ to λ₀, which is `start`, if λ waits for the first goal and the goal is reached."""
    lam, integral = (jnp.where(reached & ~m.begun, start, x) for x in (m.lam, m.integral))
    return m._replace(lam=lam, integral=integral, begun=m.begun | reached)


def proportional(m: Multiplier, e: Ended, config: MultiplierConfig) -> Multiplier:
    """Eq. (16): λ ← max(0, λ + α_λ (C_ep - b))."""
    return m._replace(lam=relu(m.lam + config.lam_lr * (e.cost - e.aim)))


def sign(m: Multiplier, e: Ended, config: MultiplierConfig) -> Multiplier:
    """Sec. H: λ rises by a fixed step if the cost of the episode exceeds `aim`, else it falls by the same step."""
    return m._replace(lam=relu(m.lam + jnp.where(e.cost > e.aim, config.lam_step, -config.lam_step)))


def chance(m: Multiplier, e: Ended, config: MultiplierConfig) -> Multiplier:
    """λ rises if an episode exceeds `aim`, else it falls; in equilibrium, a share `chance` of episodes exceeds it."""
    lam = m.lam + config.lam_step * ((e.cost > e.aim) - config.chance)
    return m._replace(lam=jnp.clip(lam, 0.0, config.lam_most))


def mean(m: Multiplier, e: Ended, config: MultiplierConfig) -> Multiplier:
    """λ ← λ + α (C_ep - b) / b, within its limits; in equilibrium, the mean cost is `aim`, whatever its units."""
    lam = m.lam + config.lam_step * (e.cost - e.aim) / jnp.maximum(e.aim, LEAST_AIM)
    return m._replace(lam=jnp.clip(lam, 0.0, config.lam_most))


def share(m: Multiplier, e: Ended, config: MultiplierConfig) -> Multiplier:
    """Like `chance`, but λ changes by a factor; where there are goals, it stops rising if the budget cannot be kept.

    A budget may be out of reach because of random actions; an ever larger λ would then keep the agent from the goal.
    So λ times the mean cost of episodes is at most `penalty_most`, where costs above 1 count as 0: as long as most
    episodes are above the budget, or cheap, λ may rise. Costs are in their units, in which the budget is at most 1.
    With `tilt`, λ follows the safe successes instead as long as many episodes are above the budget (`_compared`).
    """
    above = (e.cost > e.aim).astype(jnp.float32)
    level = m.level + (jnp.where(e.cost <= 1, e.cost, 0.0) - m.level) / WINDOW
    most = jnp.full_like(m.lam, MOST)
    if e.goals and config.lam_most is not None:
        most = jnp.full_like(m.lam, config.lam_most)
    elif e.goals and config.penalty_most is not None:
        most = jnp.clip(config.penalty_most / jnp.maximum(level, TINY), LEAST, MOST)
    rise, after = above - config.chance, m._replace(level=level)
    if compares(config, goals=e.goals):
        hard = m.over > HARD
        compared, after = _compared(after, e, above)
        rise, most = jnp.where(hard, compared, rise), jnp.where(hard, MOST, most)
    return after._replace(lam=jnp.clip(jnp.exp(config.lam_step * rise) * jnp.maximum(m.lam, LEAST), LEAST, most))


def _compared(m: Multiplier, e: Ended, above: Array) -> tuple[Array, Multiplier]:
    """How far log λ is to rise [J], in units of its step, by a comparison of two λ; and the averages it is based on.

    Episodes have in turn a λ that is a little larger and a little smaller (`acting`), and λ moves to the side with more
    safe successes per step. Where there is hardly anything to compare, successes above the budget raise λ, and failures
    lower it.
    """
    success = jnp.float32(e.success)
    over, failed = m.over + (above - m.over) / WINDOW, m.failed + (1 - success - m.failed) / WINDOW
    safe, new = success * (1 - above.max(initial=0.0)), 1 / jnp.minimum(m.episodes + 1.0, LONG_WINDOW)
    gain = jnp.clip(safe - m.safe / jnp.maximum(m.length, 1.0) * e.steps, -2.0, 1.0)
    push = jnp.where(e.success, relu(over - OFTEN), -1.0 * (failed > OFTEN))
    after = m._replace(
        episodes=m.episodes + 1,
        over=over,
        failed=failed,
        safe=m.safe + new * (safe - m.safe),
        length=m.length + new * (e.steps - m.length),
    )
    return _sides(m) * gain + push, after


class Pid(NamedTuple):
    """The result of one step of a PID controller; each [J]."""

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

    The derivative term is the rise of the smoothed cost since `earlier`; a fall counts as 0.
    """
    error = gains.pid_smooth * before.error + (1 - gains.pid_smooth) * (cost - aim)
    level = gains.pid_smooth * before.level + (1 - gains.pid_smooth) * cost
    integral = relu(before.integral + gains.pid_ki * (cost - aim))
    lam = relu(gains.pid_kp * error + integral + gains.pid_kd * relu(level - earlier))
    return Pid(lam, integral, error, level)


def pid(m: Multiplier, e: Ended, config: MultiplierConfig) -> Multiplier:
    """A PID controller whose derivative term compares with the previous episode."""
    found = pid_step(Pid(m.lam, m.integral, m.error, m.level), e.cost, e.aim, m.level, config)
    return m._replace(**found._asdict())


RULES: dict[str, Update] = {
    "proportional": proportional,
    "sign": sign,
    "pid": pid,
    "chance": chance,
    "share": share,
    "mean": mean,
}


def after_episode(m: Multiplier, e: Ended, config: MultiplierConfig, units: Units | None = None) -> Multiplier:
    """The state after an episode; with `units`, the rule works with pure numbers."""
    if units is None:
        return RULES[config.rule](m, e, config)
    each = known(units.cost)
    pure = e._replace(cost=e.cost / each, aim=e.aim / each)
    return scaled(RULES[config.rule](scaled(m, 1 / units.lam), pure, config), units.lam)


def scaled(m: Multiplier, factor: Array) -> Multiplier:
    """The state with λ in other units."""
    return m._replace(lam=factor * m.lam, integral=factor * m.integral)


def after_step(
    m: Multiplier,
    ended: Ended,
    done: Array,
    now: Array,
    config: MultiplierConfig,
    units: Units | None = None,
) -> Multiplier:
    """The state after an environment step; `now` is the number of steps before it, `ended` the episode so far."""
    when = done & m.begun & (now >= config.begins)
    tuned = after_episode(m, ended, config, units)
    m = jax.tree.map(lambda new, old: jnp.where(when, new, old), tuned, m)
    return begin(m, jnp.asarray(ended.success), config.lam_start if units is None else config.lam_start * units.lam)
