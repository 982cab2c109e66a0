"""Checks and properties that the settings of SafeDQN, SafeDSR and SafeDSR-plus share. No JAX here."""

from typing import Any

from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.validation import require


class ValueBasedSettings:
    """Properties of the settings of every value-based agent."""

    epsilon: EpsilonSchedule
    multiplier: MultiplierConfig
    buffer_size: int
    train_start: int
    sync_every: int

    @property
    def period(self) -> int:
        """Environment steps of one period of the training loop."""
        return self.sync_every

    @property
    def aim(self) -> tuple[float, ...] | None:
        """The target cost of λ's update rule; None for the budget."""
        return self.multiplier.aim

    @property
    def settled(self) -> int:
        """An environment step at which λ is updated, ε has reached its end value and the ring is full."""
        return max(self.multiplier.begins, self.epsilon.span[1], self.buffer_size)

    def check_steps(self, steps: int, algorithm: str) -> None:
        """Raise if a run of that many steps would learn nothing."""
        del algorithm
        advice = f"learning starts at {self.train_start} (train_start): train longer, or start earlier"
        require(steps > self.train_start, "steps", steps, advice)


def check_value_based(config: Any) -> None:
    """Check the settings that all value-based agents share."""
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
