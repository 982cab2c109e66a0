"""The training loop on the host: chunks of a compiled program, progress, checkpoints, resume, check for finite values.

The host does no work per step: it gets the records of a chunk as arrays and keeps the episodes that ended.
"""

import contextlib
import dataclasses
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from safedsr.engine import chunks
from safedsr.engine.compiled import keep_compiled
from safedsr.engine.program import Program
from safedsr.engine.programs import program_for
from safedsr.engine.progress import Show
from safedsr.engine.relabel import relabel_memory
from safedsr.engine.sinks import check_sinks, open_sinks
from safedsr.envs.chosen import require_same_success, same_costs
from safedsr.envs.environment import Environment, Task, with_cost_args
from safedsr.envs.functions import parameters_in
from safedsr.errors import DiskError, EnvironmentFailed, UserError
from safedsr.runs.arrays import from_arrays, to_arrays
from safedsr.runs.folder import NAMES, load_run, read_manifest
from safedsr.runs.job import Job, job_from_dict
from safedsr.runs.policy import save_policies
from safedsr.runs.storage import Columns, concatenate, disk
from safedsr.runs.writer import RunWriter, create_run, resume_run
from safedsr.types import PyTree
from safedsr.validation import first_difference, typed

RESTARTS = "episodes_restarted_at_steps"  # entry of the manifest, for environments on the host
CHANGES = "costs_changed"  # likewise: the steps from which costs were others, and the functions and parameters
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP_FILE = "stop"  # a file of this name in the run folder stops training after the chunk


class NotFinite(FloatingPointError):
    """A value of the training state is not finite."""


class Stopped(KeyboardInterrupt):
    """Training was stopped on request before its end; everything is saved."""


def train(job: Job, out: str | Path, show: Show | None = None) -> Path:
    """Train a job and write a new run folder."""
    job.agent.check_steps(job.train.steps, job.algorithm)
    check_sinks(job.train.log)
    keep_compiled()
    with contextlib.closing(program_for(job)) as program:
        program.check_memory()
        with create_run(out, job.to_dict(), list(job.seeds), device_name()) as writer:
            loop(program, writer, program.init(), 0, show)
    return Path(out)


