"""Pictures of an adaptation: before and after, and where φ extrapolates on a map."""

from pathlib import Path

import numpy as np

from safedsr import figures
from safedsr.adapt.diagnostics import leverage_map
from safedsr.adapt.ladder import Adapted
from safedsr.adapt.penalty import score
from safedsr.engine.evaluate import Estimate, evaluate
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.layout import Layout
from safedsr.figures.paths import agent_paths
from safedsr.figures.style import BUDGET, MUTED, color_of
from safedsr.runs import storage
from safedsr.runs.policy import TrainedPolicy

EPSILON, WALKS = 0.1, 8  # of the faint paths
EPISODES = 256
AFTER = color_of("safedsr-plus")


def save_adapted(adapted: Adapted, agent: TrainedPolicy, source: str, folder: Path) -> None:
    """Save an adapted policy, its certificate and pictures; the policy last: a folder with a policy is complete."""
    storage.make_folder(folder)
    storage.write_json(folder / "certificate.json", {"from": source, "seed": agent.seed, **adapted.to_dict()})
    draw_adapted(agent, adapted, folder)
    adapted.agent.save(folder)


def draw_adapted(agent: TrainedPolicy, adapted: Adapted, folder: Path) -> None:
    """Draw all pictures of an adaptation; those of maps only on the grid."""
    if isinstance(agent.task.params, Layout):
        before_after(agent, adapted, folder / "before-after.png")
        leverage_figure(agent, folder / "leverage.png")
    else:
        outcomes(agent, adapted, folder / "before-after.png")


def outcomes(agent: TrainedPolicy, adapted: Adapted, path: Path) -> Path:
    """Return and costs of an episode with the new costs, before and after adaptation: means and 95 % intervals."""
    task, epsilon = adapted.agent.task, adapted.certificate.epsilon
    found = [evaluate(a, task, EPISODES, epsilon) for a in (agent, adapted.agent)]
    cost = "discounted cost" if found[0].terms.on_mean else "cost"
    panels: dict[str, list[Estimate]] = {"return": [one.reward for one in found]}
    panels |= {f"{cost} ({name})": [one.cost[j] for one in found] for j, name in enumerate(task.cost_names)}
    figure = figures.Figure(figsize=(0.5 + 2.2 * len(panels), 2.8), layout="constrained")
    places, limits = figure.subplots(1, len(panels), squeeze=False)[0], (None, *task.budgets)
    for axes, (title, both), budget in zip(places, panels.items(), limits, strict=True):
        low, middle, high = np.array([(one.low, one.value, one.high) for one in both]).T
        axes.bar(["before", f"after, level\n'{adapted.level}'"], middle, width=0.5, color=(MUTED, AFTER))
        axes.errorbar([0, 1], middle, (middle - low, high - middle), fmt="none", ecolor="black", capsize=4)
        if budget is not None:
            axes.axhline(budget, color=BUDGET, linewidth=1.0, label="budget")
            axes.legend(fontsize=8)
        axes.set_title(title, fontsize=10)
    return figures.save(figure, path)


def before_after(agent: TrainedPolicy, adapted: Adapted, path: Path) -> Path:
    """Paths of the agent before and after adaptation, with the new costs; the bold path has ε = 0."""
    task, epsilon = adapted.agent.task, adapted.certificate.epsilon
    scene = scene_of(task)
    walks = [agent_paths(a, task, [0.0, *[EPSILON] * WALKS]) for a in (agent, adapted.agent)]
    certificate = adapted.certificate
    if certificate.terms.on_mean:
        both = evaluate(agent, task, EPISODES, epsilon).cost, certificate.cost
        found = [f"mean discounted cost {' | '.join(f'{one.value:.2f}' for one in costs)}" for costs in both]
    else:
        rates = score(agent, task, epsilon).safe, certificate.safe_goal_rate.value
        found = [f"safe goal rate {rate:.2f}" for rate in rates]
    titles = [f"before\n{found[0]}", f"after, level '{adapted.level}'\n{found[1]}"]
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
