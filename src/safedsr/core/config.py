"""Settings that several algorithms share. No JAX here, so that the command line shows its help quickly."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from safedsr.validation import check_fields, require

LATEST = 2_000_000_000  # step at which the clock of a compiled program stops; schedules have ended by then
Matmul = Literal["float32", "tensorfloat32", "tensorfloat32x3"]


def check_latest(config: object, *names: str) -> None:
    """Raise if one of these steps of a schedule is later than the clock of a compiled program goes."""
    for name in names:
        step = getattr(config, name)
        require(step is None or step <= LATEST, name, step, f"give a step of at most {LATEST}")


@dataclass(frozen=True)
class EpsilonSchedule:
    """ε of the ε-greedy policy: constant, then linear, then constant (Tables 1 and 2)."""

    epsilon_start: float = 1.0
    """ε until `epsilon_from`."""
    epsilon_end: float = 0.25
    """ε from `epsilon_to` on."""
    epsilon_from: int | None = 20_000
    """Environment step at which ε starts to fall; None: after 4 % of the run."""
    epsilon_to: int | None = 100_000
    """Environment step at which ε has reached its end value; None: after 20 % of the run."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("epsilon_start", "epsilon_end"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "give a share between 0 and 1")
        check_latest(self, "epsilon_from", "epsilon_to")
        if self.epsilon_from is None or self.epsilon_to is None:
            return
        require(
            0 <= self.epsilon_from <= self.epsilon_to,
            "epsilon_from … epsilon_to",
            f"{self.epsilon_from} … {self.epsilon_to}",
            "the schedule must not end before it starts",
        )

    @property
    def span(self) -> tuple[int, int]:
        """The environment steps at which ε starts to fall and has reached its end value."""
        assert self.epsilon_from is not None and self.epsilon_to is not None, "a Job sets the steps of its schedules"
        return self.epsilon_from, self.epsilon_to

    def over(self, steps: int) -> "EpsilonSchedule":
        """The schedule of a run of that many steps."""
        end = min(steps // 5, LATEST) if self.epsilon_to is None else self.epsilon_to
        begin = min(steps // 25, end) if self.epsilon_from is None else self.epsilon_from
        return replace(self, epsilon_from=begin, epsilon_to=end)


@dataclass(frozen=True)
class MultiplierConfig:
    """How λ is tuned (Tables 1 and 2, Lagrangian parameter tuning)."""

    rule: Literal["proportional", "sign", "pid", "chance", "share", "mean"] = "proportional"
    """How λ is updated after an episode: proportional (Eq. 16), sign (a fixed step, Sec. H), pid (a PID controller),
    chance (keeps the share of episodes that exceed the budget at `chance`), share (like chance, but λ changes by a
    factor), or mean (keeps the mean cost at the budget)."""
    aim: tuple[float, ...] | None = None
    """Target cost of an episode, one number or one for each cost; the budget if not given."""
    penalty_start: int | None = 100_000
    """t_penalty: environment step from which λ is updated; None: after 20 % of the run."""
    lam_start: float = 0.0
    """λ₀: initial value of λ."""
    after_goal: bool = False
    """Keep λ at 0 until an episode has reached the goal for the first time."""
    lam_lr: float = 0.001
    """α_λ: step size of the proportional rule."""
    lam_step: float = 0.01
    """Step size of the sign, chance and share rules; under the mean rule, of a cost of twice the budget."""
    lam_most: float | None = None
    """Upper limit of λ under the chance, share and mean rules."""
    penalty_most: float | None = None
    """Share rule, where there are goals and no lam_most: upper limit of λ times the mean cost of episodes (a cost above
    the budget counts as 0), in units of the largest return. It stops λ if the budget cannot be kept."""
    tilt: float = 0.0
    """Share rule, where there are goals and no lam_most: if above 0, and more than 10 % of the episodes exceed the
    budget, episodes have in turn a λ that is larger and smaller by about this share, and λ moves to the side with more
    safe goals per step, without a limit."""
    chance: float = 0.05
    """Target share of episodes that exceed the budget, under the chance rule and the share rule."""
    pid_kp: float = 0.01
    """Proportional gain."""
    pid_ki: float = 0.001
    """Integral gain."""
    pid_kd: float = 0.01
    """Derivative gain."""
    pid_smooth: float = 0.9
    """Smoothing factor: weight of the old value in the smoothed costs."""

    def __post_init__(self) -> None:
        check_fields(self)
        start = self.penalty_start
        check_latest(self, "penalty_start")
        require(start is None or start >= 0, "penalty_start", start, "give a step of at least 0")
        for name in ("lam_start", "lam_lr", "lam_step", "tilt", "pid_kp", "pid_ki", "pid_kd"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "give a value of at least 0")
        for name in ("lam_most", "penalty_most"):
            value = getattr(self, name)
            require(value is None or value >= 0, name, value, "give a value of at least 0")
        require(0 <= self.chance <= 1, "chance", self.chance, "give a share between 0 and 1")
        require(0 <= self.pid_smooth < 1, "pid_smooth", self.pid_smooth, "give a share of at least 0 and below 1")

    @property
    def begins(self) -> int:
        """The environment step from which λ is updated."""
        assert self.penalty_start is not None, "a Job sets the steps of its schedules"
        return self.penalty_start

    def over(self, steps: int) -> "MultiplierConfig":
        """The settings in a run of that many steps."""
        return self if self.penalty_start is not None else replace(self, penalty_start=min(steps // 5, LATEST))


def for_mean(given: MultiplierConfig, usual: Collection[MultiplierConfig]) -> MultiplierConfig:
    """The settings for a budget of the mean cost: a rule that counts episodes becomes the mean rule.

    λ has no upper limit then, unless the given one differs from those of the algorithm's presets (`usual`), which are
    for rules that count episodes.
    """
    if given.rule not in ("chance", "share"):
        return given
    return replace(
        given, rule="mean", lam_most=None if given.lam_most in {one.lam_most for one in usual} else given.lam_most
    )
