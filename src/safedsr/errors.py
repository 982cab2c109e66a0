"""The one error a user can cause, and the words that help to mend it."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something the caller gave is wrong; the message says what, what is possible and what to do.

    The command line prints it as one line and exits with 2.
    """


class Refusal(Exception):
    """A check that the caller asked for has failed, and nothing is wrong with the input: the command exits with 1."""


def unknown(kind: str, given: str, known: Iterable[str]) -> UserError:
    """An error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"
    return UserError(f"unknown {kind} '{given}'; {hint}")
