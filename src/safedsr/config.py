"""Settings: frozen dataclasses, checked where they are built. A field is a command-line flag of the same name.

No JAX here, so that the command line can show its help without it.
"""

from dataclasses import dataclass
from typing import Any, Literal

from safedsr.validation import check_fields, require


@dataclass(frozen=True)
class GridConfig:
    """The physics of the continuous grid (Sec. 5.1)."""

    step_mean: float = 0.75
    """Mean step length, in cells."""
    step_std: float = 0.075
    """Standard deviation of the step length."""
    step_clip: float = 3.0
    """The step length stays within this many standard deviations of its mean."""
    time_limit: int = 1000
    """Steps after which an episode is truncated."""
    step_reward: float = -0.01
    """Reward of every step."""
    goal_reward: float = 1.0
    """Added on the step that reaches the goal."""

    def __post_init__(self) -> None:
        check_fields(self)
        longest = self.step_mean + self.step_clip * self.step_std
        shortest = self.step_mean - self.step_clip * self.step_std
        require(self.step_std >= 0, "step_std", self.step_std, "give a value of at least 0")
        require(self.step_clip >= 0, "step_clip", self.step_clip, "give a value of at least 0")
        require(
            shortest >= 0 and longest < 1,
            "step_mean ± step_clip · step_std",
            f"{shortest:g} … {longest:g}",
            "steps must lie in [0, 1), so that none jumps over a wall",
        )
        require(self.time_limit >= 1, "time_limit", self.time_limit, "give at least 1 step")


@dataclass(frozen=True)
class EpsilonSchedule:
    """ε of the ε-greedy policy: constant, then linear, then constant (Tables 1 and 2)."""

    epsilon_start: float = 1.0
    """ε until `epsilon_from`."""
    epsilon_end: float = 0.25
    """ε from `epsilon_to` on."""
    epsilon_from: int = 20_000
    """Environment step at which ε starts to fall."""
    epsilon_to: int = 100_000
    """Environment step at which ε has reached its end value."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("epsilon_start", "epsilon_end"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "give a share between 0 and 1")
        require(
            0 <= self.epsilon_from <= self.epsilon_to,
            "epsilon_from … epsilon_to",
            f"{self.epsilon_from} … {self.epsilon_to}",
            "the schedule must not end before it starts",
        )


@dataclass(frozen=True)
class OracleConfig:
    """How finely the oracle plans and how long it walks."""

    gamma: float = 0.99
    """Discount factor of the plan."""
    subcells: int = 8
    """Sub-cells along each side of a cell."""
    noise_points: int = 7
    """Points of the quadrature over the step length."""
    sweeps: int = 1000
    """Most sweeps of value iteration; it stops once nothing moves by more than `tolerance`."""
    tolerance: float = 1e-5
    """Largest change of a value at which the plan counts as done."""
    plan_epsilon: float = 0.0
    """Share of random actions that the plan reckons with; the schedule's last ε gives the stronger reference."""
    steps: int = 500_000
    """Environment steps of one walk."""
    walks: int = 16
    """Independent walks that are averaged."""
    seed: int = 0
    """Seed of the walks."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(0 < self.gamma < 1, "gamma", self.gamma, "give a value between 0 and 1")
        for name in ("subcells", "noise_points", "sweeps", "steps", "walks"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "give at least 1")
        require(0 <= self.plan_epsilon <= 1, "plan_epsilon", self.plan_epsilon, "give a share between 0 and 1")
        require(self.tolerance > 0, "tolerance", self.tolerance, "give a value above 0")


@dataclass(frozen=True)
class MultiplierConfig:
    """How λ is tuned (Tables 1 and 2, Lagrangian parameter tuning)."""

    rule: Literal["proportional", "sign", "pid", "chance"] = "proportional"
    """Eq. (16), the fixed step of Sec. H, a PID controller, or one that steers how many episodes break the budget."""
    aim: tuple[float, ...] | None = None
    """Cost to steer to, one for all or one a cost; the budget if not given."""
    penalty_start: int = 100_000
    """t_penalty: environment step from which λ is tuned."""
    lam_start: float = 0.0
    """λ₀."""
    after_goal: bool = False
    """Whether λ is 0 until the goal has been reached for the first time."""
    lam_lr: float = 0.001
    """α_λ of the proportional rule."""
    lam_step: float = 0.01
    """Step of the sign rule and of the chance rule."""
    lam_most: float | None = None
    """Greatest λ of the chance rule."""
    chance: float = 0.05
    """Share of episodes that the chance rule lets break the budget."""
    pid_kp: float = 0.01
    """Proportional gain."""
    pid_ki: float = 0.001
    """Integral gain."""
    pid_kd: float = 0.01
    """Derivative gain."""
    pid_smooth: float = 0.9
    """Share of the old value in the smoothed costs."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.penalty_start >= 0, "penalty_start", self.penalty_start, "give a step of at least 0")
        for name in ("lam_start", "lam_lr", "lam_step", "pid_kp", "pid_ki", "pid_kd"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "give a value of at least 0")
        require(self.lam_most is None or self.lam_most >= 0, "lam_most", self.lam_most, "give a value of at least 0")
        require(0 <= self.chance <= 1, "chance", self.chance, "give a share between 0 and 1")
        require(0 <= self.pid_smooth < 1, "pid_smooth", self.pid_smooth, "give a share of at least 0 and below 1")


