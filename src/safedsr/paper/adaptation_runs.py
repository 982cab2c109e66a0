"""The trainings of the experiment with changing costs. Finished ones are skipped, interrupted ones continue."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.agents.value_based.trainer import State
from safedsr.engine.program import Program
from safedsr.engine.progress import Progress, Show, ShowJob, Stopwatch
from safedsr.engine.train import STOP_FILE, Stopped, device_name, loop
from safedsr.errors import UserError
from safedsr.paper import adaptation_plan as plan
from safedsr.paper.adaptation_engine import change_costs, staged, take_lanes
from safedsr.paper.adaptation_plan import Scale, Variant
from safedsr.paper.reproduce import COMPILING, SAMPLE_SECONDS, STEP_SECONDS, PlannedRun
from safedsr.runs import storage
from safedsr.runs import writer as runs
from safedsr.runs.arrays import from_arrays
from safedsr.runs.job import Job
from safedsr.sweep.finish import standing
from safedsr.types import PyTree

TIMING = "timing.json"  # in every run folder


class Stage(NamedTuple):
    """A training that is to be done, with its own run folder."""

    owner: str  # the agent
    kind: str  # before, after, finetune, scratch
    job: Job
    make: Callable[[Job], Program] = lambda job: staged(job, remembers=False)
    first_step: int = 0
    base: str | None = None  # the folder from whose final state it continues, with new costs
    updates: int = 0  # of phase 2.5
    share: float | None = None  # of its batches from all past experiences; as in training if not given
    learning: int | None = None  # steps with learning; all steps if not given

    @property
    def name(self) -> str:
        """The name of the folder."""
        return f"{self.owner}-{self.kind}"

    @property
    def planned(self) -> PlannedRun:
        """The folder's name and job."""
        return PlannedRun(self.name, self.job)

    @property
    def work(self) -> float:
        """Estimated seconds on two cores."""
        agent, steps = self.job.agent, self.job.train.steps - self.first_step
        learning = steps if self.learning is None else self.learning
        lanes = len(self.job.seeds) * len(self.job.tasks)
        each = SAMPLE_SECONDS.get(self.job.algorithm, 0.0)
        if each:
            each *= agent.update_steps * agent.batch_size / agent.train_every
        return COMPILING + lanes * (STEP_SECONDS * steps + each * learning)


def stages(scale: Scale) -> list[Stage]:
    """All trainings; a training comes after the one from which it continues."""
    ours = [stage for variant in scale.variants for stage in safedsr_stages(variant, scale)]
    return ours + [stage for algorithm in plan.BASELINES for stage in baseline_stages(algorithm, scale)]


def safedsr_stages(variant: Variant, scale: Scale) -> list[Stage]:
    """The phases of one variant and, if it is compared, its fine-tuning and its training from scratch."""
    config, phases, of = plan.safedsr_config(variant, scale), plan.phases(scale), scale.of
    job = partial(plan.make_job, "safedsr", config, scale=scale)
    owner, change, afterwards = f"safedsr-{variant.name}", of(plan.CHANGE), of(plan.AFTERWARDS)
    before = job(plan.FIRST_COSTS, change)
    walks = plan.walks_kept(scale, before.chunk)
    after = job(plan.NEW_COSTS, of(plan.END), walks=3 * walks)
    goes_on: dict[str, Any] = {"first_step": change, "base": f"{owner}-before", "updates": of(plan.REFIT_UPDATES)}
    found = [
        Stage(owner, "before", before, partial(staged, phases=phases), learning=of(plan.TRAINED)),
        Stage(
            owner,
            "after",
            after,
            lambda job: staged(job, [p for p in phases if p.start >= change], walks, remembers=False),
            learning=phases[-1].start - phases[-2].start,
            **goes_on,
        ),
    ]
    if variant in plan.COMPARED:
        found.append(Stage(owner, "finetune", job(plan.NEW_COSTS, change + afterwards), **goes_on))
        found.append(Stage(owner, "scratch", job(plan.UNSEEN_COSTS, afterwards)))
    return found


