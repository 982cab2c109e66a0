"""Run the experiments. Finished runs are skipped, interrupted runs continue, and all folders are checked first."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from safedsr.agents.registry import find_algorithm
from safedsr.engine.lanes import use_cores
from safedsr.engine.progress import Progress, ShowJob
from safedsr.engine.train import NotFinite
from safedsr.envs.grid.config import GridConfig
from safedsr.errors import UserError, unknown
from safedsr.paper.experiments import EXPERIMENTS, QUICK_SETTINGS, RunGroup, shorten
from safedsr.runs.config import Matmul, TrainConfig
from safedsr.runs.job import Job, grid_job, tasks_for
from safedsr.sweep.finish import finish, standing
from safedsr.validation import with_settings

COMPILING = 15.0  # seconds per job, on two cores
STEP_SECONDS = 17e-6  # per step of an on-policy baseline
SAMPLE_SECONDS = {"safedqn": 4e-6, "safedsr": 16e-6, "dsr": 16e-6, "safedsr-plus": 4e-6}  # per transition in a batch


class PlannedRun(NamedTuple):
    """A run that is to be done, and the name of its folder."""

    name: str
    job: Job

    @property
    def work(self) -> float:
        """Estimated seconds on two cores."""
        job, agent = self.job, self.job.agent
        seconds = STEP_SECONDS
        if job.algorithm in SAMPLE_SECONDS:
            seconds = SAMPLE_SECONDS[job.algorithm] * agent.update_steps * agent.batch_size / agent.train_every
        return COMPILING + seconds * job.train.steps * len(job.seeds) * len(job.tasks)


def plan(
    experiment: str,
    *,
    quick: bool = False,
    algos: Sequence[str] = (),
    layouts: Sequence[str] = (),
    seeds: int | None = None,
    runs: Sequence[str] = (),
    matmul: Matmul = TrainConfig.matmul,
) -> list[PlannedRun]:
    """The runs of an experiment: all of them, or only the given algorithms, maps, number of seeds and run folders."""
    if experiment not in EXPERIMENTS:
        raise unknown("experiment", experiment, EXPERIMENTS)
    rows = [shorten(row) if quick else row for row in EXPERIMENTS[experiment]]
    known = {algorithm for row in rows for algorithm in row.algorithms}
    for algorithm in algos:
        if find_algorithm(algorithm).name not in known:
            raise UserError(f"{algorithm} is not part of '{experiment}'; its algorithms are {', '.join(sorted(known))}")
    rows = [row._replace(layouts=tuple(layouts) or row.layouts) for row in rows]
    names = [row.folder(algorithm) for row in rows for algorithm in row.algorithms]
    for name in runs:
        if name not in names:
            raise unknown(f"run of '{experiment}'", name, names)
    return [
        plan_run(row if seeds is None else row._replace(seeds=seeds), algorithm, quick, matmul)
        for row in rows
        for algorithm in row.algorithms
        if (not algos or algorithm in algos) and (not runs or row.folder(algorithm) in runs)
    ]


def plan_run(row: RunGroup, algorithm: str, quick: bool = False, matmul: Matmul = TrainConfig.matmul) -> PlannedRun:
    """The run of one algorithm of a group."""
    settings = {**(QUICK_SETTINGS[algorithm] if quick else {}), **row.settings}
    agent = with_settings(find_algorithm(algorithm).settings(row.preset), settings)
    tasks = tasks_for(algorithm, row.layouts, row.costs, row.budget)
    # All chunks of a short run have the same length: another length would be compiled again.
    chunk = agent.period if quick else None
    training = TrainConfig(steps=row.steps, chunk=chunk, trajectories=row.trajectories, matmul=matmul)
    seeds = tuple(range(row.first_seed, row.first_seed + row.seeds))
    job = grid_job(algorithm, tasks, seeds, agent, GridConfig(**row.grid), training)
    return PlannedRun(row.folder(algorithm), job)


def reproduce(planned: Iterable[PlannedRun], out: Path, show: ShowJob | None = None) -> list[str]:
    """Finish all planned runs in folders under `out`; return the errors of trainings that failed."""
    planned = list(planned)
    for one in planned:
        standing(one.job, out / one.name)
    total, before, broken = sum(one.work for one in planned), 0.0, []
    use_cores(max((one.job.lanes for one in planned), default=1))
    for i, one in enumerate(planned):
        title = f"{one.name} ({i + 1} of {len(planned)})"

        def share(p: Progress, title: str = title, one: PlannedRun = one, before: float = before) -> None:
            if show:
                show(title, p, (before + one.work * p.step / p.steps) / total)

        try:
            finish(one.job, out / one.name, share)
        except NotFinite as error:
            broken.append(f"{one.name}: {error}")
        before += one.work
    return broken


def share_done(planned: Sequence[PlannedRun], out: Path) -> float:
    """The share of the work that is already done."""
    done = sum(one.work for one in planned if standing(one.job, out / one.name) == "done")
    return done / sum(one.work for one in planned)
