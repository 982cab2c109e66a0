"""Errors that users can cause, with messages that help to correct them."""

import difflib
from collections.abc import Iterable

LONGEST_LINE = 2000  # characters of a message


class UserError(ValueError):
    """The input is wrong; the message says what was given, what is possible and what to do.

    The command line prints the message as one line and exits with status 2.
    """


class Refusal(Exception):
    """A requested check has failed although the input is correct; the command exits with status 1."""


class DiskError(Exception):
    """A file or folder cannot be written: the disk is full, read-only or gone; the command exits with status 1."""


class ChangedFunction(UserWarning):
    """A function of the user has the same name as at the training and another text."""


class EnvironmentFailed(Exception):
    """An environment, or a function of its steps, raised an error or returned what cannot be used.

    The command line prints the message as one line and exits with status 1.
    """


def one_line(text: object) -> str:
    """A message as one line without control characters, so that a name in it cannot change the terminal."""
    words = " ".join(str(text).split())
    if len(words) > LONGEST_LINE:
        words = f"{words[:LONGEST_LINE]}…"
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in words)


def unknown(kind: str, given: str, known: Iterable[str]) -> UserError:
    """An error for an unknown name, which suggests the most similar known name."""
    names = sorted(set(known))
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"
    return UserError(f"unknown {kind} '{given}'; {hint}")