def baseline_stages(algorithm: str, scale: Scale) -> list[Stage]:
    """A baseline: trained with the first costs, fine-tuned with the new costs, and trained with these from scratch."""
    config = plan.baseline_config(algorithm, scale)
    job = partial(plan.make_job, algorithm, config, scale=scale)
    # Value-based agents keep the end of their schedules. The learning rates of the others start again: they would be 0.
    first = scale.of(plan.TRAINED) if algorithm == "safedqn" else 0
    afterwards, base = scale.of(plan.AFTERWARDS), f"{algorithm}-before"
    return [
        Stage(algorithm, "before", job(plan.FIRST_COSTS, scale.of(plan.TRAINED))),
        Stage(algorithm, "finetune", job(plan.NEW_COSTS, first + afterwards), first_step=first, base=base),
        Stage(algorithm, "scratch", job(plan.UNSEEN_COSTS, afterwards)),
    ]


def run_stages(chosen: Iterable[Stage], every: Sequence[Stage], out: Path, show: ShowJob | None = None) -> None:
    """Finish the chosen stages; `every` also has the stages from which they continue."""
    chosen = list(chosen)
    standings = [standing(stage.planned.job, out / stage.name) for stage in chosen]
    by_name = {stage.name: stage for stage in every}
    total, before = sum(stage.work for stage in chosen), 0.0
    for i, (stage, found) in enumerate(zip(chosen, standings, strict=True)):
        title = f"{stage.name} ({i + 1} of {len(chosen)})"

        def share(p: Progress, title: str = title, stage: Stage = stage, before: float = before) -> None:
            done = (p.step - stage.first_step) / (p.steps - stage.first_step)
            if show:
                show(title, p, (before + stage.work * done) / total)

        if found != "done":
            finish(stage, by_name.get(stage.base or ""), out, share)
        before += stage.work


def finish(stage: Stage, base: Stage | None, out: Path, show: Show) -> None:
    """Train a stage, from its start or from the last checkpoint, and save its seconds."""
    folder, program = out / stage.name, stage.make(stage.job)
    if base and standing(base.planned.job, out / base.name) != "done":
        raise UserError(f"{stage.name} continues {base.name}, which is not finished; run that part first")
    program.check_memory()
    clock, change_seconds = Stopwatch(), 0.0

    def show_and_note(p: Progress) -> None:
        clock.lap(p.count)
        show(p)

    def begin() -> tuple[PyTree, int]:
        if base is None:
            return program.init(), 0
        nonlocal change_seconds
        state, change_seconds = changed_state(program, base, out / base.name, stage)
        return state, stage.first_step

    try:
        if standing(stage.planned.job, folder) == "new":
            with runs.create_run(folder, stage.job.to_dict(), list(stage.job.seeds), device_name()) as writer:
                loop(program, writer, *begin(), show_and_note)
        else:
            with runs.resume_run(folder) as (writer, _):
                (folder / STOP_FILE).unlink(missing_ok=True)
                loop(program, writer, *(_saved(program, writer) or begin()), show_and_note)
    except Stopped as stop:
        raise Stopped(f"{stop.args[0].partition(';')[0]}; the same command continues from there") from None
    _note(folder, stage, clock, change_seconds)


def _saved(program: Program, writer: runs.RunWriter) -> tuple[PyTree, int] | None:
    found = writer.restore()
    return found and (from_arrays(program.state_shape(), found[0], f"the checkpoint in {writer.path}"), found[1])


def changed_state(program: Program, base: Stage, folder: Path, stage: Stage) -> tuple[PyTree, float]:
    """The final state of a base, with one task for each change, after phase 2.5; also the seconds of that phase."""
    arrays = runs.load_checkpoint(folder)
    state = from_arrays(Program(base.job).state_shape(), arrays, f"the checkpoint in {folder}")
    state = take_lanes(state, plan.LANES)
    if not isinstance(state.agent, State):  # an on-policy baseline has no replay memory
        return state, 0.0
    return change_costs(program, state, stage.updates, stage.share)


def _note(folder: Path, stage: Stage, clock: Stopwatch, change_seconds: float) -> None:
    """Save the seconds of a stage, without the part that ran before an interruption."""
    seconds = round(clock.elapsed(), 2)
    found = {
        "seconds": seconds,
        "step_seconds": float(np.median(clock.paces))
        if clock.paces
        else None,  # median: a few chunks include compilation
        "change_seconds": change_seconds,
        "lanes": len(stage.job.seeds) * len(stage.job.tasks),
        "device": device_name(),
    }
    storage.write_json(folder / TIMING, found)
    print(f"{stage.name}: {seconds:.0f} s", flush=True)


def read_timings(out: Path) -> dict[str, dict[str, Any]]:
    """The seconds of every finished stage."""
    return {path.parent.name: storage.read_json(path) for path in sorted(out.glob(f"*/{TIMING}"))}