def resume(
    out: str | Path,
    changes: Mapping[str, Any] | None = None,
    expect: Job | None = None,
    show: Show | None = None,
    environment: Environment | None = None,
    cost_args: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Continue the training of a run folder; the results are bit for bit those of an uninterrupted run.

    An environment on the host starts new episodes instead, because its state cannot be saved; the manifest says so.
    `changes` are fields of `TrainConfig`, such as more steps. If `expect` is given, the run must have the settings of
    that job. `environment` is needed if the run was trained in an environment that is not part of safedsr. `cost_args`
    are new parameters of its cost functions, from this step on; steps in the replay memory get their new costs.
    """
    with resume_run(out) as (writer, config):
        job = job_from_dict(config, environment)
        if expect:
            require_same(expect, config, out)
        require_same_success(job.environment, config["environment"], f"the run in {out}")
        known = job.environment.settings.get("costs") is None or same_costs(job.environment, config["environment"])
        if not known:
            new = {"name": job.environment.name, "cost_names": job.environment.cost_names}
            job = dataclasses.replace(job, tasks=tuple(t._replace(**new) for t in job.tasks))
        if cost_args:
            tasks = tuple(with_cost_args(job.environment, t, cost_args) for t in job.tasks)
            cost_args = {} if _equal(tasks, job.tasks) else cost_args  # the same parameters again change nothing
            _require_same_meaning(cost_args, config["environment"], out)
            job = dataclasses.replace(job, tasks=tasks if cost_args else job.tasks)
        if changes:
            job = dataclasses.replace(job, train=dataclasses.replace(job.train, **changes))
            job.agent.check_steps(job.train.steps, job.algorithm)
        check_sinks(job.train.log)
        keep_compiled()
        program = program_for(job)
        program.check_memory()
        found = writer.restore()
        step = found[1] if found else 0
        if step > job.train.steps:
            raise UserError(f"{out} has {step} steps already; steps is {job.train.steps}: give more steps")
        if found is None:
            state = program.init()
        else:
            state = from_arrays(program.state_shape(), found[0], f"the checkpoint in {out}")
            changed = bool(cost_args) or not known
            if changed or _changed_at(writer) == step:  # no later checkpoint has the new costs of stored steps yet
                state = relabel_memory(program, state)
            if changed:
                writer.note(CHANGES, _costs_from(step, job))
        if first_difference(job.to_dict(), config):
            writer.write_json("config.json", job.to_dict())
        with disk(Path(out)):
            (Path(out) / STOP_FILE).unlink(missing_ok=True)
        if job.environment.host and step:
            writer.note(RESTARTS, step)
        with contextlib.closing(program):
            loop(program, writer, state, step, show)
    return Path(out)


def _require_same_meaning(cost_args: Mapping[str, Any], environment: Mapping[str, Any], out: str | Path) -> None:
    """Raise if new parameters are also those of the function of success."""
    for name in sorted(parameters_in(environment.get("success_function")) & set(cost_args)):
        raise UserError(
            f"'{name}' is a parameter of the function of success, and the episodes in {out} are stored with its old "
            "value: leave it out, or train in another folder"
        )


def _changed_at(writer: RunWriter) -> int | None:
    """The step of the last change of costs, if there was one."""
    changes = typed(list[dict[str, Any]], read_manifest(writer.path).get(CHANGES, []), CHANGES)
    return changes[-1].get("from_step") if changes else None


def _costs_from(step: int, job: Job) -> dict[str, Any]:
    """The cost functions from a step on, and the parameters of each task, for the manifest."""
    about = job.to_dict()
    return {
        "from_step": step,
        "costs": about["environment"].get("costs"),
        "params": [task["params"] for task in about["tasks"]],
    }


def _equal(one: Sequence[Task], other: Sequence[Task]) -> bool:
    """Whether tasks have equal parameters."""
    pairs = [map(jax.tree.leaves, (a.params, b.params)) for a, b in zip(one, other, strict=True)]
    return all(len(a) == len(b) and all(map(np.array_equal, a, b)) for a, b in pairs)


def require_same(expect: Job, config: dict[str, Any], out: str | Path) -> None:
    """Raise unless a run folder was written for this job; the settings of `TrainConfig` may differ.

    Schedules that are shares of the run depend on its steps.
    """
    config = job_from_dict(
        config, expect.environment
    ).to_dict()  # settings added after the folder was written get their defaults
    asked = {**expect.to_dict(), "train": config["train"]}
    if difference := first_difference(asked, config):
        name, mine, theirs = difference
        what = "the map is another" if name == "map" else f"{name} is {mine!r} here and {theirs!r} there"
        raise UserError(f"{out} holds a run with other settings: {what}; remove it, or choose another folder")


def loop(program: Program, writer: RunWriter, state: PyTree, step: int, show: Show | None) -> None:
    """Train from the state at `step` to the last step of the job, and write all files of the run folder."""
    job = program.job
    pending: dict[str, list[Columns]] = {name: [] for name in NAMES}
    began = saved = time.monotonic()
    with _interruptible() as interrupted, open_sinks(writer.path, job, step) as log:
        while step < job.train.steps:
            stop = program.next_stop(step)
            try:
                state, records, losses = program.advance(state, step, stop - step)
            except EnvironmentFailed as error:
                raise EnvironmentFailed(f"{error}; {_last_checkpoint(writer)}") from error
            _require_finite(program, state, stop)
            lam = np.asarray(program.trainer.multipliers(state.agent))
            episodes = chunks.episodes(records, step, job)
            pending["episodes"].append(episodes)
            curves = chunks.curves(jax.device_get(losses), lam, stop, job)
            pending["curves"].append(curves)
            with _told(writer):
                log(chunks.rows(episodes, curves, _since(began), job))
            if program.keeps(stop):
                pending["trajectories"].append(chunks.trajectories(records, step, program))
            if show:
                show(chunks.progress(episodes, lam, stop, stop - step, job))
            step = stop
            asked = interrupted() or (writer.path / STOP_FILE).exists()
            if asked or step == job.train.steps or _since(saved) >= job.train.checkpoint_seconds:
                with _told(writer):
                    _save(writer, pending, state, step)
                saved = time.monotonic()
            if asked:
                break
    if step < job.train.steps:
        raise Stopped(f"stopped at step {step} of {job.train.steps}, all saved in {writer.path}; go on with --resume")
    with _told(writer):
        save_policies(writer.path, job, program.trainer, state.agent, load_run(writer.path))
        writer.finish(job.train.trajectories)


@contextlib.contextmanager
def _told(writer: RunWriter) -> Iterator[None]:
    """An error of the disk says from where the run can go on."""
    try:
        yield
    except DiskError as error:
        raise DiskError(f"{error}; {_last_checkpoint(writer)}") from None


def _last_checkpoint(writer: RunWriter) -> str:
    step = writer.last_step()
    if step is None:
        return f"there is no checkpoint yet in {writer.path}"
    return f"the last checkpoint is of step {step}, in {writer.path}; go on with --resume"


def _save(writer: RunWriter, pending: dict[str, list[Columns]], state: PyTree, step: int) -> None:
    for name, tables in pending.items():
        if tables:
            writer.append(name, concatenate(tables), step)
            tables.clear()
    writer.checkpoint(to_arrays(state), step)


def _require_finite(program: Program, state: PyTree, step: int) -> None:
    if bad := program.first_bad(state):
        leaf, task, seed = bad
        where = f"seed {program.job.seeds[seed]} in {program.job.tasks[task].title}"
        if {"ring", "reservoir"} & set(leaf.split("/")):  # they hold what the environment returned
            raise NotFinite(
                f"the environment or a cost function returned a number that is not finite before step {step}, {where}; "
                "checkpoints made before are kept. Correct the function, and train again."
            )
        functions = program.job.environment.settings.get("costs")
        cause = "A cost function may have returned such a number: correct it, or train" if functions else "Train"
        raise NotFinite(
            f"'{leaf}' is not finite at step {step}, {where}; checkpoints made before are kept. "
            f"{cause} again with a smaller learning_rate."
        )


def _since(moment: float) -> float:
    return time.monotonic() - moment


def device_name() -> str:
    """Number and kind of the devices, as text."""
    device = jax.devices()[0]
    return f"{jax.device_count()} × {device.platform} ({device.device_kind})"


@contextlib.contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C, SIGTERM and SIGHUP stop after the current chunk; a second Ctrl-C stops at once, without saving.

    A second SIGTERM changes nothing: SLURM may send several. SIGHUP stays ignored if it is, as under nohup.
    """
    asked: list[int] = []

    def ask(signum: int, frame: object) -> None:
        if asked and signum == signal.SIGINT:
            raise KeyboardInterrupt("stopped at once by a second Ctrl-C; go on with --resume")
        asked.append(signum)
        with contextlib.suppress(OSError):  # the terminal may be gone
            print("stopping after this chunk; a second Ctrl-C stops at once", file=sys.stderr, flush=True)

    before: dict[signal.Signals, Any] = {}
    try:
        for number in STOPPING:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, ask)
    except ValueError:  # only the main thread can handle signals
        yield lambda: False
        return
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
