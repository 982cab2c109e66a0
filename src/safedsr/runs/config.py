"""Settings of a training run. No JAX here."""

from dataclasses import dataclass

from safedsr.core.config import Matmul
from safedsr.validation import check_fields, require


@dataclass(frozen=True)
class TrainConfig:
    """How long a training runs, how often it saves and how it computes."""

    steps: int = 500_000
    """Environment steps of each seed."""
    chunk: int | None = None
    """Environment steps of one compiled call, about 5000 if not given; between calls a run can be saved or stopped."""
    checkpoint_seconds: float = 60.0
    """Save the whole state at most this often (and always at the end)."""
    trajectories: int = 0
    """Keep the positions of this many last steps."""
    matmul: Matmul = "float32"
    """Precision of matrix products where there is a choice; tensorfloat32x3 is float32 made of three quick products."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.steps >= 1, "steps", self.steps, "give at least 1")
        if self.chunk is not None:
            require(self.chunk >= 1, "chunk", self.chunk, "give at least 1")
            require(self.steps % self.chunk == 0, "steps", self.steps, f"give a multiple of the chunk ({self.chunk})")
        require(self.checkpoint_seconds >= 0, "checkpoint_seconds", self.checkpoint_seconds, "give at least 0")
        require(0 <= self.trajectories <= self.steps, "trajectories", self.trajectories, "give at most the steps")
