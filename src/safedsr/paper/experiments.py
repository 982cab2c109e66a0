"""The experiments of Sec. 5.3 as data: a row is a set of algorithms with the same maps, costs, seeds and settings."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from safedsr.envs.grid.catalog import ROOM_NAMES

BUDGET = "5"
LAGRANGIAN = ("pdo", "ppo-lag", "rcpo", "trpo-lag")
ON_POLICY = ("pdo", "ppo-lag", "cppo-pid", "ipo", "p3o", "rcpo", "trpo-lag", "trpo-pid", "oncrpo", "cpo", "pcpo")
AS_IS: Mapping[str, Any] = MappingProxyType({})


class RunGroup(NamedTuple):
    """Some algorithms, each with its own run folder. Settings have the names of their flags."""

    name: str  # added to the algorithm's name, for the folder
    algorithms: tuple[str, ...]
    layouts: tuple[str, ...] = ROOM_NAMES
    costs: tuple[str, ...] = ("none", "diamond")
    seeds: int = 10
    steps: int = 500_000
    trajectories: int = 0  # number of last steps whose positions are saved
    settings: Mapping[str, Any] = AS_IS
    preset: str = "paper"
    budget: str = BUDGET
    first_seed: int = 0

    def folder(self, algorithm: str) -> str:
        """The name of an algorithm's run folder."""
        return "-".join(filter(None, (algorithm, self.name)))


FRESH = 200  # the first seed that was not used in the development of SafeDSR-plus
# Each ablation removes one part of SafeDSR-plus.
ABLATIONS: dict[str, dict[str, Any]] = {
    "m-alone": {"beta_r": 0.0, "beta_c": 0.0, "beta_m": 1.0},  # only the loss of M
    "values-alone": {"beta_m": 0.0},  # only the losses of the values
    "no-waves": {"octaves": 0},
    "greedy-target": {"plan_epsilon": 0.0},
    "uniform-replay": {"even_share": 0.0},
    "no-wait": {"after_goal": False},
    "paper-penalty": {"rule": "proportional", "lam_start": 0.0, "after_goal": False},
}
_PLUS: dict[str, Any] = {"algorithms": ("safedsr-plus",), "first_seed": FRESH, "preset": "cells"}


EXPERIMENTS: dict[str, tuple[RunGroup, ...]] = {
    "baselines": (  # Tables 3 to 7, Figs. 4 to 7 and 14 to 22
        # Doubled costs are not in the paper's text, but its baselines may have had them.
        RunGroup("", ON_POLICY, costs=("none", "diamond", "2*diamond"), trajectories=100_000),
        RunGroup("", ("safedqn",), trajectories=100_000),
        RunGroup("", ("safedsr",), trajectories=100_000),
        RunGroup("absorb", ("safedsr",), trajectories=100_000, settings={"terminal": "absorb"}),
    ),
    "extras": (  # mentioned in the text of Sec. 5.3
        RunGroup("five-times", ON_POLICY, costs=("diamond",), steps=2_500_000, settings={"decay_steps": 2_500_000}),
        RunGroup("long", ("safedqn",), ("two-rooms",), ("diamond",), steps=2_500_000),
        RunGroup("late-penalty", LAGRANGIAN, costs=("diamond",), settings={"penalty_start": 100_000}),
        RunGroup("no-delay", ("safedsr",), costs=("diamond",), settings={"penalty_start": 0}),
        RunGroup(
            "absorb-no-delay", ("safedsr",), costs=("diamond",), settings={"terminal": "absorb", "penalty_start": 0}
        ),
    ),
    "plus": (  # SafeDSR-plus, which is not in the paper
        RunGroup("", costs=("none", "diamond", "square", "small-diamond", "inverse-diamond"), **_PLUS),
        RunGroup("two-costs", costs=("diamond,square",), budget="5,10", **_PLUS),
        RunGroup("four-rooms", layouts=("rooms-4",), costs=("diamond", "inverse-diamond"), **_PLUS),
        RunGroup("tight", costs=("diamond",), budget="2", **_PLUS),
        *(RunGroup(name, costs=("diamond",), settings=settings, **_PLUS) for name, settings in ABLATIONS.items()),
    ),
}

TIMES = {
    "baselines": "--quick about 8 minutes on two cores; --full half an hour on an NVIDIA H200, three days on two cores",
    "plus": "--quick about 8 minutes on two cores; --full an hour on an NVIDIA H200, seven hours on two cores (both "
    "estimated)",
    "extras": "--quick about 10 minutes on two cores; --full an hour on an NVIDIA H200, two days on two cores",
}

SHORTENING = 50  # --quick divides environment steps, and the settings that count them, by this
COUNTS_STEPS = ("decay_steps", "penalty_start")
_QUICK_VALUE_BASED = {"epsilon_from": 400, "epsilon_to": 2_000, "penalty_start": 2_000, "train_start": 500}
QUICK_SETTINGS: dict[str, dict[str, Any]] = {
    **{algorithm: {"steps_per_epoch": 2_000, "decay_steps": 10_000} for algorithm in ON_POLICY},
    "safedqn": _QUICK_VALUE_BASED,
    "safedsr-plus": _QUICK_VALUE_BASED,
    "safedsr": {**_QUICK_VALUE_BASED, "freeze": 2_500, "update_steps": 2, "batch_size": 64},
}


def shorten(row: RunGroup) -> RunGroup:
    """The group with two seeds and 1/50 of the steps, for tests only: its numbers are not comparable with others."""
    settings = {name: value // SHORTENING if name in COUNTS_STEPS else value for name, value in row.settings.items()}
    shorter = {name: getattr(row, name) // SHORTENING for name in ("steps", "trajectories")}
    return row._replace(seeds=2, settings=settings, **shorter)