@dataclass(frozen=True)
class SafeDqnConfig:
    """SafeDQN with the parameters of Table 1."""

    epsilon: EpsilonSchedule = EpsilonSchedule()
    multiplier: MultiplierConfig = MultiplierConfig()
    gamma: float = 0.99
    """Discount factor."""
    batch_size: int = 128
    """Transitions of an update."""
    buffer_size: int = 10_000
    """Transitions that are remembered."""
    learning_rate: float = 2.5e-4
    """Adam's step size."""
    train_start: int = 10_000
    """Environment steps before the first update."""
    train_every: int = 10
    """Environment steps between trainings."""
    update_steps: int = 1
    """Updates a training."""
    sync_every: int = 500
    """k_sync: environment steps between copies into the target network."""
    hidden: tuple[int, ...] = (120, 84)
    """Widths of the hidden layers of Q."""

    @property
    def period(self) -> int:
        """Environment steps after which the loop repeats itself."""
        return self.sync_every

    @property
    def aim(self) -> tuple[float, ...] | None:
        """The cost that λ steers to; None for the budget."""
        return self.multiplier.aim

    def __post_init__(self) -> None:
        check_fields(self)
        check_value_based(self)


@dataclass(frozen=True)
class SafeDsrConfig:
    """SafeDSR with the parameters of Table 2."""

    epsilon: EpsilonSchedule = EpsilonSchedule()
    multiplier: MultiplierConfig = MultiplierConfig()
    terminal: Literal["cut", "restart", "absorb"] = "cut"
    """What follows the goal: nothing (Alg. 2), the next episode's start, or the goal itself for ever."""
    gamma: float = 0.99
    """Discount factor."""
    batch_size: int = 256
    """Transitions of an update."""
    buffer_size: int = 25_000
    """Transitions that are remembered."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    train_start: int = 15_000
    """Environment steps before the first update."""
    train_every: int = 10
    """Environment steps between trainings."""
    update_steps: int = 10
    """Updates a training."""
    sync_every: int = 500
    """k_sync: environment steps between copies into the target networks."""
    freeze: int = 50_000
    """t_freeze: environment step from which φ and g stay as they are."""
    pretrain: int = 0
    """Updates of φ, g, w_r and w_c on random steps from anywhere on the map, before the first step (Sec. 5.4)."""
    beta_r: float = 0.25
    """Weight of the reward loss."""
    beta_c: float = 10.0
    """Weight of the cost loss."""
    beta_g: float = 5.0
    """Weight of the reconstruction loss."""
    biased_share: float = 0.2
    """Share of a feature batch that is drawn evenly over the values of reward and costs."""
    value_bins: int = 4
    """Bins that tell values of a reward or cost apart."""
    reservoir_size: int = 1000
    """Transitions of each bin that are remembered for ever."""
    features: int = 128
    """d: length of φ."""
    phi_hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of φ."""
    decoder_hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of g."""
    successor_hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers of M."""

    @property
    def period(self) -> int:
        """Environment steps after which the loop repeats itself."""
        return self.sync_every

    @property
    def aim(self) -> tuple[float, ...] | None:
        """The cost that λ steers to; None for the budget."""
        return self.multiplier.aim

    def __post_init__(self) -> None:
        check_fields(self)
        check_value_based(self)
        require(
            self.freeze >= self.train_start, "freeze", self.freeze, f"φ trains from {self.train_start} on; freeze later"
        )
        require(self.freeze % self.sync_every == 0, "freeze", self.freeze, f"give a multiple of {self.sync_every}")
        require(self.pretrain >= 0, "pretrain", self.pretrain, "give a number of updates of at least 0")
        require(0 <= self.biased_share < 1, "biased_share", self.biased_share, "give a share of at least 0 and below 1")
        for name in ("beta_r", "beta_c", "beta_g"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "give a value of at least 0")
        for name in ("value_bins", "reservoir_size", "features"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "give at least 1")


def check_value_based(config: Any) -> None:
    """What the settings of all value-based agents have to fulfil before anything is compiled."""
    require(0 <= config.gamma < 1, "gamma", config.gamma, "give a value of at least 0 and below 1")
    require(config.learning_rate > 0, "learning_rate", config.learning_rate, "give a value above 0")
    for name in ("batch_size", "buffer_size", "train_every", "update_steps", "sync_every"):
        require(getattr(config, name) >= 1, name, getattr(config, name), "give at least 1")
    size, every, sync = config.buffer_size, config.train_every, config.sync_every
    require(size >= config.batch_size, "buffer_size", size, f"it must hold a batch of {config.batch_size}")
    require(size % every == 0, "buffer_size", size, f"give a multiple of train_every ({every})")
    require(sync % every == 0, "sync_every", sync, f"give a multiple of train_every ({every})")
    start = config.train_start
    require(start >= sync, "train_start", start, f"collect at least {sync} steps before the first update")
    require(start % sync == 0, "train_start", start, f"give a multiple of sync_every ({sync})")


Matmul = Literal["float32", "tensorfloat32", "tensorfloat32x3"]


@dataclass(frozen=True)
class TrainConfig:
    """How long a training runs, how often it saves and how it computes."""

    steps: int = 500_000
    """Environment steps of each seed."""
    chunk: int | None = None
    """Environment steps of one compiled call, about 5000 if not given; between calls a run can be saved or stopped."""
    checkpoint_seconds: float = 60.0
    """Save the whole state at most this often (and always at the end)."""
    trajectories: int = 0
    """Keep the positions of this many last steps."""
    matmul: Matmul = "float32"
    """Precision of matrix products where there is a choice; tensorfloat32x3 is float32 made of three quick products."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.steps >= 1, "steps", self.steps, "give at least 1")
        if self.chunk is not None:
            require(self.chunk >= 1, "chunk", self.chunk, "give at least 1")
            require(self.steps % self.chunk == 0, "steps", self.steps, f"give a multiple of the chunk ({self.chunk})")
        require(self.checkpoint_seconds >= 0, "checkpoint_seconds", self.checkpoint_seconds, "give at least 0")
        require(0 <= self.trajectories <= self.steps, "trajectories", self.trajectories, "give at most the steps")
