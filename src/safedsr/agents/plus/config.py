"""Settings of SafeDSR-plus. No JAX here, so that the command line can show its help without it."""

from dataclasses import dataclass

from safedsr.agents.value_based.config import ValueBasedSettings, check_value_based
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.validation import check_fields, require


@dataclass(frozen=True)
class SafeDsrPlusConfig(ValueBasedSettings):
    """SafeDSR-plus: successor features over codes of states, the reward and the costs. λ and losses are pure numbers:
    rewards are in units of the largest return that was observed, costs in units of their budgets."""

    epsilon: EpsilonSchedule = EpsilonSchedule(epsilon_from=None, epsilon_to=None)
    multiplier: MultiplierConfig = MultiplierConfig(
        rule="share",
        penalty_start=None,
        lam_start=0.25,
        after_goal=True,
        lam_step=0.02,
        penalty_most=0.2,
        tilt=0.1,
        chance=0.04,
    )
    gamma: float = 0.99
    """Discount factor."""
    batch_size: int = 256
    """Minibatch size."""
    even_share: float = 0.5
    """Share of a minibatch that is sampled uniformly over the groups of next states."""
    idle_share: float = 0.25
    """Share of a minibatch for transitions that left the observation unchanged, such as a push against a wall."""
    buffer_size: int = 50_000
    """Capacity of the replay memory for the latest transitions."""
    kept: int = 200
    """Transitions that are kept for each group of next states, a random sample of all that occurred."""
    learning_rate: float = 5e-4
    """Learning rate (Adam)."""
    train_start: int = 500
    """Environment steps before the first update."""
    train_every: int = 10
    """Environment steps between two rounds of updates."""
    update_steps: int = 2
    """Updates in each round."""
    sync_every: int = 500
    """Environment steps between two updates of the target network."""
    plan_epsilon: float = 0.25
    """ε assumed when targets are computed."""
    beta_m: float = 1e-4
    """Loss weight of the squared error of M, summed over groups."""
    beta_r: float = 1.0
    """Loss weight of the squared error of Q."""
    beta_c: float = 0.0625
    """Loss weight of the squared error of K as long as λ is at most λ₀; for a larger λ it grows with λ²."""
    bonus: float = 0.0
    """Weight of the novelty to come in the score until the first success; novelty is 1/√(1 + visits) of a code."""
    outcomes: bool = True
    """Reward and costs are features themselves, in units of what was observed; if not, their weights are the means of
    each code, and λ and the loss weights are in the units of rewards and costs."""
    own_groups: bool = True
    """The environment's own groups of states, such as the cells of a map, are the codes, if it has any."""
    points: int = 256
    """Number of points whose nearest is the code of a state, if no groups of the environment are used."""
    octaves: int = 6
    """Number of wavelengths (2, 4, 8 … group widths) of the sine and cosine inputs for each observation."""
    trunk: int = 128
    """Width of the hidden layer that all actions share."""
    head: int = 64
    """Width of the hidden layer of each action."""
    phi_batch: int = 64
    """Transitions of a minibatch that φ, the predictor of the next group, is trained on."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_value_based(self)
        for name in ("even_share", "idle_share", "plan_epsilon"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "give a share between 0 and 1")
        for name in ("beta_m", "beta_r", "beta_c", "bonus", "octaves"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "give a value of at least 0")
        for name in ("kept", "points", "trunk", "head"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "give at least 1")
        whole = self.even_share + self.idle_share
        require(whole <= 1, "even_share + idle_share", whole, "give shares that sum to at most 1")
        most = self.batch_size
        require(1 <= self.phi_batch <= most, "phi_batch", self.phi_batch, f"give 1 to {most}, the size of a batch")
