"""Writes the tables and numbers of README.md and docs/ that come from runs: `make docs-tables`.

A page has `<!-- = NAME ARGUMENTS -->text<!-- end -->`; the text is what the function NAME in `page_data` makes of the
published data. A text of one line stands in a sentence, a longer one (a table) between blank lines. `--check` changes
nothing and fails if a page and the data differ.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import page_data

ROOT = Path(__file__).resolve().parent.parent
PLACE = re.compile(r"<!-- = (?P<call>[^>]*?) -->(?P<text>.*?)<!-- end -->", re.S)
# Markdown shows a line that begins with a comment as HTML, without its emphasis and links.
FIRST = re.compile(r"^\s*(?:[-*+>]\s+|\d+\.\s+)*<!-- = [^\n]*?<!-- end -->", re.M)


class Difference(NamedTuple):
    """A place where a page and the data differ."""

    page: Path
    call: str
    shown: str
    right: str

    def __str__(self) -> str:
        return f"{self.page}: '{self.call}' is\n  {self.shown.strip()}\nand should be\n  {self.right.strip()}"


def pages(root: Path = ROOT) -> list[Path]:
    """All pages that may have generated texts."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def renewed(text: str, page: Path) -> tuple[str, list[Difference]]:
    """A page with all its generated texts made anew, and the places that changed."""
    if wrong := FIRST.search(text):
        raise ValueError(f"{page}: '{wrong[0].strip()}' begins a line; put a word before it")
    if text.count("<!-- = ") != len(PLACE.findall(text)):
        raise ValueError(f"{page}: a '<!-- = NAME -->' without its '<!-- end -->'")
    changed: list[Difference] = []

    def place(found: re.Match) -> str:
        right = _made(found["call"], page)
        if right != found["text"]:
            changed.append(Difference(page, found["call"], found["text"], right))
        return f"<!-- = {found['call']} -->{right}<!-- end -->"

    return PLACE.sub(place, text), changed


def _made(call: str, page: Path) -> str:
    name, *arguments = call.split()
    if name not in page_data.TEXTS:
        raise ValueError(f"{page}: no text has the name '{name}'; there are {', '.join(sorted(page_data.TEXTS))}")
    try:
        text = page_data.TEXTS[name](*arguments)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{page}: '{call}' cannot be made: {type(error).__name__}: {error}") from error
    return f"\n\n{text}\n\n" if "\n" in text else text


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite or check all pages, or those that are named; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="*", type=Path, help="default: README.md and docs/**/*.md")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 if a page and the data differ"
    )
    parser.add_argument("--list", action="store_true", help="the names of all texts and their arguments")
    args = parser.parse_args(arguments)
    if args.list:
        print("\n".join(page_data.listed()))
        return 0
    differences: list[Difference] = []
    for page in args.page or pages():
        try:
            text, changed = renewed(page.read_text(encoding="utf-8"), page)
        except (ValueError, OSError) as error:
            print(error, file=sys.stderr)
            return 2
        differences += changed
        if changed and not args.check:
            page.write_text(text, encoding="utf-8")
    for one in differences:
        print(one)
    if args.check and differences:
        print(f"{len(differences)} differ; run make docs-tables", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
