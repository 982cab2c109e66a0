"""The contestants by name, each with fixed settings, the same in all scenarios. No JAX here at import."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from safedsr.errors import UserError, unknown

ORACLE = "oracle"
_VALUES: dict[str, Any] = {"epsilon_end": 0.05, "train_start": 1_000}
_QUICK_VALUES: dict[str, Any] = {"batch_size": 32, "buffer_size": 2_000, "update_steps": 1}
PLUS: dict[str, Any] = {**_VALUES, "plan_epsilon": 0.05}
QUICK_PLUS: dict[str, Any] = {**_QUICK_VALUES, "kept": 20, "octaves": 3, "trunk": 32, "head": 16, "points": 64}
QUICK_PLUS |= {"phi_batch": 16}
DQN, QUICK_DQN = _VALUES, {**_QUICK_VALUES, "hidden": (64, 64)}
# On maps ε falls, and λ begins to change, after 20 % of a phase; in other environments after 60 %, with these settings.
# There, λ of SafeDSR-plus keeps its first value until the first change: in minecart with ε = 0.05 (seed 0) it rose
# without end, and the agent forgot the way.
EXPLORES, EXPLORES_ELSEWHERE = 0.2, 0.6
_ELSEWHERE: dict[str, Any] = {
    "batch_size": 128,
    "buffer_size": 150_000,
    "gamma": 0.98,
    "learning_rate": 3e-4,
    "update_steps": 5,
}
PLUS_ELSEWHERE: dict[str, Any] = {**_ELSEWHERE, "beta_c": 0.25, "lam_start": 0.5}
DQN_ELSEWHERE: dict[str, Any] = {**_ELSEWHERE, "hidden": (256, 256, 256)}
ON_POLICY: dict[str, Any] = {"steps_per_epoch": 5_000, "decay_steps": 0, "start": "jax"}
QUICK_ON_POLICY: dict[str, Any] = {"steps_per_epoch": 1_000, "update_iters": 2}
SAFEDSR: dict[str, Any] = {"rule": "sign", "terminal": "cut"}
# What the paper's schedules are as shares of its 500 000 training steps.
SAFEDSR_SHARES = {"epsilon_from": 0.04, "epsilon_to": 0.2, "penalty_start": 0.2, "freeze": 0.1, "train_start": 0.03}
BASELINES = ("ppo-lag", "trpo-pid", "cpo")
RUNGS, FROM_MEMORY = ("cost", "penalty", "memory", "full"), "from-memory"


class Contestant(NamedTuple):
    """One way to take part."""

    name: str
    about: str
    algorithm: str  # of the registry; empty for the oracle
    kind: str  # learner, restart, staged, adaptive, oracle, guest
    level: str = ""  # of an adaptive one


def _known() -> dict[str, Contestant]:
    plus = "safedsr-plus"
    found = [
        Contestant(plus, "adapts when told, or when it notices a change: fully automatic", plus, "adaptive", "auto"),
        *(Contestant(f"{plus}-{rung}", f"adapts up to the level '{rung}'", plus, "adaptive", rung) for rung in RUNGS),
        Contestant(
            f"{plus}-from-memory", "adapts on walks through its memory, goes on learning", plus, "adaptive", FROM_MEMORY
        ),
        Contestant(f"{plus}-going-on", "goes on learning; told changes relabel its memory", plus, "learner"),
        Contestant("safedsr", "as in the paper: phases of evaluation, λ and M after a change", "safedsr", "staged"),
    ]
    for name in ("safedqn", *BASELINES):
        found.append(Contestant(name, "goes on learning", name, "learner"))
        found.append(Contestant(f"{name}-restart", "starts again at each change", name, "restart"))
    found.append(Contestant(ORACLE, "plans with full knowledge of each phase", "", "oracle"))
    return {one.name: one for one in found}


CONTESTANTS: Mapping[str, Contestant] = _known()
QUICK_ONES = ("safedsr-plus", "safedqn", ORACLE)  # whom --quick runs if nobody is named


def find_contestant(name: str) -> Contestant:
    """A contestant by name, or a function FILE.py:NAME of somebody else."""
    if ".py:" in name:
        own = name.rpartition(":")[2]
        if own in CONTESTANTS:
            raise UserError(f"{name}: '{own}' is the name of a contestant; give your function another name")
        return Contestant(own, "a guest", name, "guest")
    if name not in CONTESTANTS:
        raise unknown("contestant", name, CONTESTANTS)
    return CONTESTANTS[name]


def left_out(one: Contestant, told: Sequence[bool]) -> str | None:
    """Why a contestant does not take part, if it does not; `told`: whether each change is announced."""
    if one.kind == "restart" and not all(told):
        return "it would have to be told when to start again"
    if one.level == FROM_MEMORY and not any(told):
        return "without announced changes, it is safedsr-plus"
    return None


def learner_of(contestant: Contestant, first: int, *, elsewhere: bool = False) -> Any:
    """The `Learner` of a contestant in a scenario whose first phase has so many steps; `elsewhere`: not on a map."""
    from safedsr.scenario.learners import Learner

    name, restarts = contestant.algorithm, contestant.kind == "restart"
    explores = EXPLORES_ELSEWHERE if elsewhere else EXPLORES
    if name == "safedsr-plus":
        settings = {**PLUS, **PLUS_ELSEWHERE, "penalty_start": first} if elsewhere else PLUS
        return Learner(name, settings, QUICK_PLUS, explores=explores)
    if name == "safedsr":
        training = first * 5 // 6
        shares = {key: max(round(training * share / 500), 1) * 500 for key, share in SAFEDSR_SHARES.items()}
        return Learner(name, {**SAFEDSR, **shares}, {**_QUICK_VALUES, "update_steps": 2}, staged=True)
    if name == "safedqn":
        settings = {**DQN, **(DQN_ELSEWHERE if elsewhere else {})}
        return Learner(name, settings, QUICK_DQN, restarts=restarts, explores=explores)
    if name in BASELINES:
        return Learner(name, ON_POLICY, QUICK_ON_POLICY, restarts=restarts, preset="repaired")
    raise UserError(f"'{contestant.name}' does not learn")
