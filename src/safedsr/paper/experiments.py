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
    preset: str | None = "paper"  # None: the algorithm's usual settings
    budget: str = BUDGET
    first_seed: int = 0
    grid: Mapping[str, Any] = AS_IS  # rewards other than the paper's

    def folder(self, algorithm: str) -> str:
        """The name of an algorithm's run folder."""
        return "-".join(filter(None, (algorithm, self.name)))


PLUS = "safedsr-plus"
FRESH = 110  # the first of ten seeds that had no part in any choice of SafeDSR-plus
# The same problem in other units (costs, budget, rewards), and problems with shifted rewards.
UNITS: dict[str, dict[str, Any]] = {
    "costs-tenth": {"costs": ("0.1*diamond",), "budget": "0.5"},
    "costs-ten": {"costs": ("10*diamond",), "budget": "50"},
    "costs-thousand": {"costs": ("1000*diamond",), "budget": "5000"},
    "rewards-tenth": {"grid": {"step_reward": -0.001, "goal_reward": 0.1}},
    "rewards-ten": {"grid": {"step_reward": -0.1, "goal_reward": 10.0}},
    "both": {"costs": ("10*diamond",), "budget": "50", "grid": {"step_reward": -0.001, "goal_reward": 0.1}},
}
SHIFTED: dict[str, dict[str, Any]] = {
    "step-large": {"grid": {"step_reward": -0.05}},
    "step-zero": {"grid": {"step_reward": 0.0}},
    "goal-ten": {"grid": {"goal_reward": 10.0}},
}
# λ rule, updates, batches and memory of SafeDSR-plus, for the agents that it is compared with; ε is the same already.
MATCHED: dict[str, Any] = {
    "rule": "share",
    "lam_start": 0.25,
    "after_goal": True,
    "lam_step": 0.02,
    "chance": 0.03,
    "tilt": 0.2,
    "train_every": 10,
    "update_steps": 2,
    "batch_size": 256,
    "buffer_size": 50_000,
}
# Q and K alone, after Schmidt et al. (2022): a single code, and a uniform sample of all transitions for adaptation.
HEADS: dict[str, Any] = {"own_groups": False, "points": 1, "even_share": 0.0, "beta_m": 0.0, "kept": 50_000}
# Each ablation changes one part of SafeDSR-plus.
ABLATIONS: dict[str, dict[str, Any]] = {
    "heads": HEADS,
    "no-outcomes": {"outcomes": False},  # neither reward nor costs among the features
    **{f"points-{count}": {"own_groups": False, "points": count} for count in (32, 64, 256, 1024)},
    "m-alone": {"beta_r": 0.0, "beta_c": 0.0, "beta_m": 1.0},  # only the loss of M
    "values-alone": {"beta_m": 0.0},  # only the losses of the values
    "no-waves": {"octaves": 0},
    "greedy-target": {"plan_epsilon": 0.0},
    "uniform-replay": {"even_share": 0.0},
    "no-idle": {"idle_share": 0.0},
    "no-wait": {"after_goal": False},
    # Eq. (16) with the paper's step size, which is 0.001 in the units of the grid: rewards of 1 and budgets of 5.
    "paper-penalty": {"rule": "proportional", "lam_start": 0.0, "after_goal": False, "lam_lr": 0.025},
}
# Costs besides the diamond; the last three have a finer raster than the walls.
PLUS_COSTS = ("none", "square", "small-diamond", "inverse-diamond", "offset-diamond", "discs", "stripes")
_PLUS: dict[str, Any] = {"algorithms": (PLUS,), "first_seed": FRESH, "preset": None}
_DIAMOND: dict[str, Any] = {"costs": ("diamond",), **_PLUS}


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
        RunGroup("", **_DIAMOND),
        *(RunGroup(costs, costs=(costs,), **_PLUS) for costs in PLUS_COSTS),
        RunGroup("two-costs", layouts=("three-rooms",), costs=("diamond,square",), budget="5,10", **_PLUS),
        RunGroup("four-rooms", layouts=("rooms-4",), **_DIAMOND),
        RunGroup("four-rooms-bonus", layouts=("rooms-4",), settings={"bonus": 0.05}, **_DIAMOND),
        *(
            RunGroup("matched", (name,), costs=("diamond",), settings={**MATCHED, **how}, first_seed=FRESH)
            for name, how in (("safedsr", {"terminal": "absorb"}), ("safedqn", {}))
        ),
        *(RunGroup(name, **{**_DIAMOND, **how}) for name, how in {**UNITS, **SHIFTED}.items()),
        *(RunGroup(name, settings=settings, **_DIAMOND) for name, settings in ABLATIONS.items()),
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
