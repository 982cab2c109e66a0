"""Tiny CMDPs on the grid itself whose best feasible action at the start is known.

Steps are 0.75 cells long without noise, so that a walker visits a handful of places. Budgets are either so slack that
λ stays 0, or 0, so that λ grows with every cost that is paid.
"""

from typing import NamedTuple

from safedsr.envs.environment import Task
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import grid_task
from safedsr.envs.grid.text import parse_scene

STILL = GridConfig(step_std=0.0, time_limit=20)
SLACK, TIGHT = 1000.0, 0.0

TWO_CELLS = "SG\n"
TOLL = """\
SAG
###

A = fire 1

cost water
. . .
. . .
"""
FORK = """\
SAG
.B.

A = fire 1
B = water 1
"""
FREE_FORK = "S.G\n...\n"


class Probe(NamedTuple):
    """A map, a budget for each of its costs, and the actions that are best at the start."""

    name: str
    text: str
    budgets: dict[str, float]
    best: set[str]

    def task(self) -> Task:
        scene = parse_scene(self.text, self.name)
        return grid_task(scene, tuple(self.budgets[cost] for cost in scene.cost_names))


COSTLY = (
    # Two steps to the goal, the first of which costs; the other actions run into walls.
    Probe("toll, slack", TOLL, {"fire": SLACK, "water": SLACK}, {"right"}),
    Probe("toll, tight", TOLL, {"fire": TIGHT, "water": SLACK}, {"up", "down", "left"}),
    # Two steps through fire, or four around it through water.
    Probe("fork, slack", FORK, {"fire": SLACK, "water": SLACK}, {"right"}),
    Probe("fork, no fire", FORK, {"fire": TIGHT, "water": SLACK}, {"down"}),
    Probe("fork, no water", FORK, {"fire": SLACK, "water": TIGHT}, {"right"}),
)
COSTLESS = (
    Probe("two cells", TWO_CELLS, {}, {"right"}),
    Probe("fork", FREE_FORK, {}, {"right"}),
)
