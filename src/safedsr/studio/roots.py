"""Which run folders the studio may open: those that were given, and those inside folders that were given."""

from collections.abc import Sequence
from pathlib import Path

from safedsr.errors import UserError, unknown
from safedsr.runs.about import ABOUT
from safedsr.runs.schema import MANIFEST
from safedsr.runs.shipped import PREFIX, folder_of

MOST_RUNS = 500


class Roots:
    """The given folders. Runs are named as they were given, or by their path inside a given folder."""

    def __init__(self, given: Sequence[Path]) -> None:
        self.given = tuple(given)
        self.saved: list[Path] = []  # folders that the studio wrote itself
        if not self.runs():
            raise UserError(f"there is no run folder in {', '.join(map(str, given))}; give a folder of 'safedsr train'")

    def runs(self) -> dict[str, Path]:
        """All run folders by their names, those of trainings that have begun since included."""
        found: dict[str, Path] = {}
        for given in (*self.given, *self.saved):
            folder = folder_of(given)
            for run in [given] if is_run(folder) else _inside(folder):
                if len(found) < MOST_RUNS:
                    found.setdefault(str(run), run)
        return found

    def find(self, name: str) -> Path:
        """The run folder of this name, or the first one for an empty name."""
        runs = self.runs()
        if name and name not in runs:
            raise unknown("run", name, runs)
        return runs[name] if name else next(iter(runs.values()))


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a training or of a policy."""
    return (folder / ABOUT).is_file() or (folder / MANIFEST).is_file()


def _inside(root: Path) -> list[Path]:
    if not root.is_dir():
        raise UserError(f"{root} is no folder; give a run folder, a folder that holds some, or {PREFIX}NAME")
    found = {file.parent for name in (ABOUT, MANIFEST) for file in root.rglob(name)}
    return sorted(run for run in found if run.resolve().is_relative_to(root.resolve()))
