"""Settings of an adaptation. No JAX here, so that the command line can show its help without it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from safedsr.validation import check_fields, require

LEVELS = ("cost", "penalty", "memory", "full")

Tell = Callable[[str, float], None]  # (what is done now, share of it that is done); an error raised there stops it


def silent(what: str, share: float) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class CertificateConfig:
    """How a certificate is computed."""

    episodes: int | None = None
    """Maximum number of episodes; the test stops early if it can no longer pass. If not given, 10 000 simulated ones,
    or 1 000 in a Gymnasium environment or in walks through the replay memory."""
    confidence: float = 0.95
    """Confidence level of each one-sided bound."""
    require: float = 0.9
    """The certificate is given if at least this share of episodes reaches the goal within the budget (without a goal:
    stays within it). If budgets are for means, the bounds of the means decide instead."""
    epsilon: float = 0.0
    """ε of the policy: share of random actions."""
    episode_seed: int = 1
    """Seed of the episodes; it differs from the seed of the search for λ."""

    def __post_init__(self) -> None:
        check_fields(self, large=("episodes",))
        require(self.episodes is None or self.episodes >= 2, "episodes", self.episodes, "give at least 2")
        require(0 < self.confidence < 1, "confidence", self.confidence, "give a share between 0 and 1")
        require(0 <= self.require < 1, "require", self.require, "give a share of at least 0 and below 1")
        require(0 <= self.epsilon <= 1, "epsilon", self.epsilon, "give a share between 0 and 1")
        require(0 <= self.episode_seed < 2**32, "episode_seed", self.episode_seed, "give a number from 0 to 2³² - 1")

    def count(self, *, few: bool) -> int:
        """Maximum number of episodes; fewer where they take longer, on the host and in walks through memory."""
        return self.episodes or (1_000 if few else 10_000)


@dataclass(frozen=True)
class ClimbConfig:
    """Limits of each adaptation level."""

    penalty: Literal["search", "learn"] = "search"
    """How λ is found: by a search over simulated episodes, or by the agent's own update rule, as in the paper."""
    penalty_steps: int = 100_000
    """Environment steps in which the agent's own rule updates λ."""
    updates: int = 5_000
    """Maximum number of updates of M from the replay memory."""
    steps: int = 100_000
    """Maximum number of environment steps at the level 'full'."""
    highest: Literal["cost", "penalty", "memory", "full"] = "full"
    """Highest level that 'auto' goes to."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("penalty_steps", "updates", "steps"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "give at least 1")
