"""Comparison of runs: those in the same environment with the same budgets, each labelled by what differs."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from safedsr.agents.registry import ALGORITHMS
from safedsr.runs.collect import numbers
from safedsr.runs.config import Terms, TrainConfig
from safedsr.runs.labels import nearest_preset, short
from safedsr.runs.results import Result

WINDOW_SHARE = 25  # the smoothing window of a curve is this part of its steps


class Comparison(NamedTuple):
    """Runs that can be compared; the label of each says exactly what differs between them."""

    title: str  # environment, costs and budgets
    costs: tuple[str, ...]
    budgets: tuple[float, ...]
    terms: Terms
    results: list[Result]

    @property
    def window(self) -> int:
        """Environment steps of the trailing mean of curves: 1/25 of the longest run, in whole thousands if large."""
        window = max(result.steps for result in self.results) // WINDOW_SHARE
        return max(window // 1000 * 1000 if window >= 2000 else window // 200 * 200, 200)

    @property
    def cost_word(self) -> str:
        """What the budgets limit, in words."""
        return "discounted cost" if self.terms.on_mean else "cost"


def comparisons(results: Sequence[Result]) -> list[Comparison]:
    """The results by environment, map, budgets and terms, with new labels; sorted by title."""
    groups: dict[tuple, list[Result]] = {}
    for result in results:
        params = json.dumps(result.params, sort_keys=True)
        groups.setdefault((result.title, result.budgets, result.terms, params), []).append(result)
    titles = [_title(some[0]) for some in groups.values()]
    found = [
        Comparison(
            title if titles.count(title) == 1 else f"{title}; as in {some[0].path.name}",
            some[0].costs,
            some[0].budgets,
            some[0].terms,
            [one._replace(label=label) for one, label in zip(some, labels_of(some), strict=True)],
        )
        for title, some in zip(titles, groups.values(), strict=True)
    ]
    return sorted(found, key=lambda one: one.title)


def _title(result: Result) -> str:
    where = result.environment if result.on_grid else result.title
    budgets = ", ".join(f"{budget:g}" for budget in result.budgets)
    kind = f" ({result.terms.budget_kind})" if result.terms.on_mean else ""
    return f"{where}; budget {budgets}{kind}" if budgets else where


def labels_of(results: Sequence[Result]) -> list[str]:
    """A label for each run: its algorithm, and in brackets exactly what differs from the other runs."""
    words = [_settings(result, [one for one in results if one.algorithm == result.algorithm]) for result in results]
    if len({result.steps for result in results}) > 1:
        words = [[*found, f"{short(result.steps)} steps"] for found, result in zip(words, results, strict=True)]
    labels = [_label(result, found) for result, found in zip(results, words, strict=True)]
    for name in (lambda one: numbers("seed", one.seeds), lambda one: one.path.name, lambda one: str(one.path)):
        twins = {label for label in labels if labels.count(label) > 1}
        for label in twins:
            same = [place for place, one in enumerate(labels) if one == label]
            if len({name(results[place]) for place in same}) > 1:
                for place in same:
                    words[place].append(name(results[place]))
                    labels[place] = _label(results[place], words[place])
    return labels


def _label(result: Result, words: Sequence[str]) -> str:
    return f"{result.algorithm} ({', '.join(words)})" if words else result.algorithm


def _settings(result: Result, peers: Sequence[Result]) -> list[str]:
    """The preset and the settings of a run, as far as they differ among runs of the same algorithm."""
    described = {id(one): nearest_preset(one.config) for one in peers}
    preset, _ = described[id(result)]
    words = []
    if len({name for name, _ in described.values()}) > 1:
        presets = ALGORITHMS[result.algorithm].presets if result.algorithm in ALGORITHMS else {"": {}}
        words.append(f"preset {preset or next(iter(presets))}")
    changed = {name: None for _, changes in described.values() for name, _ in changes}
    for name in [*changed, "matmul"]:
        values = [_value(one.config, name) for one in peers]
        if any(value != values[0] for value in values):
            value = _value(result.config, name)
            words.append(f"{name}={short(value)}")
    return words


def _value(config: Any, name: str) -> Any:
    """The value of a setting of a run, by the name of its field."""
    if name == "matmul":
        return config["train"].get(name, TrainConfig.matmul)
    for part in (config.get("agent", {}), config.get("environment", {})):
        if (found := _find(part, name)) is not None:
            return found
    return None


def _find(part: Any, name: str) -> Any:
    if name in part:
        value = part[name]
        return list(value) if isinstance(value, tuple) else value
    nested = (_find(value, name) for value in part.values() if isinstance(value, dict))
    return next((found for found in nested if found is not None), None)
