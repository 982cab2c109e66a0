"""Works as a job array of SLURM, through submitit. A job that is preempted or out of time saves and is requeued."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError

from safedsr.errors import UserError
from safedsr.sweep.base import LOGS, Where
from safedsr.sweep.worker import FAILED, Outcome, Work, finish_in_process, stop

FOLDER = "slurm"  # for the scripts and messages of submitit
POLL = 0.5  # seconds between two looks at the jobs


class OnSlurm:
    """One job array for each call of `start`; the folder of the sweep must be visible on all nodes."""

    def __init__(self, out: Path, where: Where) -> None:
        self._out = out.absolute()
        self._cores = where.cores or 1
        self._jobs: dict[str, submitit.Job] = {}
        try:
            self._executor = submitit.AutoExecutor(folder=self._out / FOLDER, cluster=where.cluster)
        except RuntimeError as error:
            raise UserError(f"SLURM cannot be used here: {error}; use --executor local or ray") from None
        settings: dict[str, Any] = {
            "timeout_min": max(round(60 * where.hours), 1),
            "cpus_per_task": self._cores,
            "name": "safedsr",
        }
        if where.gpus:
            settings["gpus_per_node"] = where.gpus
        if where.partition:
            settings["slurm_partition"] = where.partition
        if where.workers:
            settings["slurm_array_parallelism"] = where.workers
        self._executor.update_parameters(**settings)

    def start(self, works: Sequence[Work]) -> None:
        tasks = [Requeued(work, self._cores, str(self._out / LOGS / f"{work.name}.log")) for work in works]
        with self._executor.batch():
            jobs = [self._executor.submit(task) for task in tasks]
        self._jobs.update(zip((work.name for work in works), jobs, strict=True))

    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        end = time.monotonic() + seconds
        while True:
            ended = [name for name, job in self._jobs.items() if job.done()]
            if ended or time.monotonic() >= end:
                return [(name, _outcome(self._jobs.pop(name))) for name in ended]
            time.sleep(min(POLL, seconds))

    def stop(self) -> None:
        for job in self._jobs.values():
            job.cancel()

    def close(self) -> None:
        """Nothing to release: jobs belong to SLURM."""


def _outcome(job: submitit.Job) -> Outcome:
    try:
        return job.result()
    except (FailedJobError, UncompletedJobError) as error:
        return Outcome(FAILED, str(error).strip().splitlines()[-1])


class Requeued:
    """A work that submitit can put back into the queue: before that, its process saves."""

    def __init__(self, work: Work, cores: int, log: str) -> None:
        self.work, self.cores, self.log = work, cores, log
        self._process: subprocess.Popen | None = None

    def __call__(self) -> Outcome:
        def started(process: subprocess.Popen) -> None:
            self._process = process

        return finish_in_process(self.work, self.cores, {}, Path(self.log), started)

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Called by submitit on the signal before a preemption or the end of the time."""
        if self._process:
            stop(self._process)
        return submitit.helpers.DelayedSubmission(Requeued(self.work, self.cores, self.log))
