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
    budget: str | None = BUDGET
    first_seed: int = 0
    grid: Mapping[str, Any] = AS_IS  # rewards other than the paper's

    def folder(self, algorithm: str) -> str:
        """The name of an algorithm's run folder."""
        return "-".join(filter(None, (algorithm, self.name)))


PLUS = "safedsr-plus"
WHOLE, SINGLE = f"{PLUS}-diamond", f"{PLUS}-single"  # the recommended agent, and the one that controls differ from
PLUS_COSTS = ("diamond", "square", "small-diamond", "inverse-diamond", "offset-diamond", "discs", "stripes")
NO_MAP, NO_MAP_SEED = f"{PLUS}-no-map", 80  # the recommended agent with points as codes, and the first of its seeds
MISFITS = ("offset-diamond", "discs", "stripes")  # costs that no cell fits
FRESH, EARLIER = 70, 50  # the first of ten seeds that had no part in any choice of SafeDSR-plus, and of those of SINGLE
SINGLE_LAMBDA: dict[str, Any] = {"tilt": 0.0, "chance": 0.02}  # one λ at a time; controls and ablations have it too
SINGLE_COSTS = ("none", "diamond", "square", "small-diamond", "inverse-diamond")
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
    "step-zero-bonus": {"grid": {"step_reward": 0.0}, "settings": {"bonus": 0.05}, "layouts": ("three-rooms",)},
    "goal-ten": {"grid": {"goal_reward": 10.0}},
}
# λ rule, updates, batches and memory of SafeDSR-plus, for the agents that it is compared with; ε is the same already.
MATCHED: dict[str, Any] = {
    "rule": "share",
    "lam_start": 0.25,
    "after_goal": True,
    "lam_step": 0.02,
    "penalty_most": 0.2,
    **SINGLE_LAMBDA,
    "train_every": 10,
    "update_steps": 2,
    "batch_size": 256,
    "buffer_size": 50_000,
}
# Q and K alone, after Schmidt et al. (2022): a single code, and a uniform sample of all transitions for adaptation.
HEADS: dict[str, Any] = {"own_groups": False, "points": 1, "even_share": 0.0, "beta_m": 0.0, "kept": 50_000}
POINTS: dict[str, Any] = {
    "own_groups": False
}  # the nearest of 256 points is the code; no cells, no wavelengths in cells
# Each ablation changes one part of SafeDSR-plus with one λ at a time.
ABLATIONS: dict[str, dict[str, Any]] = {
    "heads": HEADS,
    "no-outcomes": {"outcomes": False},  # neither reward nor costs among the features
    **{f"points-{count}": {"own_groups": False, "points": count} for count in (32, 256, 1024)},
    "no-waves": {"octaves": 0},
    "greedy-target": {"plan_epsilon": 0.0},
    "no-idle": {"idle_share": 0.0},
    # Eq. (16) with the paper's step size, which is 0.001 in the units of the grid: rewards of 1 and budgets of 5.
    "paper-penalty": {"rule": "proportional", "lam_start": 0.0, "after_goal": False, "lam_lr": 0.025},
}
_PLUS: dict[str, Any] = {"algorithms": (PLUS,), "first_seed": FRESH, "preset": None}
_DIAMOND: dict[str, Any] = {"costs": ("diamond",), **_PLUS}
_NO_MAP: dict[str, Any] = {**_PLUS, "first_seed": NO_MAP_SEED}


