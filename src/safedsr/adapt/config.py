"""Settings of an adaptation. No JAX here, so that the command line can show its help without it."""

from dataclasses import dataclass
from typing import Literal

from safedsr.validation import check_fields, require

LEVELS = ("cost", "penalty", "memory", "full")


@dataclass(frozen=True)
class CertificateConfig:
    """What a certificate is made of."""

    episodes: int = 10_000
    """Most simulated episodes; fewer once it is certain that it fails."""
    confidence: float = 0.95
    """Confidence of each bound, one-sided."""
    require: float = 0.9
    """It passes if at least this share of all episodes reaches the goal within the budget."""
    epsilon: float = 0.0
    """Share of random actions."""
    episode_seed: int = 1
    """Seed of the episodes; another one than the search for λ uses."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.episodes >= 2, "episodes", self.episodes, "give at least 2")
        require(0 < self.confidence < 1, "confidence", self.confidence, "give a share between 0 and 1")
        require(0 <= self.require < 1, "require", self.require, "give a share of at least 0 and below 1")
        require(0 <= self.epsilon <= 1, "epsilon", self.epsilon, "give a share between 0 and 1")
        require(0 <= self.episode_seed < 2**32, "episode_seed", self.episode_seed, "give a number from 0 to 2³² - 1")


@dataclass(frozen=True)
class ClimbConfig:
    """How much each rung may spend."""

    penalty: Literal["search", "learn"] = "search"
    """λ from a search over simulated episodes, or learnt on-policy with the agent's own rule, as in the paper."""
    penalty_steps: int = 100_000
    """Environment steps of learning λ on-policy."""
    updates: int = 5_000
    """Most updates of M from memory."""
    steps: int = 100_000
    """Most environment steps of the full rung."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("penalty_steps", "updates", "steps"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "give at least 1")
