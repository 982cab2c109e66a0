"""The experiment with changing costs as data (Sec. 5.4, last appendix): phases, changes, variants, methods."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from safedsr.agents.registry import find_algorithm
from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.value_based.trainer import EVALUATE, PENALTY
from safedsr.core.config import Matmul, MultiplierConfig
from safedsr.envs.grid.config import GridConfig
from safedsr.paper.experiments import BUDGET, QUICK_SETTINGS, SHORTENING
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job, grid_job, tasks_for
from safedsr.validation import with_settings

LAYOUT = "two-rooms"
OWN = "own"  # a phase in which the agent follows its own training schedule


class Phase(NamedTuple):
    """A row of the paper's table of phases."""

    number: int
    name: str
    start: int  # environment steps
    learns: str
    mode: str  # of the engine


PHASES = (
    Phase(1, "initial training", 0, "everything", OWN),
    Phase(2, "initial evaluation", 500_000, "nothing", EVALUATE),
    # Here, at step 600 000, the costs change: phase 2.5 fits w_r and w_c to the relabelled memory.
    Phase(3, "post-adaption evaluation", 600_000, "nothing", EVALUATE),
    Phase(4, "penalty learning", 700_000, "λ", PENALTY),
    Phase(5, "penalty evaluation", 800_000, "nothing", EVALUATE),
    Phase(6, "successor learning", 900_000, "w_r, w_c, λ, M", OWN),
    Phase(7, "successor evaluation", 1_000_000, "nothing", EVALUATE),
)
TRAINED, CHANGE, END = 500_000, 600_000, 1_100_000  # ends of phases 1, 2 and 7
REFIT_UPDATES = 10_000  # of phase 2.5
PRETRAIN_UPDATES = 10_000
AFTERWARDS = 200_000  # environment steps of every fine-tuning, and of every training from scratch
WALKS = 10_000  # number of last steps of each evaluation whose positions are saved
EPISODES = 1_000  # of each evaluation of a method without environment steps


class Change(NamedTuple):
    """Costs before and after."""

    before: str
    after: str

    @property
    def name(self) -> str:
        """The change as text."""
        return f"{self.before} → {self.after}"


CHANGES = (
    Change("diamond", "square"),
    Change("diamond", "inverse-diamond"),
    Change("small-diamond", "diamond"),
)
FIRST_COSTS = tuple(dict.fromkeys(change.before for change in CHANGES))
NEW_COSTS = tuple(change.after for change in CHANGES)
LANES = tuple(FIRST_COSTS.index(change.before) for change in CHANGES)  # the task from which each change starts
UNSEEN_COSTS = tuple(
    costs for costs in NEW_COSTS if costs not in FIRST_COSTS
)  # the other new costs are also first costs


class Variant(NamedTuple):
    """One variant of SafeDSR."""

    terminal: str
    pretrained: bool

    @property
    def name(self) -> str:
        """The name in folders and tables."""
        return f"{self.terminal}-pretrained" if self.pretrained else self.terminal


VARIANTS = tuple(Variant(terminal, pretrained) for terminal in ("cut", "absorb") for pretrained in (False, True))
COMPARED = tuple(variant for variant in VARIANTS if not variant.pretrained)
BASELINES = ("safedqn", "ppo-lag", "trpo-pid")


class Scale(NamedTuple):
    """How much of the experiment is run."""

    seeds: int = 10
    rung_seeds: int = 10  # for the methods without environment steps, one agent after the other
    shorten: int = 1  # environment steps and updates are divided by this
    matmul: Matmul = "float32"
    checkpoint_seconds: float = 60.0

    def of(self, count: int) -> int:
        """A number of steps or updates at this scale."""
        return count // self.shorten

    @property
    def grid(self) -> GridConfig:
        """The physics; a quick experiment has a lower time limit, as its agents rarely reach the goal."""
        return GridConfig(time_limit=QUICK_LIMIT) if self.quick else GridConfig()

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The trained variants; a quick experiment trains only some of them, to save compilation."""
        return tuple(v for v in VARIANTS if v.terminal == VARIANTS[0].terminal) if self.quick else VARIANTS

    @property
    def compared(self) -> tuple[Variant, ...]:
        """The variants that are compared with other methods."""
        return tuple(variant for variant in self.variants if variant in COMPARED)

    @property
    def quick(self) -> bool:
        """Whether this is the quick experiment, with shorter schedules."""
        return self.shorten > 1


QUICK_LIMIT = 200
QUICK = Scale(seeds=2, rung_seeds=1, shorten=SHORTENING)
QUICK_DSR = {"buffer_size": 5_000}  # the buffer has to be full when phase 1 ends


def walks_kept(scale: Scale, chunk: int) -> int:
    """Number of positions saved of each evaluation, in whole chunks."""
    return -(-scale.of(WALKS) // chunk) * chunk


def phases(scale: Scale) -> tuple[Phase, ...]:
    """The phases at a scale."""
    return tuple(phase._replace(start=scale.of(phase.start)) for phase in PHASES)


def safedsr_config(variant: Variant, scale: Scale) -> SafeDsrConfig:
    """SafeDSR with the fixed step size of λ, as in the paper's experiment."""
    config = SafeDsrConfig(
        terminal=variant.terminal,  # type: ignore[arg-type]
        pretrain=scale.of(PRETRAIN_UPDATES) if variant.pretrained else 0,
        multiplier=MultiplierConfig(rule="sign"),
    )
    return with_settings(config, {**QUICK_SETTINGS["safedsr"], **QUICK_DSR}) if scale.quick else config


def baseline_config(algorithm: str, scale: Scale) -> Any:
    """A baseline with the settings of the paper's tables."""
    config = find_algorithm(algorithm).settings("paper")
    return with_settings(config, QUICK_SETTINGS[algorithm]) if scale.quick else config


def make_job(algorithm: str, config: Any, costs: Sequence[str], steps: int, scale: Scale, walks: int = 0) -> Job:
    """A job in two rooms with each of these costs."""
    tasks = tasks_for(algorithm, [LAYOUT], list(costs), BUDGET)
    # All chunks of a short run have the same length: another length would be compiled again.
    chunk = config.period if scale.quick else None
    training = TrainConfig(steps, chunk, scale.checkpoint_seconds, walks, scale.matmul)
    return grid_job(algorithm, tasks, range(scale.seeds), config, scale.grid, training)
