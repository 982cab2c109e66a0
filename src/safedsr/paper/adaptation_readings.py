"""Readings of the experiment with changing costs, where the paper's text leaves a choice.

Each evaluation has two halves: the first with ε = 0.25 as in the other tables, the second with ε = 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.value_based.trainer import EVALUATE
from safedsr.core.config import MultiplierConfig
from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_engine import staged
from safedsr.paper.adaptation_plan import Phase, Scale
from safedsr.paper.adaptation_runs import Stage
from safedsr.paper.adaptation_summary import short, timelines
from safedsr.paper.experiments import MATCHED, QUICK_SETTINGS
from safedsr.paper.tables import BUDGET
from safedsr.runs import metrics, storage
from safedsr.runs.metrics import Episodes
from safedsr.validation import with_settings

FILE = "adaptation.json"
ABSORB: Mapping[str, Any] = {"terminal": "absorb"}
BIAS: Mapping[str, Any] = {"weight_bias": True}
ENCODER: Mapping[str, Any] = {"pretrain": plan.PRETRAIN_UPDATES, "pretrain_labels": False}


class Reading(NamedTuple):
    """One reading: settings of SafeDSR, and how phases 2.5 and 6 are run."""

    name: str
    settings: Mapping[str, Any] = {}
    fixed: bool = False  # φ is trained before step 0 only
    base: str = ""  # the reading whose agents it continues; its own if not given
    whole: bool = False  # φ learns in phase 6, too
    past: bool = False  # phase 2.5 draws all batches from all past experiences

    @property
    def trained(self) -> str:
        """The name of the reading that trains its agents."""
        return self.base or self.name


READINGS = (
    Reading("cut"),
    Reading("cut-whole", base="cut", whole=True),
    Reading("cut-past", base="cut", past=True),
    Reading("absorb", ABSORB),
    Reading("absorb-whole", ABSORB, base="absorb", whole=True),
    Reading("absorb-past", ABSORB, base="absorb", past=True),
    Reading("cut-encoder-fixed", ENCODER, fixed=True),
    Reading("cut-encoder-fixed-whole", ENCODER, fixed=True, base="cut-encoder-fixed", whole=True),
    Reading("absorb-encoder-fixed", {**ABSORB, **ENCODER}, fixed=True),
    Reading("absorb-encoder-fixed-past", {**ABSORB, **ENCODER}, fixed=True, base="absorb-encoder-fixed", past=True),
    Reading("absorb-matched", {**ABSORB, **MATCHED}),
    Reading("cut-encoder", ENCODER),
    Reading("cut-encoder-whole", ENCODER, base="cut-encoder", whole=True),
    Reading("restart-goal", {"terminal": "restart-goal"}),
    Reading("cut-bias", BIAS),
    Reading("cut-bias-whole", BIAS, base="cut-bias", whole=True),
    Reading("cut-bias-past", BIAS, base="cut-bias", past=True),
)


def config_of(reading: Reading, scale: Scale) -> SafeDsrConfig:
    """The settings of a reading."""
    config = with_settings(SafeDsrConfig(multiplier=MultiplierConfig(rule="sign")), reading.settings)
    if scale.quick:
        updates = {"pretrain": scale.of(config.pretrain)}
        config = with_settings(config, {**QUICK_SETTINGS["safedsr"], **plan.QUICK_DSR, **updates})
    return with_settings(config, {"freeze": config.train_start}) if reading.fixed else config


def reading_stages(scale: Scale, names: Sequence[str] = ()) -> list[Stage]:
    """The trainings of the readings of these names, or of all."""
    every = {reading.name: reading for reading in READINGS}
    chosen = [every[name] for name in names] if names else list(READINGS)
    return [stage for reading in chosen for stage in _stages(reading, scale)]


def _stages(reading: Reading, scale: Scale) -> Iterator[Stage]:
    config, of = config_of(reading, scale), scale.of
    phases = [
        phase._replace(mode="features") if phase.number == 6 and reading.whole else phase for phase in plan.PHASES
    ]
    phases = [phase._replace(start=of(phase.start)) for phase in phases]
    job = partial(plan.make_job, "safedsr", config, scale=scale)
    make = partial(staged, phases=phases, greedy=greedy_spans(phases, of(plan.END)))
    if not reading.base:
        first = job(plan.FIRST_COSTS, of(plan.CHANGE))
        yield Stage(f"safedsr-{reading.name}", "before", first, make, learning=of(plan.TRAINED))
    yield Stage(
        f"safedsr-{reading.name}",
        "after",
        job(plan.NEW_COSTS, of(plan.END)),
        partial(make, remembers=False),
        first_step=of(plan.CHANGE),
        base=f"safedsr-{reading.trained}-before",
        updates=of(plan.REFIT_UPDATES),
        share=1.0 if reading.past else None,
        learning=phases[-1].start - phases[-2].start,
    )


def spans(phases: Sequence[Phase], end: int) -> Iterator[tuple[Phase, int, int, int]]:
    """Each evaluation with its start, its middle and its end."""
    ends = [phase.start for phase in phases[1:]] + [end]
    for phase, stop in zip(phases, ends, strict=True):
        if phase.mode == EVALUATE:
            yield phase, phase.start, (phase.start + stop) // 2, stop


def greedy_spans(phases: Sequence[Phase], end: int) -> list[tuple[int, int]]:
    """The second half of each evaluation."""
    return [(middle, stop) for _, _, middle, stop in spans(phases, end)]


def reading_rows(out: Path, reading: Reading, scale: Scale) -> Iterator[dict[str, Any]]:
    """One row for each change, evaluation, ε and seed: means over its whole episodes, and λ at its end."""
    for change, timeline in enumerate(timelines(out, reading.name, reading.trained)):
        for phase, start, middle, end in spans(plan.phases(scale), scale.of(plan.END)):
            for epsilon, first, last in ((0.25, start, middle), (0.0, middle, end)):
                for seed, episodes in zip(timeline.seeds, timeline.episodes, strict=True):
                    here = whole_episodes(episodes, first, last)
                    if not len(here.end_step):
                        continue
                    yield {
                        "reading": reading.name,
                        "change": change,
                        "phase": phase.number,
                        "epsilon": epsilon,
                        "seed": seed,
                        "episodes": len(here.end_step),
                        "safe": short(metrics.safe(here, [BUDGET]).mean()),
                        "goal": short(here.success.mean()),
                        "cost": short(here.cost[:, 0].mean()),
                        "lam": short(timeline.lams.get((seed, end), np.nan)),
                    }


def whole_episodes(episodes: Episodes, start: int, end: int) -> Episodes:
    """The episodes that began after `start` and ended up to `end`."""
    inside = (episodes.end_step - episodes.length >= start) & (episodes.end_step <= end)
    return Episodes(*(field[inside] for field in episodes))


def write_readings(out: Path, folder: Path, scale: Scale) -> Path:
    """Write the rows of all finished readings to one small file."""
    done = [reading for reading in READINGS if _finished(out / f"safedsr-{reading.name}-after")]
    rows = [row for reading in done for row in reading_rows(out, reading, scale)]
    storage.make_folder(folder)
    storage.write_json(folder / FILE, {"quick": scale.quick, "rows": rows})
    return folder / FILE


def _finished(folder: Path) -> bool:
    return (folder / "timing.json").exists()
