"""Pictures of an adaptation: paths before and after, and where φ extrapolates."""

from pathlib import Path

import numpy as np

from safedsr import figures
from safedsr.adapt.diagnostics import leverage_map
from safedsr.adapt.ladder import Adapted
from safedsr.adapt.penalty import score
from safedsr.envs.grid.environment import scene_of
from safedsr.figures.paths import agent_paths
from safedsr.runs.policy import TrainedPolicy

EPSILON, WALKS = 0.1, 8  # of the faint paths


def before_after(agent: TrainedPolicy, adapted: Adapted, path: Path) -> Path:
    """Paths of the agent before and after adaptation, with the new costs; the bold path has ε = 0."""
    task, epsilon = adapted.agent.task, adapted.certificate.epsilon
    scene = scene_of(task)
    walks = [agent_paths(a, task, [0.0, *[EPSILON] * WALKS]) for a in (agent, adapted.agent)]
    before = score(agent, task, epsilon).safe
    titles = [
        f"before\nsafe goal rate {before:.2f}",
        f"after, level '{adapted.level}'\nsafe goal rate {adapted.certificate.safe_goal_rate.value:.2f}",
    ]
    return figures.save(figures.map_row([scene, scene], walks, titles), path)


def leverage_figure(agent: TrainedPolicy, path: Path) -> Path:
    """The leverage of every cell, divided by the mean leverage."""
    found, layout = leverage_map(agent), scene_of(agent.task).layout
    height, width = layout.walls.shape
    figure = figures.Figure(figsize=(1.5 + 0.35 * width, 1.0 + 0.35 * height), layout="constrained")
    axes = figure.subplots()
    figures.draw_map(axes, layout._replace(costs=layout.costs[:0]))
    top = max(1.0, float(np.nanmax(found)))
    shades = axes.imshow(found, extent=(0, width, height, 0), vmin=0, vmax=top, cmap="viridis", zorder=0.5)
    figure.colorbar(shades, ax=axes, label="leverage / mean leverage", shrink=0.8)
    axes.set_title("distance of φ from the data of the fit", fontsize=10)
    return figures.save(figure, path)
