"""Helpers for all commands: flags, JSON, a spinner, tables."""

import json as jsonlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import tyro

from safedsr.errors import one_line

Json = Annotated[bool, tyro.conf.arg(name="json", help="Print JSON instead of text.")]
TASK_HELP = "Which of the run's tasks, counted from 0; a task is a map with its costs and budgets."
LayoutName = Annotated[str, tyro.conf.arg(help="A map: one-room, two-rooms, three-rooms, rooms-N or a text file.")]
CostNames = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="SHAPES",
        help="Costs, separated by commas: none, diamond, small-diamond, square, inverse-diamond or text files.",
    ),
]
Budgets = Annotated[
    str,
    tyro.conf.arg(metavar="NUMBERS", help="Cost budget of an episode: one number for all costs, or one for each cost."),
]


def print_json(data: Any) -> None:
    """Print data as one line of JSON."""
    print(jsonlib.dumps(data, ensure_ascii=False, allow_nan=False))


def busy(message: str, quiet: bool = False) -> Any:
    """A spinner on the terminal during long work."""
    from rich.console import Console
    from rich.text import Text

    return Console(stderr=True, quiet=quiet).status(Text(one_line(message)))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table that is as wide as its cells, even if the terminal is narrower. Names have no markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def plain(cell: object) -> Text:
        return Text(one_line(cell))

    above = None if title is None else Text(one_line(title), style="table.title")
    table = Table(title=above, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in columns:
        table.add_column(plain(name))
    for row in rows:
        table.add_row(*map(plain, row))

    class Screen(Console):
        """A console that leaves it to the command to say that nobody reads its output."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    needed = Console(width=1000).measure(table).maximum
    Screen(width=max(Console().width, needed)).print(table)
