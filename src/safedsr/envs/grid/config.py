"""Settings of the grid's physics and of the oracle. No JAX here, so that the command line shows its help quickly."""

from dataclasses import dataclass

from safedsr.validation import check_fields, require

GRID = "grid"  # the name of the environment in config.json
LONGEST = 2**24  # steps of an episode; float32 counts them exactly up to here
DEFAULT_BUDGET = "5"  # of every cost, the paper's


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
        limit = self.time_limit
        require(1 <= limit <= LONGEST, "time_limit", limit, f"give a number of steps from 1 to {LONGEST}")


@dataclass(frozen=True)
class OracleConfig:
    """How finely the oracle plans, and how many steps its policy is run for."""

    gamma: float = 0.99
    """Discount factor used for planning."""
    subcells: int = 8
    """Sub-cells along each side of a cell."""
    noise_points: int = 7
    """Points of the quadrature over the step length."""
    sweeps: int = 1000
    """Maximum number of sweeps of value iteration; it stops once no value changes by more than `tolerance`."""
    tolerance: float = 1e-5
    """Largest change of a value at which value iteration stops."""
    plan_epsilon: float = 0.0
    """ε assumed when the oracle plans; the last ε of the schedule gives the stronger reference."""
    steps: int = 500_000
    """Environment steps of one run of the policy."""
    walks: int = 16
    """Independent runs that are averaged."""
    seed: int = 0
    """Seed of these runs."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(0 <= self.seed < 2**32, "seed", self.seed, "give a number from 0 to 2³² - 1")
        require(self.noise_points <= 64, "noise_points", self.noise_points, "give at most 64")
        require(0 < self.gamma < 1, "gamma", self.gamma, "give a value between 0 and 1")
        for name in ("subcells", "noise_points", "sweeps", "steps", "walks"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "give at least 1")
        require(0 <= self.plan_epsilon <= 1, "plan_epsilon", self.plan_epsilon, "give a share between 0 and 1")
        require(self.tolerance > 0, "tolerance", self.tolerance, "give a value above 0")
