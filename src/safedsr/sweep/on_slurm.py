"""Works as a job array of SLURM, through submitit. A job that is preempted or out of time saves and is requeued."""

import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.sweep.base import LOGS, Where
from safedsr.sweep.worker import FAILED, Outcome, Work, finish_in_process, stop

FOLDER = "slurm"  # for the scripts and messages of submitit
JOBS = "jobs.json"  # there: which job of SLURM does which work
POLL = 0.5  # seconds between two looks at the jobs
REQUEUES = 10_000  # how often a job that is out of time goes on
GRACE = 600.0  # seconds that a job whose run is saved waits for SLURM to end it
ALIVE = ("PENDING", "RUNNING", "REQUEUED", "PREEMPTED", "SUSPENDED", "CONFIGURING")


class OnSlurm:
    """One job array for each call of `start`; the folder of the sweep must be visible on all nodes.

    Jobs go on if this process ends. The next command finds them by jobs.json and waits for them.
    """

    def __init__(self, out: Path, where: Where, cluster: str) -> None:
        self._out = out.absolute()
        self._cores = where.cores or 1
        self._jobs: dict[str, submitit.Job] = {}
        try:
            self._executor = submitit.AutoExecutor(
                folder=self._out / FOLDER, cluster=cluster, slurm_max_num_timeout=REQUEUES
            )
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
        self._jobs |= self._alive(works)
        new = [work for work in works if work.name not in self._jobs]
        if new:
            tasks = [Requeued(work, self._cores, str(self._out / LOGS / f"{work.name}.log")) for work in new]
            with self._executor.batch():
                jobs = [self._executor.submit(task) for task in tasks]
            self._jobs |= {work.name: job for work, job in zip(new, jobs, strict=True)}
        ids = {_key(work): self._jobs[work.name].job_id for work in works}
        storage.write_json(self._out / FOLDER / JOBS, ids)

    def _alive(self, works: Sequence[Work]) -> dict[str, submitit.Job]:
        """The jobs that an earlier command, which has ended, started for the same works, and that still go on."""
        file = self._out / FOLDER / JOBS
        ids = storage.read_json(file) if file.exists() else {}
        jobs = {w.name: submitit.SlurmJob(self._out / FOLDER, ids[_key(w)], [0]) for w in works if _key(w) in ids}
        if jobs:
            submitit.SlurmJob.watcher.update()  # one question about all of them
        return {name: job for name, job in jobs.items() if job.watcher.get_state(job.job_id, mode="cache") in ALIVE}

    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        end = time.monotonic() + seconds
        while True:
            ended = [name for name, job in self._jobs.items() if job.done()]
            if ended or time.monotonic() >= end:
                return [(name, _outcome(self._jobs.pop(name))) for name in ended]
            time.sleep(min(POLL, seconds))

    def stop(self) -> None:
        for job in self._jobs.values():
            job.cancel(check=False)
        (self._out / FOLDER / JOBS).unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing to release: jobs belong to SLURM."""


def _key(work: Work) -> str:
    return f"{work.name} to {work.until or 'the end'}"


def _outcome(job: submitit.Job) -> Outcome:
    try:
        return job.result()
    except (FailedJobError, UncompletedJobError) as error:
        return Outcome(FAILED, str(error).strip().splitlines()[-1])


class Requeued:
    """A work that submitit or SLURM can put back into the queue: before that, its process saves."""

    def __init__(self, work: Work, cores: int, log: str) -> None:
        self.work, self.cores, self.log = work, cores, log
        self._process: subprocess.Popen | None = None

    def __call__(self) -> Outcome:
        def started(process: subprocess.Popen) -> None:
            self._process = process

        signal.signal(signal.SIGTERM, self._save)  # of a preemption or scancel; submitit would ignore it
        return finish_in_process(self.work, self.cores, {}, Path(self.log), started)

    def _save(self, *_: Any) -> None:
        """Save, then wait to be ended: a job that ended by itself would not be requeued by SLURM."""
        self._stop()
        time.sleep(GRACE)

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Called by submitit on the signal before a preemption or the end of the time."""
        self._stop()
        return submitit.helpers.DelayedSubmission(Requeued(self.work, self.cores, self.log))

    def _stop(self) -> None:
        if self._process:
            stop(self._process)
