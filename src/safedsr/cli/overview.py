"""The list of commands, without what their flags take to load: most who ask for help ask for this."""

import shutil
import textwrap
from collections.abc import Mapping

NARROWEST, WIDEST = 40, 100


def print_overview(command: str, flags: str, about: str, choices: Mapping[str, str]) -> None:
    """Usage, a sentence, and what every choice does."""
    width, indent = min(shutil.get_terminal_size().columns, WIDEST), max(map(len, choices)) + 4
    print(f"usage: {command} {flags}\n\n{about}\n")
    for name, sentence in choices.items():
        first, *rest = textwrap.wrap(sentence, max(width, NARROWEST) - indent)
        print(f"  {name:{indent - 2}}{first}")
        for line in rest:
            print(" " * indent + line)
    print(f"\nFlags of one: {command} --help")
