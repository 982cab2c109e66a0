"""Short names for results: the algorithm, and what differs from its defaults."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from safedsr.agents.registry import ALGORITHMS
from safedsr.envs.grid.config import DEFAULT_BUDGET, GRID, GridConfig
from safedsr.runs.config import TrainConfig, agent_for, terms_of
from safedsr.runs.metrics import Summary


def label_of(config: Mapping[str, Any], budgets: Sequence[float], steps: int) -> str:
    """The algorithm, and in brackets its preset, changed settings, and kind of budget, precision, budget and steps.

    What is not mentioned is as usual.
    """
    preset, changes = nearest_preset(config)
    words = [preset] if preset else []
    words += [value for _, value in changes if isinstance(value, str)]
    numbers = [f"{name}={short(value)}" for name, value in changes if not isinstance(value, str)]
    words += numbers
    if (terms := terms_of(config)).on_mean:
        words.append(terms.budget_kind)
    if (matmul := config["train"].get("matmul", TrainConfig.matmul)) != TrainConfig.matmul:
        words.append(matmul)
    if any(budget != float(DEFAULT_BUDGET) for budget in budgets):
        words.append(f"budget {short(budgets)}")
    if steps != TrainConfig.steps:
        words.append(f"{short(steps)} steps")
    return f"{config['algorithm']} ({', '.join(words)})" if words else config["algorithm"]


def nearest_preset(config: Mapping[str, Any]) -> tuple[str, list[tuple[str, Any]]]:
    """The preset closest to a run's settings (empty for the defaults), and the settings that differ from it."""
    environment = config.get("environment", {})
    given = {**config.get("agent", {}), **(environment if environment.get("name") == GRID else {})}
    given.pop("name", None)
    algorithm = ALGORITHMS.get(config["algorithm"])
    if algorithm is None:
        return "", list(_changes(given, asdict(GridConfig())))
    presets = {"": algorithm.default} | {name: algorithm.settings(name) for name in algorithm.presets}
    kind = terms_of(config).budget_kind
    steps = config.get("train", {}).get("steps", TrainConfig.steps)
    presets = {name: agent_for(kind, steps, settings, algorithm.all_settings) for name, settings in presets.items()}
    found = {name: list(_changes(given, asdict(settings) | asdict(GridConfig()))) for name, settings in presets.items()}
    return min(found.items(), key=lambda pair: len(pair[1]))


def short(value: Any) -> str:
    """A setting as short text: 2500000 is 2.5M."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(short, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= max(size, 10_000) and value * 10 % size == 0:
            return f"{value / size:g}{unit}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _changes(settings: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        usual = default.get(name)
        if isinstance(value, Mapping):
            yield from _changes(value, usual if isinstance(usual, Mapping) else {})
        elif (list(usual) if isinstance(usual, tuple) else usual) != (
            list(value) if isinstance(value, tuple) else value
        ):
            yield name, value


def fixed(value: float, digits: int) -> str:
    """A number with so many digits after the point, halves rounded up; minus zero is zero."""
    if not math.isfinite(value):
        return str(value)
    found = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return str(abs(found) if found == 0 else found)


def interval(found: Summary, digits: int) -> str:
    """IQM and its 95 % interval."""
    middle, low, high = (fixed(value, digits) for value in (found.iqm, found.low, found.high))
    return f"{middle} ({low} … {high})"


def thousands(number: float) -> str:
    """A count with its digits in groups of three: 13 686."""
    return f"{int(number + 0.5):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
