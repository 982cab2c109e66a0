"""Settings of the agent that learns many tasks in a row. No JAX here."""

from dataclasses import dataclass

from safedsr.core.config import MultiplierConfig
from safedsr.validation import check_fields, require

PART = 1000  # steps between two counts in the report of a task


@dataclass(frozen=True)
class TransferConfig:
    """An agent that learns one task after the other; ε, γ, steps and the length of episodes are those of SFT-CoP."""

    known: bool = True
    """The agent knows the reward of each kind of shape, and is told after each step what it led to: a shape of which
    kind, the goal, a trap or nothing. SFT-CoP's agents get the same. No agent is told where shapes and traps are."""
    steps: int = 20_000
    """Environment steps in each task."""
    epsilon: float = 0.12
    """Probability of a random action while the agent learns."""
    gamma: float = 0.95
    """Discount factor."""
    budget: float = 0.0
    """Largest allowed number of trap entries in an episode."""
    lam_start: float = 1.0
    """First λ."""
    lam_step: float = 0.1
    """λ rises by this after an episode over its budget."""
    lam_most: float = 2.0
    """Largest λ."""
    chance: float = 0.02
    """Share of episodes over the budget at which λ stays as it is."""
    states: int = 2**15
    """Largest number of states that the memory holds."""
    learn_every: int = 100
    """Environment steps between two rounds of learning."""
    sweeps: int = 1
    """Passes over the whole memory in a round of learning."""
    recent: int = 10
    """Passes over the states of the last steps in a round of learning, before those over the whole memory."""
    foresee: bool = True
    """Targets count the share ε of random actions that follow; if not, they are those of the greedy policy."""
    remember: bool = True
    """Steps of earlier tasks are kept; if not, only M and the stored policies are."""
    rehearse: int = 60
    """Passes over the memory at the start of a task, before its first step."""
    library: int = 6
    """Largest number of stored policies; 0 for none."""
    distinct: float = 0.1
    """A policy gets a free place if its actions differ from those of all stored ones in at least this share of states;
    otherwise it replaces the most similar one."""
    review: int = 4
    """Passes over the memory for each stored policy at the start of a task."""
    refresh: int = 1
    """How often in a task, at its start and then every 1 000 steps, new states get the mean of their cell anew."""
    settle: int = 60
    """Passes over the memory, for ε = 0 and without any worth of what is new, before an episode at ε = 0."""
    bonus: float = 0.1
    """Worth of an action that was never tried in a cell."""
    curiosity: float = 0.5
    """Without knowledge: rewards not yet met in a task count as their mean over earlier tasks plus this many standard
    deviations."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("epsilon", "distinct", "chance"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "give a share between 0 and 1")
        passes = ("review", "rehearse", "settle", "sweeps", "recent")
        for name in (*passes, "library", "refresh", "bonus", "curiosity", "lam_step"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "give at least 0")
        part = min(self.steps, PART)
        fits = self.learn_every >= 1 and part % self.learn_every == 0 and self.steps % part == 0
        advice = f"the first must divide {PART}, and that the second"
        require(fits, "learn_every, steps", (self.learn_every, self.steps), advice)

    @property
    def multiplier(self) -> MultiplierConfig:
        """The settings of λ's controller."""
        return MultiplierConfig(
            rule="chance",
            lam_start=self.lam_start,
            lam_step=self.lam_step,
            lam_most=self.lam_most,
            chance=self.chance,
        )
