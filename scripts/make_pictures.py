"""Draw the pictures of docs/concepts from a pretrained agent: `make docs-pictures`."""

from pathlib import Path

import matplotlib
import numpy as np

import safedsr
from safedsr.envs.grid.environment import scene_of

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images" / "concepts"


def main() -> None:
    agent = safedsr.pretrained("one-room")
    trained = np.asarray(scene_of(agent.task).layout.costs)[0]
    moved = np.roll(trained, 2, axis=0)
    start = [0.5 / 11, 5.5 / 11]
    visits = visits_from(agent, start, trained.shape)
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.3), layout="constrained")
    cells(axes[0], visits, "Blues", "M: expected discounted visits", most=visits.max())
    for axis, costs, when in ((axes[1], trained, "old"), (axes[2], moved, "new")):
        cells(axis, costs, "Reds", f"{when} costs: visits × costs = {(visits * costs).sum():.1f}")
        rows, columns = np.nonzero(visits > 0.05)
        axis.scatter(columns, rows, s=60 * visits[rows, columns], color="tab:blue", alpha=0.8, linewidths=0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / "visits.png", dpi=160)


def visits_from(agent: safedsr.Agent, obs: list[float], shape: tuple[int, ...]) -> np.ndarray:
    """The expected discounted visits [H, W] of the greedy policy: K of a cost of 1 in one cell, for each cell."""
    one_each = agent.refit(np.eye(shape[0] * shape[1], dtype=np.float32).reshape(-1, *shape))
    return np.asarray(one_each.values(obs).k)[agent.act(obs)].reshape(shape)


def cells(axis, values: np.ndarray, colours: str, title: str, most: float = 2.0) -> None:
    axis.imshow(values, cmap=colours, vmin=0, vmax=most)
    axis.set(title=title, xticks=[], yticks=[])
    axis.title.set_fontsize(9)
    axis.text(0, 5, "S", ha="center", va="center")
    axis.text(10, 5, "G", ha="center", va="center")


if __name__ == "__main__":
    main()
