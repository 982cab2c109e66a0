"""Safe reinforcement learning with costs that can change.

Environments: 2-D maps (safedsr envs),
Gymnasium and gymnax (--env ID).

Exit codes: 0 done; 1 failed or cut short;
2 wrong input (nothing was started).
"""

import contextlib
import importlib
import io
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from safedsr.cli.overview import print_overview
from safedsr.engine.compiled import keep_compiled
from safedsr.errors import DiskError, EnvironmentFailed, Refusal, UserError, one_line, unknown

COLOUR = r"\x1b\[[0-9;]*m"  # an escape sequence of terminals


class Command(NamedTuple):
    """A module of safedsr.cli with a function of the command's name; the module is imported when the command runs."""

    module: str
    about: str


COMMANDS = {
    "envs": Command("maps", "List the maps and the cost shapes."),
    "show": Command("maps", "Print a map, or the timetable of a scenario file. With --png, also draw it."),
    "oracle": Command(
        "oracle",
        "Plan with full knowledge of the map (the oracle), simulate the plan with the ε schedule and count goals.",
    ),
    "algos": Command("runs", "List the algorithms."),
    "train": Command(
        "runs", "Train an agent: safedsr train ALGORITHM --out DIR. All flags: safedsr train ALGORITHM --help."
    ),
    "sweep": Command(
        "sweep", "Train many settings, algorithms and seeds: on this computer, a Ray cluster or SLURM. Rank them."
    ),
    "evaluate": Command(
        "runs",
        "Evaluate the policies of a run: goal rate, safe goal rate, reward and cost, with 95 % intervals.",
    ),
    "certify": Command(
        "adapt",
        "Simulate a policy and bound how often it reaches the goal within the budget. The exit code is 1 if it fails.",
    ),
    "adapt": Command("adapt", "Adapt a policy to new costs. Save the new policy and its certificate in a new folder."),
    "export": Command("export", "Write a policy as one file, ONNX or NumPy, for programs without JAX or Python."),
    "watch": Command(
        "watch", "Draw episodes of agents as a GIF or MP4 film. With --live, show the curves of a running training."
    ),
    "studio": Command("studio", "Paint costs on a map in the browser, and watch the policy adapt."),
    "report": Command(
        "report",
        "Compare runs by final evaluation, tables and curves, with 95 % intervals; experiments of the paper beside it.",
    ),
    "pack": Command("paper", "Make small copies of run folders that hold all data for tables and figures."),
    "reproduce": Command("paper", "Run the paper's experiments. The same command continues an interrupted experiment."),
    "figures": Command(
        "figures",
        "Draw the paper's figures from run folders, as PDF and PNG. Figures without data are left out.",
    ),
    "scenario": Command(
        "scenario",
        "Run the benchmark of changing constraints: scenario run FILE ALGORITHM…, scenario list, scenario report.",
    ),
    "demo": Command(
        "runs",
        "Train an agent for some seconds, move the obstacle onto its path, adapt without new training steps, compare.",
    ),
}


DONE, FAILED, WRONG = 0, 1, 2  # exit codes


def main(args: list[str] | None = None) -> int:
    """Run a command.

    Exit codes: 0 done; 1 failed or cut short (disk, environment, memory, values that are not finite, a certificate
    that is not given, a signal, output that nobody reads); 2 wrong input. The reason is one line on standard error.
    """
    code = DONE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack letters that a name has
    try:
        code = _main(sys.argv[1:] if args is None else args)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python prints an error at exit
        code = code or FAILED
    except OSError as error:  # standard output is a file on a full disk
        code = _say(f"cannot write the output: {error.strerror}", FAILED)
    return code


def _main(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        assert __doc__
        print_overview(
            "safedsr COMMAND", "…", __doc__.strip(), {name: command.about for name, command in COMMANDS.items()}
        )
        return DONE if args else WRONG
    keep_compiled()
    warnings.showwarning = _warn
    try:
        with _ended_by_signals():
            _run(*args)
    except BrokenPipeError:
        raise
    except UserError as error:
        return _say(error, WRONG)
    except (DiskError, EnvironmentFailed, FloatingPointError, Refusal) as error:
        return _say(error, FAILED)
    except OSError as error:
        return _say(f"{error.filename or 'a file'}: {error.strerror or error}", FAILED)
    except MemoryError as error:
        return _say(f"out of memory: {error}; ask for less", FAILED)
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):  # what JAX says if a device has no memory left
            raise
        return _say(f"out of memory: {error}; ask for less", FAILED)
    except KeyboardInterrupt as stop:
        return _say(str(stop) or "interrupted", FAILED)
    except SystemExit as end:  # --help
        return end.code if isinstance(end.code, int) else WRONG
    return DONE


def _say(message: object, code: int) -> int:
    """Print the reason of an exit code as one line."""
    with contextlib.suppress(OSError):  # nobody reads it
        print(f"safedsr: {one_line(message)}", file=sys.stderr)
    return code


def _warn(message: Warning | str, *about: object, **more: object) -> None:
    """Print a warning as one line, without the colours of Gymnasium's."""
    if "precision lowered by casting" in str(message):
        return  # bounds of observations in float64, which concern nobody here
    print(f"warning: {one_line(re.sub(COLOUR, '', str(message)))}", file=sys.stderr)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a command at once; a training handles them itself. An ignored SIGHUP (nohup) stays so.

    No exception is raised, because one in a callback of a library is lost. Files are complete or absent anyway.
    """

    def end(signum: int, frame: object) -> None:
        shown_again = "\x1b[?25h" if sys.stderr.isatty() else ""  # the cursor, which a spinner hides
        with contextlib.suppress(OSError):
            os.write(2, f"{shown_again}safedsr: ended by {signal.Signals(signum).name}\n".encode())
        os._exit(FAILED)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for number, handler in before.items():
            if number != signal.SIGHUP or handler != signal.SIG_IGN:
                signal.signal(number, end)
    except ValueError:  # only the main thread can handle signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _run(name: str, *args: str) -> None:
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    module = importlib.import_module(f"safedsr.cli.{COMMANDS[name].module}")
    if name == "train":
        module.train_command(list(args))
    elif name == "scenario":
        module.scenario_command(list(args))
    elif (name, *args[:1]) == ("reproduce", "adaptation"):
        from safedsr.cli.adaptation import adaptation_command

        adaptation_command(list(args[1:]))
    elif (name, *args[:1]) == ("reproduce", "transfer"):
        from safedsr.cli.transfer import transfer_command

        transfer_command(list(args[1:]))
    else:
        from safedsr.cli.parse import run_command

        run_command(getattr(module, name), f"safedsr {name}", args)
