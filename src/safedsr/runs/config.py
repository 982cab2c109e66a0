"""Settings of a training run, and the terms on which its episodes are judged. No JAX here."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from safedsr.agents.value_based.config import ValueBasedSettings
from safedsr.core.config import Matmul, for_mean
from safedsr.validation import check_fields, require

EPISODE, DISCOUNTED_MEAN = "episode", "discounted-mean"
BUDGET_KINDS = (EPISODE, DISCOUNTED_MEAN)
MOST_CHUNK = 100_000_000  # the memory that a chunk needs is checked too


@dataclass(frozen=True)
class TrainConfig:
    """Length of a training run, checkpoints and numerical precision."""

    steps: int = 500_000
    """Environment steps of each seed."""
    chunk: int | None = None
    """Environment steps of one compiled call, about 5000 if not given; the run is saved or stopped between calls."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints; one is always written at the end."""
    trajectories: int = 0
    """Number of last steps whose positions are saved."""
    matmul: Matmul = "float32"
    """Precision of matrix products on accelerators; tensorfloat32x3 is float32 made of three fast products."""
    copies: int | None = None
    """Copies of a Gymnasium environment for each seed, which step together; up to 8 if not given."""
    processes: int | None = None
    """Processes that step these copies, 0 for none; if not given, one for each core if a step takes more than 1 ms."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Also send the rows of progress.csv to TensorBoard (files in the run folder) or to Weights & Biases."""

    def __post_init__(self) -> None:
        check_fields(self, large=("steps", "trajectories"))
        require(self.steps >= 1, "steps", self.steps, "give at least 1")
        if self.chunk is not None:
            require(1 <= self.chunk <= MOST_CHUNK, "chunk", self.chunk, f"give a number from 1 to {MOST_CHUNK}")
            require(self.steps % self.chunk == 0, "steps", self.steps, f"give a multiple of the chunk ({self.chunk})")
        require(self.copies is None or self.copies >= 1, "copies", self.copies, "give at least 1")
        require(self.processes is None or self.processes >= 0, "processes", self.processes, "give at least 0")
        require(self.checkpoint_seconds >= 0, "checkpoint_seconds", self.checkpoint_seconds, "give at least 0")
        require(0 <= self.trajectories <= self.steps, "trajectories", self.trajectories, "give at most the steps")


class Terms(NamedTuple):
    """The terms on which episodes are judged; those of the grid if nothing else is said."""

    success: bool = True
    """Whether episodes can succeed; if not, every finished episode counts as a success."""
    budget_kind: str = EPISODE
    """A budget for the cost of each episode, or for the mean of the discounted costs."""

    @property
    def goals(self) -> bool:
        """Whether safe goals count; else safety is a condition and the return is what counts."""
        return self.success and not self.on_mean

    @property
    def on_mean(self) -> bool:
        """Whether budgets are for the mean of the discounted costs."""
        return self.budget_kind == DISCOUNTED_MEAN


def terms_of(config: Mapping[str, Any]) -> Terms:
    """The terms of the run that wrote this config.json."""
    return Terms(config.get("environment", {}).get("success", True), config.get("budget_kind", EPISODE))


def agent_for(budget_kind: str, steps: int, agent: Any, presets: Collection[Any]) -> Any:
    """The settings of an agent for a kind of budget (see `for_mean`) and a run of that many steps.

    `presets` are the settings of the algorithm's presets.
    """
    if not isinstance(agent, ValueBasedSettings):
        return agent
    multiplier = agent.multiplier
    if budget_kind != EPISODE:
        multiplier = for_mean(multiplier, [one.multiplier for one in presets])
    return replace(agent, epsilon=agent.epsilon.over(steps), multiplier=multiplier.over(steps))  # type: ignore[type-var]
