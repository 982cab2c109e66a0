"""What the settings of SafeDQN, SafeDSR and SafeDSR-plus have in common. No JAX here."""

from typing import Any

from safedsr.validation import require


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


def settled(config: Any) -> int:
    """An environment step at which λ is tuned, ε has reached its end and the ring is full."""
    return max(config.multiplier.penalty_start, config.epsilon.epsilon_to, config.buffer_size)
