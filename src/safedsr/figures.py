"""Pictures. One function a figure; matplotlib is imported here and nowhere upstream."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from safedsr.errors import UserError
from safedsr.layout import Layout, Scene

WALL, START, GOAL, PATH = "#3c3c3c", "#b2c8df", "#5aae61", "#2166ac"
COST_COLORS = ("#d6604d", "#e69f00", "#cc79a7", "#56b4e9")  # colour-blind safe, one a cost


def draw_map(axes: Axes, layout: Layout) -> None:
    """The map with its costs (Fig. 3): the darker, the dearer."""
    height, width = layout.walls.shape
    for layer, color in zip(layout.costs, COST_COLORS * len(layout.costs), strict=False):
        dearest = max(float(layer.max()), 1e-9)
        shades = LinearSegmentedColormap.from_list("cost", [(1, 1, 1, 0), color])
        axes.imshow(layer / dearest, cmap=shades, vmin=0, vmax=1, extent=(0, width, height, 0), alpha=0.75, zorder=0)
    for column, row in layout.starts[: layout.num_starts]:
        axes.add_patch(Rectangle((column, row), 1, 1, color=START, zorder=1))
    axes.add_patch(Rectangle((float(layout.goal[0]), float(layout.goal[1])), 1, 1, color=GOAL, zorder=1))
    for row, column in zip(*np.nonzero(layout.walls), strict=True):
        axes.add_patch(Rectangle((column, row), 1, 1, color=WALL, zorder=1))
    axes.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[], aspect="equal")


def draw_path(axes: Axes, path: np.ndarray, *, color: str = PATH, width: float = 1.0, alpha: float = 1.0) -> None:
    """A trajectory [steps, 2] on a map."""
    axes.plot(path[:, 0], path[:, 1], color=color, linewidth=width, alpha=alpha, zorder=2)


def map_figure(scene: Scene, paths: Sequence[np.ndarray] = (), title: str = "") -> Figure:
    """One map; the first path is drawn boldly, the others faintly."""
    return map_row([scene], [paths], [title or ", ".join([scene.name, *scene.cost_names])])


def map_row(scenes: Sequence[Scene], paths: Sequence[Sequence[np.ndarray]], titles: Sequence[str]) -> Figure:
    """Maps side by side, each with its walks."""
    height, width = (max(scene.layout.walls.shape[axis] for scene in scenes) for axis in (0, 1))
    size = (8 if len(scenes) == 1 else 3.6) / max(height, width)
    figure, panels = plt.subplots(
        1, len(scenes), figsize=(width * size * len(scenes), height * size + 0.9), layout="constrained", squeeze=False
    )
    for axes, scene, walks, title in zip(panels[0], scenes, paths, titles, strict=True):
        draw_map(axes, scene.layout)
        for index, path in enumerate(walks):
            draw_path(axes, path, width=2.0 if index == 0 else 0.8, alpha=1.0 if index == 0 else 0.35)
        axes.set_title(title, fontsize=10)
    return figure


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the ending of the file name chooses the format."""
    path = Path(path)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        raise UserError(f"cannot write a picture as '{path.name}'; possible endings: {', '.join(sorted(known))}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
