"""Settings of SafeDSR-plus. No JAX here, so that the command line can show its help without it."""

from dataclasses import dataclass

from safedsr.agents.value_based.config import ValueBasedSettings, check_value_based
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.validation import check_fields, require


@dataclass(frozen=True)
class SafeDsrPlusConfig(ValueBasedSettings):
    """SafeDSR-plus: successor features over the cells of the map."""

    epsilon: EpsilonSchedule = EpsilonSchedule()
    multiplier: MultiplierConfig = MultiplierConfig(
        rule="chance", lam_start=0.05, after_goal=True, lam_step=0.001, lam_most=0.05, chance=0.02
    )
    gamma: float = 0.99
    """Discount factor."""
    batch_size: int = 256
    """Transitions of an update."""
    even_share: float = 0.5
    """Share of a batch that is drawn evenly over the cells in which steps ended."""
    buffer_size: int = 50_000
    """Latest transitions that are remembered."""
    kept: int = 200
    """Transitions of each cell that are remembered for ever."""
    learning_rate: float = 5e-4
    """Adam's step size."""
    train_start: int = 500
    """Environment steps before the first update."""
    train_every: int = 10
    """Environment steps between trainings."""
    update_steps: int = 1
    """Updates a training."""
    sync_every: int = 500
    """Environment steps between copies into the target network."""
    plan_epsilon: float = 0.25
    """Share of random actions that targets reckon with."""
    beta_m: float = 1e-4
    """Weight of M's squared error, summed over cells."""
    beta_r: float = 1.0
    """Weight of the squared error of the reward to come."""
    beta_c: float = 0.0025
    """Weight of the squared error of the cost to come; about λ²."""
    points: int = 256
    """Points that states are grouped by, where the environment has no groups of its own (the grid has its cells)."""
    octaves: int = 6
    """Wavelengths of the position that M and φ see as waves: 2, 4, 8 … cells; 0 for the position alone."""
    trunk: int = 128
    """Width of the layer that all actions share."""
    head: int = 64
    """Width of each action's layer."""
    phi_batch: int = 64
    """Transitions of a batch that φ, the forecast of the next cell, learns from."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_value_based(self)
        for name in ("even_share", "plan_epsilon"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "give a share between 0 and 1")
        for name in ("beta_m", "beta_r", "beta_c", "octaves"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "give a value of at least 0")
        for name in ("kept", "points", "trunk", "head"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "give at least 1")
        most = self.batch_size
        require(1 <= self.phi_batch <= most, "phi_batch", self.phi_batch, f"give 1 to {most}, the size of a batch")
