"""Settings of SafeDQN (Table 1). No JAX here."""

from dataclasses import dataclass

from safedsr.agents.value_based.config import ValueBasedSettings, check_value_based
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.validation import check_fields


@dataclass(frozen=True)
class SafeDqnConfig(ValueBasedSettings):
    """SafeDQN with the parameters of Table 1."""

    epsilon: EpsilonSchedule = EpsilonSchedule()
    multiplier: MultiplierConfig = MultiplierConfig()
    gamma: float = 0.99
    """Discount factor."""
    batch_size: int = 128
    """Minibatch size."""
    buffer_size: int = 10_000
    """Capacity of the replay memory."""
    learning_rate: float = 2.5e-4
    """Learning rate (Adam)."""
    train_start: int = 10_000
    """Environment steps before the first update."""
    train_every: int = 10
    """Environment steps between two rounds of updates."""
    update_steps: int = 1
    """Updates in each round."""
    sync_every: int = 500
    """k_sync: environment steps between two updates of the target network."""
    hidden: tuple[int, ...] = (120, 84)
    """Widths of the hidden layers of Q."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_value_based(self)
