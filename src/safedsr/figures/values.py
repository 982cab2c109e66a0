"""Heat maps of the values of a trained agent, and its greedy actions."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safedsr.adapt.maps import ValueMaps, value_maps
from safedsr.figures.maps import WALL, draw_map
from safedsr.figures.style import WIDTH, name_of, paper_style
from safedsr.runs.policy import TrainedPolicy

ARROWS = ((0, -1), (0, 1), (-1, 0), (1, 0))  # of the four actions; y grows downwards


@paper_style()
def values_figure(agent: TrainedPolicy) -> Figure:
    """Heat maps of Q, each K and Q − λ·K under the greedy action, and the greedy action of every cell."""
    found, task = value_maps(agent), agent.task
    named = _named(found, task.cost_names)
    height, width = found.actions.shape
    columns = 2 if width > height else len(named) + 1
    rows = -(-(len(named) + 1) // columns)
    size = WIDTH / columns
    figure = Figure(figsize=(WIDTH, rows * (0.82 * size * height / width + 0.35) + 0.3), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes, (title, values) in zip(panels.flat, named.items(), strict=False):
        _draw_values(figure, axes, values, (width, height))
        axes.set_title(title)
    arrows = panels.flat[len(named)]
    draw_map(arrows, task.params)
    _draw_arrows(arrows, found.actions)
    arrows.set_title("greedy action")
    for axes in panels.flat[len(named) + 1 :]:
        axes.set_visible(False)
    figure.suptitle(f"{name_of(agent.job.algorithm)}, {task.title}, seed {agent.seed}", fontsize=9)
    return figure


def _named(found: ValueMaps, cost_names: tuple[str, ...]) -> dict[str, np.ndarray]:
    if found.k is None:
        return {"score of the greedy action": found.score}
    costs = {f"K, expected cost ({name})": layer for name, layer in zip(cost_names, found.k, strict=True)}
    return {"Q, expected reward": found.q, **costs, "Q − λ·K": found.score}


def _draw_values(figure: Figure, axes: Axes, values: np.ndarray, size: tuple[int, int]) -> None:
    image = axes.imshow(values, cmap="cividis", extent=(0, size[0], size[1], 0), interpolation="nearest")
    axes.set(xticks=[], yticks=[], facecolor=WALL)
    bar = figure.colorbar(image, cax=axes.inset_axes((1.03, 0, 0.06 * size[1] / size[0], 1)))
    bar.outline.set_visible(False)  # type: ignore[operator]


def _draw_arrows(axes: Axes, actions: np.ndarray) -> None:
    rows, columns = np.nonzero(actions >= 0)
    ways = np.array(ARROWS)[actions[rows, columns]]
    axes.quiver(
        columns + 0.5,
        rows + 0.5,
        *ways.T,
        angles="xy",
        scale_units="xy",
        scale=1.6,
        pivot="mid",
        width=0.06,
        units="xy",
        zorder=2,
    )
