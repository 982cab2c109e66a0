"""The program of a job."""

from safedsr.engine.program import Program
from safedsr.runs.job import Job


def program_for(job: Job) -> Program:
    """A program that is compiled together with its environment, or around an environment on the host."""
    if job.environment.host is None:
        return Program(job)
    from safedsr.engine.host_loop import HostProgram  # imports Gymnasium

    return HostProgram(job)
