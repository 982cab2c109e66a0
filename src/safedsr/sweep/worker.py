"""A process that finishes one run folder: all executors start this one, on whichever machine.

It gets its work as a line of JSON on standard input and answers with a line on standard output. If standard input is
closed, because the parent has ended for whatever reason, the process saves and stops as after SIGTERM.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

DONE, STOPPED, FAILED = "done", "stopped", "failed"
NAP = 0.5  # seconds between two looks at whether this process is told to stop
SAVING = 120.0  # seconds that a process gets to save after the parent asked it to stop
Started = Callable[[subprocess.Popen], None]


@dataclass(frozen=True)
class Work:
    """A run folder that is to be finished: all that a process on any machine needs to know."""

    name: str
    folder: str
    config: dict[str, Any]  # the job, as in config.json
    flags: dict[str, Any] = field(default_factory=dict)  # of an environment that is no map, see `chosen_from`
    until: int | None = None  # a step to stop at, before the end
    command: tuple[str, ...] = field(default_factory=lambda: tuple(sys.argv))  # for the manifest of the run


@dataclass(frozen=True)
class Outcome:
    """What became of a work."""

    state: str
    reason: str = ""


def finish_in_process(
    work: Work, cores: int, more: dict[str, str], log: Path, started: Started = lambda process: None
) -> Outcome:
    """Finish a work in a process of its own; a process that was killed is replaced while it makes progress."""
    before = -1
    while True:
        process = _start(work, cores, more, log)
        started(process)
        try:
            answer = _answer(process)
        except BaseException:  # this process is told to stop: the other one saves first
            stop(process)
            raise
        process.keep_open.close()  # type: ignore[attr-defined]
        if answer:
            return Outcome(**json.loads(answer))
        reached = _saved(Path(work.folder))
        if process.returncode == -signal.SIGTERM:
            return Outcome(STOPPED, "stopped before training began")
        killed = process.returncode < 0
        if not killed or reached <= before:
            how = signal.Signals(-process.returncode).name if killed else f"exit code {process.returncode}"
            hint = "; probably too little memory: use fewer --workers or a smaller --pack" if how == "SIGKILL" else ""
            return Outcome(FAILED, f"the process ended without an answer ({how}); its messages are in {log}{hint}")
        before = reached


def _answer(process: subprocess.Popen) -> str:
    """What a process writes until it ends. Ray interrupts a task between two lines of Python only, hence the naps."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=NAP)[0]


def stop(process: subprocess.Popen, *, told: bool = False) -> None:
    """Let a process save and end; after `SAVING` seconds it is killed, and the steps since its last save are lost.

    A process that was `told` already is only waited for: a second signal would end it without saving.
    """
    if not told:
        process.terminate()
    try:
        process.wait(SAVING)
    except subprocess.TimeoutExpired:
        process.kill()


def _start(work: Work, cores: int, more: dict[str, str], log: Path) -> subprocess.Popen:
    source = str(Path(__file__).parents[2])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"SAFEDSR_CORES": str(cores), "NPROC": str(cores), "PYTHONPATH": os.pathsep.join(paths)} | more
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "safedsr.sweep.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=env,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the parent only, which asks each process once
        )
    assert process.stdin
    with contextlib.suppress(BrokenPipeError):  # it has been killed already
        process.stdin.write(json.dumps(asdict(work)) + "\n")
        process.stdin.flush()
    # `communicate` would close standard input, which asks the process to stop: this end stays open with the parent.
    process.keep_open, process.stdin = process.stdin, None  # type: ignore[attr-defined]
    return process


def _saved(folder: Path) -> int:
    from safedsr.sweep.finish import saved_step

    return saved_step(folder)


def main() -> int:
    """Do the work on standard input; the answer goes to standard output, everything else to standard error."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    line = b""
    while not line.endswith(b"\n"):  # unbuffered: the thread below waits for the end of the same stream
        byte = os.read(0, 65536)
        if not byte:
            return 1
        line += byte
    work = Work(**json.loads(line))
    sys.argv = list(work.command)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    outcome = _done(work)
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(asdict(outcome)), file=answer, flush=True)
    return 0 if outcome.state == DONE else 1


def _stop_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _done(work: Work) -> Outcome:
    from safedsr.engine.compiled import keep_compiled
    from safedsr.errors import one_line

    keep_compiled()
    try:
        from safedsr.engine.lanes import use_cores
        from safedsr.runs.job import job_from_dict
        from safedsr.sweep.finish import environment_for, finish, wait_until_free

        folder = Path(work.folder)
        environment = environment_for(work.config["environment"], work.flags)
        job = job_from_dict(work.config, environment)
        use_cores(job.lanes)
        wait_until_free(folder)
        finish(job, folder, until=work.until, environment=environment)
    except KeyboardInterrupt as stop:
        return Outcome(STOPPED, one_line(stop))
    except Exception as error:  # whatever went wrong in one job must not stop the others
        traceback.print_exc()
        return Outcome(FAILED, one_line(f"{error}" or type(error).__name__))
    return Outcome(DONE)


if __name__ == "__main__":
    sys.exit(main())