# Readings of SafeDSR that the paper's text allows, or that its code may have had. "cut" is Alg. 2.
READINGS: dict[str, dict[str, Any]] = {
    "restart-goal": {"settings": {"terminal": "restart-goal"}},
    "restart-goal-bias": {"settings": {"terminal": "restart-goal", "weight_bias": True}},
    "bias": {"settings": {"weight_bias": True}},
    "restart-goal-no-unit-length": {"settings": {"terminal": "restart-goal", "unit_length": False}},
    "no-unit-length": {"settings": {"unit_length": False}},
    "equal-losses": {"settings": {"beta_r": 1.0, "beta_c": 1.0, "beta_g": 1.0}},  # as in the figure of the update
    "restart-goal-equal-losses": {
        "settings": {"terminal": "restart-goal", "beta_r": 1.0, "beta_c": 1.0, "beta_g": 1.0}
    },
    "absorb-bias": {"settings": {"terminal": "absorb", "weight_bias": True}},
    "cut-all": {"settings": {"terminal": "cut-all"}},
    "restart": {"settings": {"terminal": "restart"}},
    "no-target-features": {"settings": {"target_features": False}},
    "slow-target": {"settings": {"sync_every": 5_000}},  # k_sync counted in rounds of updates
    "uniform-batches": {"settings": {"biased_share": 0.0}},
    "no-step-reward": {"grid": {"step_reward": 0.0}},
    "sign-rewards": {"grid": {"step_reward": -1.0, "goal_reward": 2.0}},
    "never-penalised": {"costs": ("diamond",), "budget": "1000000"},  # φ learns the costs, and λ stays 0
}
NEAREST = "bias"

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
    "readings": (
        *(RunGroup(name, ("safedsr",), seeds=3, **how) for name, how in READINGS.items()),
        # Without costs there may have been no network for them.
        *(
            RunGroup(end, ("dsr",), costs=(), budget=None, seeds=3, settings={"terminal": end})
            for end in ("cut", "restart")
        ),
        # The reading nearest to the paper's numbers, again with seeds that had no part in finding it.
        RunGroup(f"{NEAREST}-fresh", ("safedsr",), first_seed=100, **READINGS[NEAREST]),
    ),
    "plus": (  # SafeDSR-plus, which is not in the paper
        *(RunGroup(costs, costs=(costs,), **_PLUS) for costs in PLUS_COSTS),
        RunGroup("two-costs", layouts=("three-rooms",), costs=("diamond,square",), budget="5,10", **_PLUS),
        RunGroup("four-rooms", layouts=("rooms-4",), **_DIAMOND),
        RunGroup("four-rooms-bonus", layouts=("rooms-4",), settings={"bonus": 0.05}, **_DIAMOND),
        *(RunGroup(f"no-map-{costs}", costs=(costs,), settings=POINTS, **_NO_MAP) for costs in PLUS_COSTS),
        RunGroup("no-map-no-outcomes", costs=MISFITS, settings={**POINTS, "outcomes": False}, **_NO_MAP),
        RunGroup("no-map-short", costs=("diamond",), settings=POINTS, steps=50_000, **_NO_MAP),
        RunGroup("no-map-zero", layouts=("two-rooms",), costs=("diamond",), settings=POINTS, budget="0", **_NO_MAP),
        *(
            RunGroup("matched", (name,), costs=("diamond",), settings={**MATCHED, **how}, first_seed=EARLIER)
            for name, how in (("safedsr", {"terminal": "absorb"}), ("safedqn", {}))
        ),
        *(RunGroup(name, seeds=5, **{**_DIAMOND, **how}) for name, how in {**UNITS, **SHIFTED}.items()),
        RunGroup("single", settings=SINGLE_LAMBDA, **{**_PLUS, "costs": SINGLE_COSTS, "first_seed": EARLIER}),
        *(
            RunGroup(name, settings={**SINGLE_LAMBDA, **settings}, **{**_DIAMOND, "first_seed": EARLIER})
            for name, settings in ABLATIONS.items()
        ),
    ),
}

TIMES = {
    "baselines": "--quick about 8 minutes on two cores; --full half an hour on an NVIDIA H200, three days on two cores",
    "plus": "--quick about 8 minutes on two cores; --full an hour on an NVIDIA H200, seven hours on two cores (both "
    "estimated)",
    "extras": "--quick about 10 minutes on two cores; --full an hour on an NVIDIA H200, two days on two cores",
    "readings": "--quick about 10 minutes on two cores; --full half an hour on an NVIDIA H200, two days on two cores "
    "(estimated)",
}

SHORTENING = 50  # --quick divides environment steps, and the settings that count them, by this
COUNTS_STEPS = ("decay_steps", "penalty_start", "sync_every")
_QUICK_VALUE_BASED = {"epsilon_from": 400, "epsilon_to": 2_000, "penalty_start": 2_000, "train_start": 500}
_QUICK_DSR = {**_QUICK_VALUE_BASED, "freeze": 2_500, "update_steps": 2, "batch_size": 64}
QUICK_SETTINGS: dict[str, dict[str, Any]] = {
    **{algorithm: {"steps_per_epoch": 2_000, "decay_steps": 10_000} for algorithm in ON_POLICY},
    "safedqn": _QUICK_VALUE_BASED,
    "safedsr-plus": _QUICK_VALUE_BASED,
    "safedsr": _QUICK_DSR,
    "dsr": _QUICK_DSR,
}


def shorten(row: RunGroup) -> RunGroup:
    """The group with two seeds and 1/50 of the steps, for tests only: its numbers are not comparable with others."""
    settings = {name: value // SHORTENING if name in COUNTS_STEPS else value for name, value in row.settings.items()}
    shorter = {name: getattr(row, name) // SHORTENING for name in ("steps", "trajectories")}
    return row._replace(seeds=2, settings=settings, **shorter)
