"""The list of commands, without what their flags take to load: most who ask for help ask for this."""

import shutil
import textwrap
from collections.abc import Mapping

WIDEST = 100


def print_overview(usage: str, about: str, commands: Mapping[str, str]) -> None:
    """Usage, a sentence, and what every command does."""
    width, indent = min(shutil.get_terminal_size().columns, WIDEST), max(map(len, commands)) + 4
    print(f"usage: {usage}\n\n{about}\n")
    for name, sentence in commands.items():
        text = textwrap.wrap(sentence, width - indent) or [""]
        print(f"  {name:{indent - 2}}{text[0]}")
        for line in text[1:]:
            print(" " * indent + line)
    print(f"\nFlags of one: {usage.removesuffix(' …').partition(' --')[0]} --help")
