"""Pictures of maps with costs and paths (Figs. 3 and 12)."""

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout, Scene
from safedsr.figures.style import WIDTH, paper_style

WALL, START, GOAL, PATH = "#3c3c3c", "#b2c8df", "#5aae61", "#2166ac"
COST_COLORS = ("#d6604d", "#e69f00", "#cc79a7", "#56b4e9")  # colour-blind safe, one for each cost
FAINT = 0.75  # opacity of costs


def draw_map(axes: Axes, layout: Layout, *, cells: bool = False, colors: Sequence[str] = COST_COLORS) -> None:
    """Draw a map with its costs (Fig. 3); darker cells cost more. With `cells`, also draw the lines between cells."""
    height, width = layout.walls.shape
    for layer, color in zip(layout.costs, itertools.cycle(colors), strict=False):
        highest = max(float(layer.max()), 1e-9)
        shades = LinearSegmentedColormap.from_list("cost", [(1, 1, 1, 0), color])
        axes.imshow(layer / highest, cmap=shades, vmin=0, vmax=1, extent=(0, width, height, 0), alpha=FAINT, zorder=0)
    for column, row in layout.starts[: layout.num_starts]:
        axes.add_patch(Rectangle((column, row), 1, 1, color=START, zorder=1))
    axes.add_patch(Rectangle((float(layout.goal[0]), float(layout.goal[1])), 1, 1, color=GOAL, zorder=1))
    for row, column in zip(*np.nonzero(layout.walls), strict=True):
        axes.add_patch(Rectangle((column, row), 1, 1, color=WALL, zorder=1))
    if cells:
        axes.vlines(range(1, width), 0, height, color="black", linewidth=0.3, alpha=0.2, zorder=1)
        axes.hlines(range(1, height), 0, width, color="black", linewidth=0.3, alpha=0.2, zorder=1)
    axes.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[], aspect="equal")
    for spine in axes.spines.values():
        spine.set_visible(True)


def draw_path(axes: Axes, path: np.ndarray, *, color: str = PATH, width: float = 1.0, alpha: float = 1.0) -> None:
    """Draw a trajectory [steps, 2] on a map."""
    axes.plot(path[:, 0], path[:, 1], color=color, linewidth=width, alpha=alpha, zorder=2)


def map_figure(scene: Scene, paths: Sequence[np.ndarray] = (), title: str = "") -> Figure:
    """One map; the first path is bold, the others are faint."""
    return map_row([scene], [paths], [title or ", ".join([scene.name, *scene.cost_names])])


def map_row(scenes: Sequence[Scene], paths: Sequence[Sequence[np.ndarray]], titles: Sequence[str]) -> Figure:
    """Maps side by side, each with its paths."""
    height, width = (max(scene.layout.walls.shape[axis] for scene in scenes) for axis in (0, 1))
    size = (8 if len(scenes) == 1 else 3.6) / max(height, width)
    figure = Figure(figsize=(width * size * len(scenes), height * size + 0.9), layout="constrained")
    panels = figure.subplots(1, len(scenes), squeeze=False)
    for axes, scene, some, title in zip(panels[0], scenes, paths, titles, strict=True):
        draw_map(axes, scene.layout)
        for index, path in enumerate(some):
            draw_path(axes, path, width=2.0 if index == 0 else 0.8, alpha=1.0 if index == 0 else 0.35)
        axes.set_title(title, fontsize=10)
    return figure


@paper_style()
def grid_figure(scene: Scene, config: GridConfig | None = None) -> Figure:
    """Fig. 3: one map with its cells, a legend, and the range of each action."""
    config = config or GridConfig()
    height, width = scene.layout.walls.shape
    size = min(WIDTH / width, 0.32)
    across = max(width * size + 0.2, 3.4)
    figure = Figure(figsize=(across, height * size + 0.7), layout="constrained")
    axes = figure.subplots()
    draw_map(axes, scene.layout, cells=True)
    x, y = _free_corner(scene.layout)
    spread = config.step_clip * config.step_std
    for dx, dy in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        ends = np.array([config.step_mean - spread, config.step_mean + spread])
        axes.annotate(
            "",
            (x + dx * config.step_mean, y + dy * config.step_mean),
            (x, y),
            arrowprops={"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "color": PATH, "linewidth": 1.0},
        )
        axes.plot(x + dx * ends, y + dy * ends, color=PATH, linewidth=3, alpha=0.3, solid_capstyle="butt", zorder=2)
    axes.plot([x], [y], "o", color=PATH, markersize=4, zorder=3)
    figure.legend(handles=_key(scene), loc="outside lower center", ncols=6 if across > 5 else 2)
    return figure


def _free_corner(layout: Layout) -> tuple[float, float]:
    """The middle of a cell near the start, where arrows cover nothing else."""
    height = layout.walls.shape[0]
    column, row = layout.starts[0]
    return float(column) + 1.5, float(row) - 2.5 if row >= 3 else min(float(row) + 3.5, height - 0.5)


def _key(scene: Scene) -> list[Patch]:
    named = {"start": START, "goal": GOAL}
    if scene.layout.walls.any():
        named["wall"] = WALL
    patches = [Patch(color=color, label=name) for name, color in named.items()]
    for name, color in zip(scene.cost_names, itertools.cycle(COST_COLORS), strict=False):
        patches.append(Patch(color=color, alpha=FAINT, label=f"cost ({name})"))
    return [*patches, Patch(color=PATH, label="agent and its four actions")]


@paper_style()
def environments_figure(scenes: Sequence[Scene]) -> Figure:
    """Fig. 12: all maps at the same scale; a row for each choice of costs."""
    placed = {(scene.cost_names, scene.name): scene for scene in scenes}
    rows, columns = (list(dict.fromkeys(keys)) for keys in zip(*placed, strict=True))
    sizes = [max(s.layout.walls.shape[::-1] for s in scenes if s.name == name) for name in columns]
    widths, tallest = [width for width, _ in sizes], max(height for _, height in sizes)
    size = min(WIDTH / (sum(widths) + len(widths)), 0.3)
    height = len(rows) * (tallest * size + 0.5)
    figure = Figure(figsize=(size * (sum(widths) + len(widths)), height), layout="constrained")
    panels = figure.subplots(len(rows), len(columns), squeeze=False, width_ratios=widths)
    for (row, column), axes in np.ndenumerate(panels):
        scene = placed.get((rows[row], columns[column]))
        axes.set_visible(scene is not None)
        if scene:
            draw_map(axes, scene.layout)
            axes.set_title("\n".join([scene.name, ", ".join(scene.cost_names)]).strip())
    return figure
