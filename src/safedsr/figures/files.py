"""Figures as files: any format by its ending, or PDF and PNG together."""

import re
from pathlib import Path

from matplotlib.figure import Figure

from safedsr.errors import UserError
from safedsr.figures.style import printed

SCREEN, PAPER = 150, 300  # dots an inch


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the ending of the file name chooses the format."""
    path = Path(path)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        raise UserError(f"cannot write a picture as '{path.name}'; possible endings: {', '.join(sorted(known))}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=SCREEN)
    return path


@printed()
def save_for_print(figure: Figure, folder: Path, name: str) -> Path:
    """Write NAME.pdf (vector) and NAME.png into a folder, the same bytes each time; gives the PNG's path."""
    name = re.sub(r"[^\w.]+", "-", name)  # costs and maps may be called anything
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.pdf", dpi=PAPER, metadata={"CreationDate": None})
    figure.set_layout_engine("none")  # the places found for the first file serve the second, in half the time
    figure.savefig(folder / f"{name}.png", dpi=SCREEN * 4 / 3)
    return folder / f"{name}.png"
