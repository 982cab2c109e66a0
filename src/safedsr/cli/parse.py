"""Command lines: a wrong one is told in one line with the nearest right flag; the box of tyro comes with --help."""

import contextlib
import difflib
import functools
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from safedsr.errors import UserError

BOX = re.compile(r"[│─╭╮╰╯|]+")
WORDS = {
    r"no type matching .*<class '(?:int|float)'>: (.*?)[ -]*$": r"\1",  # a number or nothing
    r"invalid literal for int\(\) with base 10: (.*)": r"\1 is no whole number",
    r"could not convert string to float: (.*)": r"\1 is no number",
}


def run_command(function: Callable[..., None], prog: str, args: Sequence[str]) -> None:
    """Run a command with the arguments of a command line."""
    call, complaint = _parsed(function, prog, args)
    if call is None:
        raise UserError(f"{_in_words(complaint, lambda: _flags(function, prog))} (all flags: {prog} --help)")
    call()


def _parsed(function: Callable[..., None], prog: str, args: Sequence[str]) -> tuple[Callable[[], None] | None, str]:
    """The call that the arguments ask for, or None and what tyro says about them."""

    @functools.wraps(function)
    def later(*given: Any, **named: Any) -> Callable[[], None]:
        return lambda: function(*given, **named)

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(later, prog=prog, args=list(args)), ""
    except SystemExit as end:
        if not end.code:  # --help
            raise
        return None, said.getvalue()


def _flags(function: Callable[..., None], prog: str) -> list[str]:
    """All flags of a command, from its help."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        tyro.cli(function, prog=prog, args=["--help"])
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", shown.getvalue())))


def _in_words(complaint: str, flags: Callable[[], list[str]]) -> str:
    """What tyro says in its box, in one line."""
    lines = [BOX.sub(" ", line).strip() for line in complaint.splitlines()]
    title, *lines = [line for line in lines if line] or [""]
    text = " ".join(lines)
    if found := re.search(r"Unrecognized options: (.*?)(?: Perhaps you meant| For full helptext|$)", text):
        words = found[1].split(", ")
        wrong = next((word for word in words if word.startswith("-")), None)
        if wrong:
            flag = wrong.partition("=")[0]
            near = difflib.get_close_matches(flag, flags(), n=1, cutoff=0.5)
            return f"unknown flag '{flag}'" + (f"; did you mean '{near[0]}'?" if near else "")
        return f"'{words[0]}' is not expected here"
    if title == "Required options":
        missing = re.findall(r"((?:--[\w-]+ )?[A-Z{]\S*) (\S.*?) ?\(required\)", text.partition(": ")[2])
        return "missing: " + ", ".join(f"{name} ({about.rstrip('.')})" for name, about in missing)
    if found := re.search(r"Error parsing (.*?): (.*?)(?: Argument helptext| For full helptext|$)", text):
        what = found[2]
        for pattern, words in WORDS.items():
            what = re.sub(pattern, words, what)
        return f"{found[1]}: {what}"
    return (text.partition(" For full helptext")[0] or title).rstrip(".")
