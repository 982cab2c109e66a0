"""Save figures: in the format of the file name, or as PDF and PNG."""

import re
from pathlib import Path

from matplotlib.figure import Figure

from safedsr.errors import UserError
from safedsr.figures.style import paper_style

SCREEN, PAPER = 150, 300  # dots per inch


def save(figure: Figure, path: str | Path) -> Path:
    """Save a figure; the ending of the file name sets the format."""
    path = Path(path)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        raise UserError(f"cannot write a picture as '{path.name}'; possible endings: {', '.join(sorted(known))}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=SCREEN)
    return path


@paper_style()
def save_for_print(figure: Figure, folder: Path, name: str) -> Path:
    """Save NAME.pdf (vector) and NAME.png in a folder, with the same bytes each time; return the path of the PNG."""
    name = re.sub(r"[^\w.]+", "-", name)  # names of costs and maps can have any characters
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.pdf", dpi=PAPER, metadata={"CreationDate": None})
    figure.set_layout_engine("none")  # reuse the layout of the PDF: it takes half the time
    figure.savefig(folder / f"{name}.png", dpi=SCREEN * 4 / 3)
    return folder / f"{name}.png"
