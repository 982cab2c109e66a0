"""Save figures: in the format of the file name, or as PDF and PNG."""

import io
import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text

from safedsr.errors import UserError
from safedsr.figures.style import paper_style
from safedsr.runs.storage import make_folder, require_own, write_atomic

SCREEN, PAPER = 150, 300  # dots per inch
MARK = "safedsr"  # in every file, so that it may be drawn again
CREATORS = {"png": "Software", "pdf": "Creator", "svg": "Creator", "eps": "Creator", "ps": "Creator"}  # where it is


def save(figure: Figure, path: str | Path) -> Path:
    """Save a figure; the ending of the file name sets the format."""
    path = Path(path)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        raise UserError(f"cannot write a picture as '{path.name}'; possible endings: {', '.join(sorted(known))}")
    make_folder(path.parent)
    _write(figure, path, dpi=SCREEN)
    return path


def _write(figure: Figure, path: Path, **how: Any) -> None:
    """Draw a figure in memory and write its file, if the file is new or was drawn by safedsr before."""
    require_own(path, (MARK.encode(),))
    kind, drawn = path.suffix.lstrip(".").lower(), io.BytesIO()
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # type: ignore[attr-defined]  # a name may have a dollar
    about = {} if kind not in CREATORS else {"metadata": {CREATORS[kind]: MARK, **how.pop("metadata", {})}}
    figure.savefig(drawn, format=kind, **about, **how)
    write_atomic(path, lambda file: file.write_bytes(drawn.getvalue()))


@paper_style()
def save_for_print(figure: Figure, folder: Path, name: str) -> Path:
    """Save NAME.pdf (vector) and NAME.png in a folder, with the same bytes each time; return the path of the PNG."""
    name = re.sub(r"[^\w.]+", "-", name)  # names of costs and maps can have any characters
    make_folder(folder)
    _write(figure, folder / f"{name}.pdf", dpi=PAPER, metadata={"CreationDate": None})
    figure.set_layout_engine("none")  # reuse the layout of the PDF: it takes half the time
    _write(figure, folder / f"{name}.png", dpi=SCREEN * 4 / 3)
    return folder / f"{name}.png"
