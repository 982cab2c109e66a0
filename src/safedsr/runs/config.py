"""Settings of a training run. No JAX here."""

from dataclasses import dataclass

from safedsr.core.config import Matmul
from safedsr.validation import check_fields, require


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

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.steps >= 1, "steps", self.steps, "give at least 1")
        if self.chunk is not None:
            require(self.chunk >= 1, "chunk", self.chunk, "give at least 1")
            require(self.steps % self.chunk == 0, "steps", self.steps, f"give a multiple of the chunk ({self.chunk})")
        require(self.checkpoint_seconds >= 0, "checkpoint_seconds", self.checkpoint_seconds, "give at least 0")
        require(0 <= self.trajectories <= self.steps, "trajectories", self.trajectories, "give at most the steps")
