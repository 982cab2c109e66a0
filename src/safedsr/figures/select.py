"""Select and sort the results for a figure."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from safedsr.envs.grid.catalog import ROOM_NAMES
from safedsr.envs.grid.layout import Scene
from safedsr.figures.style import sort_key
from safedsr.runs.maps import scene_of
from safedsr.runs.results import Result


class Group(NamedTuple):
    """Results with the same costs and the same budgets, on any map: a figure can compare them."""

    costs: tuple[str, ...]
    budgets: tuple[float, ...]
    results: list[Result]

    @property
    def title(self) -> str:
        """The costs and budgets as text."""
        return f"{', '.join(self.costs)}; budget {', '.join(f'{budget:g}' for budget in self.budgets)}"


def is_costless(result: Result) -> bool:
    """Whether there are no costs, or only empty ones."""
    return all(re.fullmatch(r"none(-\d+)?", name) for name in result.costs)


def costless(results: Sequence[Result]) -> list[Result]:
    """The results without costs."""
    return [result for result in results if is_costless(result)]


def groups(results: Sequence[Result]) -> list[Group]:
    """The results with costs, in groups that can be compared; the largest group first."""
    found: dict[tuple, Group] = {}
    for result in results:
        if not is_costless(result):
            empty = Group(result.costs, result.budgets, [])
            found.setdefault((result.costs, result.budgets), empty).results.append(result)
    return sorted(found.values(), key=lambda group: -len(group.results))


def labels_of(results: Iterable[Result]) -> list[str]:
    """Every label once: our agents first, then the baselines by name."""
    return sorted({result.label for result in results}, key=sort_key)


def layouts_of(results: Iterable[Result]) -> list[str]:
    """Every map once, the paper's rooms first."""
    names = {result.layout for result in results}
    return [name for name in ROOM_NAMES if name in names] + sorted(names - set(ROOM_NAMES))


def find(results: Iterable[Result], label: str, layout: str) -> Result | None:
    """The result of an algorithm on a map."""
    return next((result for result in results if (result.label, result.layout) == (label, layout)), None)


def on_layout(results: Iterable[Result], layout: str) -> list[Result]:
    """The results on one map, in the order of their labels."""
    return sorted((result for result in results if result.layout == layout), key=lambda result: sort_key(result.label))


def scenes_of(results: Iterable[Result]) -> list[Scene]:
    """Every map with its costs once, the paper's rooms first; a map without costs only if no result has costs there."""
    results = list(results)
    scenes = []
    for layout in layouts_of(results):
        here = [result for result in results if result.layout == layout]
        here = [result for result in here if not is_costless(result)] or here
        scenes += [scene_of(result) for result in {result.costs: result for result in here}.values()]
    return scenes


def title_of(layout: str) -> str:
    """The name of a map, for titles."""
    return layout.replace("-", " ") if layout in ROOM_NAMES else layout
