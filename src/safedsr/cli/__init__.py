"""Constrained reinforcement learning where the constraints change."""

import importlib
import os
import sys
from typing import NamedTuple

from safedsr.cli.overview import print_overview
from safedsr.engine.compiled import keep_compiled
from safedsr.errors import Refusal, UserError, unknown


class Command(NamedTuple):
    """A function of the command's name in a module of ours, which is not imported before it is wanted."""

    module: str
    about: str


COMMANDS = {
    "envs": Command("maps", "List the maps and the cost shapes."),
    "show": Command("maps", "Print a map as text, and draw it on request."),
    "oracle": Command("oracle", "Plan the safest short way, walk it on the ε schedule and count the goals."),
    "algos": Command("runs", "List the algorithms."),
    "train": Command(
        "runs", "Train an agent: safedsr train ALGORITHM --out DIR (its flags: safedsr train ALGORITHM --help)."
    ),
    "evaluate": Command(
        "runs",
        "Walk the policies of a run and report goal rate, safe goal rate, reward and cost with 95 % intervals.",
    ),
    "certify": Command(
        "adapt",
        "Walk a policy and say with what confidence it reaches the goal within the budget; exits with 1 if it fails.",
    ),
    "adapt": Command(
        "adapt", "Adapt a policy to other costs and write it, with its certificate, to a folder of its own."
    ),
    "report": Command(
        "runs",
        "Show run folders beside the printed tables: mean, std, p25, IQM with 95 % interval, p75 over seeds, verdict.",
    ),
    "pack": Command("paper", "Pack run folders: what tables and figures need, small enough to commit."),
    "reproduce": Command("paper", "Run the paper's experiments; the same command goes on with what was stopped."),
    "figures": Command(
        "figures",
        "Draw the paper's figures from run folders, as PDF and PNG; what is missing in them is left out.",
    ),
    "demo": Command(
        "runs",
        "Train an agent for a moment, move the obstacle into its way, adapt it without a new step and compare.",
    ),
}


UNREAD = 141  # what a shell says of a program whose reader has gone


def main(args: list[str] | None = None) -> int:
    """Run a command; 0 done, 1 broke down or a check failed, 2 bad input (one line, no traceback), 130 stopped."""
    code = UNREAD
    try:
        code = _main(sys.argv[1:] if args is None else args)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains at its end
    return code


def _main(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        assert __doc__
        print_overview("safedsr COMMAND", "…", __doc__, {name: command.about for name, command in COMMANDS.items()})
        return 0 if args else 2
    keep_compiled()
    try:
        _run(*args)
    except BrokenPipeError:
        raise
    except (UserError, OSError) as error:
        print(f"safedsr: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, Refusal) as error:
        print(f"safedsr: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"safedsr: {stop or 'interrupted'}", file=sys.stderr)
        return 130
    except SystemExit as end:  # help, or flags that nobody knows
        return end.code if isinstance(end.code, int) else 2
    return 0


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
