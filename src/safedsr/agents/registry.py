"""Name → algorithm; the only place that knows all of them. No JAX until a trainer is made."""

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from safedsr.agents.onpolicy.config import DEFAULTS, PRESETS
from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.safedqn.config import SafeDqnConfig
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.errors import unknown

if TYPE_CHECKING:
    from safedsr.envs.environment import Environment
    from safedsr.types import Trainer


class Algorithm(NamedTuple):
    """What the command line and the run folders need to know of an algorithm."""

    name: str
    about: str
    default: Any  # its settings
    maker: str  # module:function, called with the settings, the environment and, for a row of a table, the name
    costless: bool = False  # it takes no costs at all (J = 0)
    row: bool = False  # one of many in a table
    presets: Mapping[str, Mapping[str, Any]] = {"paper": {}}  # what each changes; the first is the default

    @property
    def config(self) -> type:
        """The type of its settings."""
        return type(self.default)

    def settings(self, preset: str | None = None) -> Any:
        """The settings of a preset, or the default ones."""
        if preset is None:
            return self.default
        if preset not in self.presets:
            raise unknown(f"preset of {self.name}", preset, self.presets)
        return replace(self.default, **self.presets[preset])


def _baseline(name: str, about: str) -> Algorithm:
    return Algorithm(name, about, DEFAULTS[name], "onpolicy.baselines:make_baseline", row=True, presets=PRESETS)


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "safedsr", "successor features, cost weights of their own", SafeDsrConfig(), "safedsr.trainer:make_safedsr"
        ),
        Algorithm(
            "safedsr-plus",
            "successor features over cells, the one to take",
            SafeDsrPlusConfig(),
            "plus.trainer:make_plus",
        ),
        Algorithm("safedqn", "Q-learning on r - λ·c", SafeDqnConfig(), "safedqn.trainer:make_safedqn"),
        Algorithm("dsr", "SafeDSR without costs", SafeDsrConfig(), "safedsr.trainer:make_safedsr", costless=True),
        Algorithm("dqn", "SafeDQN without costs", SafeDqnConfig(), "safedqn.trainer:make_safedqn", costless=True),
        _baseline("pdo", "policy gradient, λ by Adam"),
        _baseline("ppo-lag", "PPO, λ by Adam"),
        _baseline("cppo-pid", "PPO, λ by PID"),
        _baseline("ipo", "PPO, barrier on the cost"),
        _baseline("p3o", "PPO, hinge on the excess"),
        _baseline("rcpo", "natural gradient, λ by Adam"),
        _baseline("trpo-lag", "TRPO, λ by Adam"),
        _baseline("trpo-pid", "TRPO, λ by PID"),
        _baseline("oncrpo", "TRPO on the reward or, over the budget, on the cost"),
        _baseline("cpo", "constrained policy optimisation"),
        _baseline("pcpo", "projected CPO"),
        _baseline("pg", "policy gradient, costs ignored"),
        _baseline("ppo", "PPO, costs ignored"),
        _baseline("npg", "natural gradient, costs ignored"),
        _baseline("trpo", "TRPO, costs ignored"),
    )
}


def find_algorithm(name: str) -> Algorithm:
    """An algorithm by name."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


def make_trainer(name: str, config: Any, environment: "Environment") -> "Trainer":
    """The trainer of an algorithm with these settings."""
    algorithm = find_algorithm(name)
    module, _, function = algorithm.maker.partition(":")
    make = getattr(importlib.import_module(f"safedsr.agents.{module}"), function)
    return make(config, environment, name) if algorithm.row else make(config, environment)
