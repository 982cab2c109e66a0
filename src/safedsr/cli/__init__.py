"""Safe reinforcement learning with costs that can change.

Environments: 2-D maps (safedsr envs),
Gymnasium and gymnax (--env ID).
"""

import importlib
import os
import sys
import warnings
from typing import NamedTuple

from safedsr.cli.overview import print_overview
from safedsr.engine.compiled import keep_compiled
from safedsr.errors import EnvironmentFailed, Refusal, UserError, unknown


class Command(NamedTuple):
    """A module of safedsr.cli with a function of the command's name; the module is imported when the command runs."""

    module: str
    about: str


COMMANDS = {
    "envs": Command("maps", "List the maps and the cost shapes."),
    "show": Command("maps", "Print a map as text. With --png, also draw it."),
    "oracle": Command(
        "oracle",
        "Plan with full knowledge of the map (the oracle), simulate the plan with the ε schedule and count goals.",
    ),
    "algos": Command("runs", "List the algorithms."),
    "train": Command(
        "runs", "Train an agent: safedsr train ALGORITHM --out DIR. All flags: safedsr train ALGORITHM --help."
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
    "demo": Command(
        "runs",
        "Train an agent for some seconds, move the obstacle onto its path, adapt without new training steps, compare.",
    ),
}


UNREAD = 141  # exit code of shells for a program whose output is no longer read


def main(args: list[str] | None = None) -> int:
    """Run a command.

    Exit codes: 0 done, 1 training or check failed, 2 wrong input (one line), 130 interrupted, 141 the output is not
    read.
    """
    code = 0
    try:
        code = _main(sys.argv[1:] if args is None else args)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python prints an error at exit
        code = code or UNREAD
    return code


def _main(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        assert __doc__
        print_overview(
            "safedsr COMMAND", "…", __doc__.strip(), {name: command.about for name, command in COMMANDS.items()}
        )
        return 0 if args else 2
    keep_compiled()
    warnings.showwarning = _warn
    try:
        _run(*args)
    except BrokenPipeError:
        raise
    except (UserError, OSError) as error:
        print(f"safedsr: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except (EnvironmentFailed, FloatingPointError, Refusal) as error:
        print(f"safedsr: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"safedsr: {stop or 'interrupted'}", file=sys.stderr)
        return 130
    except SystemExit as end:  # --help, or an unknown flag
        return end.code if isinstance(end.code, int) else 2
    return 0


def _warn(message: Warning | str, *about: object, **more: object) -> None:
    """Print a warning as one line."""
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


def _run(name: str, *args: str) -> None:
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    module = importlib.import_module(f"safedsr.cli.{COMMANDS[name].module}")
    if name == "train":
        module.train_command(list(args))
    elif (name, *args[:1]) == ("reproduce", "adaptation"):
        from safedsr.cli.adaptation import adaptation_command

        adaptation_command(list(args[1:]))
    else:
        import tyro

        tyro.cli(getattr(module, name), prog=f"safedsr {name}", args=args)
