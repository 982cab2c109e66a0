"""Settings of SafeDSR (Table 2). No JAX here."""

from dataclasses import dataclass
from typing import Literal

from safedsr.agents.value_based.config import ValueBasedSettings, check_value_based
from safedsr.core.config import EpsilonSchedule, MultiplierConfig, check_latest
from safedsr.validation import check_fields, require


@dataclass(frozen=True)
class SafeDsrConfig(ValueBasedSettings):
    """SafeDSR with the parameters of Table 2."""

    epsilon: EpsilonSchedule = EpsilonSchedule()
    multiplier: MultiplierConfig = MultiplierConfig()
    terminal: Literal["cut", "cut-all", "restart", "restart-goal", "absorb"] = "cut"
    """Successor of the goal in M's target: none (cut, Alg. 2), the next start (restart) or the goal itself (absorb).
    With cut-all and restart, the time limit is treated like the goal; not so with restart-goal."""
    gamma: float = 0.99
    """Discount factor."""
    batch_size: int = 256
    """Minibatch size."""
    buffer_size: int = 25_000
    """Capacity of the replay memory."""
    learning_rate: float = 1e-3
    """Learning rate (Adam)."""
    train_start: int = 15_000
    """Environment steps before the first update."""
    train_every: int = 10
    """Environment steps between two rounds of updates."""
    update_steps: int = 10
    """Updates in each round."""
    sync_every: int = 500
    """k_sync: environment steps between two updates of the target networks."""
    freeze: int = 50_000
    """t_freeze: environment step from which φ and g are frozen."""
    pretrain: int = 0
    """Updates of φ, g, w_r and w_c on random transitions from all states, before training (Sec. 5.4)."""
    pretrain_labels: bool = True
    """Pretrain on rewards and costs, too; if false, on the reconstruction alone."""
    beta_r: float = 0.25
    """Weight of the reward loss."""
    beta_c: float = 10.0
    """Weight of the cost loss."""
    beta_g: float = 5.0
    """Weight of the reconstruction loss."""
    biased_share: float = 0.2
    """Share of a feature minibatch that is sampled uniformly over the values of reward and costs."""
    value_bins: int = 4
    """Number of bins for the values of the reward and of each cost."""
    reservoir_size: int = 1000
    """Transitions that are kept for each bin, a random sample of all that occurred."""
    unit_length: bool = True
    """Scale φ to length 1 (Sec. 4.2)."""
    weight_bias: bool = False
    """Fit reward and costs with a bias besides w_r and w_c. It takes no part in Q and K."""
    target_features: bool = True
    """Use the target network of φ in M's target (Alg. 2); if false, φ itself."""
    features: int = 128
    """d: length of φ."""
    phi_hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of φ."""
    decoder_hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of g."""
    successor_hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers of M."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_value_based(self)
        check_latest(self, "freeze")
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
