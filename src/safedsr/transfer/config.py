"""Settings of the agents that learn many tasks in a row. No JAX here."""

from dataclasses import dataclass

from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
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
    """Passes over the memory, for ε = 0 and without any worth of what is new, before an episode at ε = 0; with 0 it
    acts by M as it is."""
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


@dataclass(frozen=True)
class NetworkConfig:
    """SafeDSR-plus with its network; the agent knows what `TransferConfig.known` says.

    What is not named here is a default of SafeDSR-plus. λ and its limits are in units of the largest return so far.
    """

    steps: int = 20_000
    """Environment steps in each task."""
    epsilon: float = 0.12
    """Probability of a random action while the agent learns; targets count it."""
    gamma: float = 0.95
    """Discount factor."""
    budget: float = 0.0
    """Largest allowed number of trap entries in an episode."""
    lam_start: float = 0.25
    """First λ."""
    lam_step: float = 0.1
    """λ rises by this after an episode over its budget."""
    lam_most: float = 0.5
    """Largest λ."""
    chance: float = 0.02
    """Share of episodes over the budget at which λ stays as it is."""
    beta_c: float = 0.0625
    """Loss weight of the squared error of K for λ up to the first one: its square, as in the score."""
    beta_m: float = 1e-4
    """Loss weight of the squared error of M's codes."""
    learning_rate: float = 1e-3
    """Learning rate (Adam)."""
    update_steps: int = 4
    """Updates in each ten steps."""
    batch_size: int = 128
    """Minibatch size."""
    sync_every: int = 100
    """Environment steps between two updates of the target network."""
    octaves: int = 6
    """Wavelengths of the sine and cosine inputs for the row and the column; 0 for none."""
    buffer_size: int = 50_000
    """Steps that the memory holds."""

    def __post_init__(self) -> None:
        check_fields(self)
        whole = self.steps >= 1 and self.steps % PART == 0
        require(whole, "steps", self.steps, f"give a multiple of {PART}")

    @property
    def chunk(self) -> int:
        """Environment steps of one compiled call: as many as there are before the first update."""
        return self.agent.train_start

    @property
    def agent(self) -> SafeDsrPlusConfig:
        """The settings of SafeDSR-plus."""
        return SafeDsrPlusConfig(
            epsilon=EpsilonSchedule(self.epsilon, self.epsilon, 0, 0),
            multiplier=MultiplierConfig(
                rule="chance",
                penalty_start=0,
                lam_start=self.lam_start,
                lam_step=self.lam_step,
                lam_most=self.lam_most,
                chance=self.chance,
            ),
            plan_epsilon=self.epsilon,
            gamma=self.gamma,
            beta_c=self.beta_c,
            beta_m=self.beta_m,
            learning_rate=self.learning_rate,
            update_steps=self.update_steps,
            batch_size=self.batch_size,
            phi_batch=1,  # φ predicts codes for adaptation without steps; nothing uses it here
            sync_every=self.sync_every,
            octaves=self.octaves,
            buffer_size=self.buffer_size,
        )
