"""Name → algorithm; the only place that knows all of them. No JAX until a trainer is made."""

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from safedsr.config import GridConfig, SafeDqnConfig, SafeDsrConfig
from safedsr.errors import unknown

if TYPE_CHECKING:
    from safedsr.types import Trainer


class Algorithm(NamedTuple):
    """What the command line and the run folders need to know of an algorithm."""

    name: str
    about: str
    config: type
    maker: str  # module:function
    costless: bool = False  # it takes no costs at all (J = 0)


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "safedsr",
            "successor features; costs as weights of their own (Alg. 2)",
            SafeDsrConfig,
            "safedsr:make_safedsr",
        ),
        Algorithm("safedqn", "Q-learning on r - λ·c (Alg. 1)", SafeDqnConfig, "safedqn:make_safedqn"),
        Algorithm("dsr", "SafeDSR without costs", SafeDsrConfig, "safedsr:make_safedsr", costless=True),
        Algorithm("dqn", "SafeDQN without costs", SafeDqnConfig, "safedqn:make_safedqn", costless=True),
    )
}


def find_algorithm(name: str) -> Algorithm:
    """An algorithm by name."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


def make_trainer(name: str, config: Any, grid_config: GridConfig) -> "Trainer":
    """The trainer of an algorithm with these settings."""
    module, _, function = find_algorithm(name).maker.partition(":")
    return getattr(importlib.import_module(f"safedsr.{module}"), function)(config, grid_config)
