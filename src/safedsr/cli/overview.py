"""The list of commands. It is printed without loading the flags of the commands, and is therefore fast."""

import shutil
import textwrap
from collections.abc import Mapping

NARROWEST, WIDEST = 40, 100


def print_overview(command: str, flags: str, about: str, choices: Mapping[str, str]) -> None:
    """Print usage, a description, and a description of every choice."""
    width, indent = min(shutil.get_terminal_size().columns, WIDEST), max(map(len, choices)) + 4
    print(f"usage: {command} {flags}\n\n{about}\n")
    for name, sentence in choices.items():
        first, *rest = textwrap.wrap(sentence, max(width, NARROWEST) - indent)
        print(f"  {name:{indent - 2}}{first}")
        for line in rest:
            print(" " * indent + line)
    print(f"\nFor the flags: {command} --help")
