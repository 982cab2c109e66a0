"""All algorithms by name. JAX is not imported until a trainer is made."""

import importlib
from collections.abc import Iterable, Mapping
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
    """An algorithm as the command line and the run folders see it."""

    name: str
    about: str
    group: str  # heading in the list of algorithms
    default: Any  # its settings
    maker: str  # module:function, called with the settings, the environment and, if `by_name`, the name
    costless: bool = False  # it takes no costs at all (J = 0)
    by_name: bool = False  # the maker makes several algorithms
    presets: Mapping[str, Mapping[str, Any]] = {"paper": {}}  # settings that each preset changes; the default is first

    @property
    def config(self) -> type:
        """The type of its settings."""
        return type(self.default)

    @property
    def all_settings(self) -> list[Any]:
        """The settings of all presets."""
        return [self.settings(name) for name in self.presets]

    def settings(self, preset: str | None = None) -> Any:
        """The settings of a preset, or the default ones."""
        if preset is None:
            return self.default
        if preset not in self.presets:
            raise unknown(f"preset of {self.name}", preset, self.presets)
        return replace(self.default, **self.presets[preset])


PRESET_HELP = {
    "recommended": "the settings for new environments",
    "paper": "the settings of the paper",
    "omnisafe": "OmniSafe's settings and formulas, with its mistakes, to compare with it",
    "repaired": "the same settings with these mistakes repaired, a fairer baseline",
}
OURS = "our agent (not in the paper)"
PAPER = "agents of the paper"
COSTLESS = "agents without costs (they take no --costs)"
BASELINES = "on-policy baselines with a cost budget"
UNCONSTRAINED = "on-policy baselines that ignore costs"


def _baseline(name: str, about: str, group: str = BASELINES) -> Algorithm:
    maker = "onpolicy.baselines:make_baseline"
    return Algorithm(name, about, group, DEFAULTS[name], maker, by_name=True, presets=PRESETS)


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "safedsr-plus",
            "successor features over codes, reward and costs (recommended)",
            OURS,
            SafeDsrPlusConfig(),
            "plus.trainer:make_plus",
            presets={"recommended": {}},
        ),
        Algorithm(
            "safedsr",
            "successor features, with weights for reward and costs",
            PAPER,
            SafeDsrConfig(),
            "safedsr.trainer:make_safedsr",
        ),
        Algorithm(
            "safedqn",
            "Q-learning on the reward minus λ times the cost",
            PAPER,
            SafeDqnConfig(),
            "safedqn.trainer:make_safedqn",
        ),
        Algorithm(
            "dsr", "SafeDSR without costs", COSTLESS, SafeDsrConfig(), "safedsr.trainer:make_safedsr", costless=True
        ),
        Algorithm(
            "dqn", "SafeDQN without costs", COSTLESS, SafeDqnConfig(), "safedqn.trainer:make_safedqn", costless=True
        ),
        _baseline("pdo", "policy gradient with a Lagrange multiplier updated by Adam"),
        _baseline("ppo-lag", "PPO with a Lagrange multiplier updated by Adam"),
        _baseline("cppo-pid", "PPO with a Lagrange multiplier set by a PID controller"),
        _baseline("ipo", "PPO with a barrier function for the cost budget"),
        _baseline("p3o", "PPO with a penalty on the cost above the budget"),
        _baseline("rcpo", "natural gradient with a Lagrange multiplier updated by Adam"),
        _baseline("trpo-lag", "TRPO with a Lagrange multiplier updated by Adam"),
        _baseline("trpo-pid", "TRPO with a Lagrange multiplier set by a PID controller"),
        _baseline("oncrpo", "TRPO on the reward, or on the cost while it is over budget"),
        _baseline("cpo", "constrained policy optimisation"),
        _baseline("pcpo", "CPO with a projection onto the cost constraint"),
        _baseline("pg", "policy gradient; costs are ignored", UNCONSTRAINED),
        _baseline("ppo", "PPO; costs are ignored", UNCONSTRAINED),
        _baseline("npg", "natural policy gradient; costs are ignored", UNCONSTRAINED),
        _baseline("trpo", "TRPO; costs are ignored", UNCONSTRAINED),
    )
}


def find_algorithm(name: str) -> Algorithm:
    """An algorithm by name."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


def preset_help(names: Iterable[str]) -> str:
    """Help for a choice of presets."""
    each = "; ".join(f"{name}: {PRESET_HELP[name]}" for name in names)
    return f"Named settings to start from; the flags below change single settings. {each}."


def make_trainer(name: str, config: Any, environment: "Environment") -> "Trainer":
    """The trainer of an algorithm with these settings."""
    algorithm = find_algorithm(name)
    module, _, function = algorithm.maker.partition(":")
    make = getattr(importlib.import_module(f"safedsr.agents.{module}"), function)
    return make(config, environment, name) if algorithm.by_name else make(config, environment)
