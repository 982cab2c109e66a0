"""What the commands share: flags, JSON, a spinner, tables."""

import json as jsonlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import tyro

Json = Annotated[bool, tyro.conf.arg(name="json", help="Print JSON for machines.")]
LayoutName = Annotated[str, tyro.conf.arg(help="A map: one-room, two-rooms, three-rooms, rooms-N or a text file.")]
CostNames = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="SHAPES",
        help="Costs, separated by commas: none, diamond, small-diamond, square, inverse-diamond or text files.",
    ),
]
Budgets = Annotated[
    str, tyro.conf.arg(metavar="NUMBERS", help="Cost budget an episode, one for all costs or one each.")
]


def print_json(data: Any) -> None:
    """One line for machines."""
    print(jsonlib.dumps(data, ensure_ascii=False, allow_nan=False))


def busy(message: str, quiet: bool = False) -> Any:
    """A spinner on the terminal while something takes its time."""
    from rich.console import Console

    return Console(stderr=True, quiet=quiet).status(message)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table for people, as wide as its cells: a long line is easier to read than a cell of three letters."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    needed = Console(width=1000).measure(table).maximum
    Console(width=max(Console().width, needed)).print(table)
