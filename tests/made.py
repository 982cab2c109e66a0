"""Results made by hand, for the data behind figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.text import format_scene
from safedsr.errors import UserError
from safedsr.runs.results import Result


def _map(layout: str, costs: tuple[str, ...]) -> str:
    """The text of a map that has a name, else nothing."""
    try:
        return format_scene(load_scene(layout, costs))
    except UserError:
        return ""


def made_result(
    label: str = "safedsr",
    layout: str = "one-room",
    costs: tuple[str, ...] = ("diamond",),
    budgets: tuple[float, ...] = (5.0,),
    *,
    goals: Sequence[float] = (10, 20, 30, 40),
    safe_goals: Sequence[float] | None = None,
    reward: Sequence[float] | np.ndarray = (0.1, 0.2, 0.3, 0.4),
    cost: Sequence[float] | np.ndarray = (1, 2, 3, 4),
    series: dict[str, Any] | None = None,
    spacing: int = 200,
    steps: int = 500_000,
    path: Path = Path("nowhere"),
    positions: np.ndarray | None = None,
) -> Result:
    """A result with these numbers, one a seed; series that are not given are constant."""
    safe_goals = goals if safe_goals is None else safe_goals
    given = {name: np.asarray(values, float) for name, values in (series or {}).items()}
    points = next(iter(given.values())).shape[1] if given else 20
    flat = {name: np.full((len(goals), points), 0.5) for name in ("reward", "cost", "safe", "goal")}
    return Result(
        path=path,
        algorithm=label.split()[0],
        label=label,
        layout=layout,
        costs=costs,
        budgets=budgets,
        seeds=tuple(range(len(goals))),
        steps=steps,
        counts={
            "goal count": np.array(goals, float),
            "safe goal count": np.array(safe_goals, float),
            "last reward": np.array(reward, float),
            **{f"last cost {name}": np.array(cost, float) for name in costs},
        },
        points=spacing * np.arange(1, points + 1),
        series={**flat, **given},
        positions=positions,
        config={"algorithm": label.split()[0], "train": {}, "agent": {}, "environment": {}},
        params={"map": _map(layout, costs)},
    )
