"""Values of varied settings: lists, and ranges from which a sample is drawn."""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from safedsr.errors import UserError
from safedsr.validation import require, shown

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"(log:)?({NUMBER})\.\.({NUMBER})")
EXAMPLE = "write for example learning-rate=1e-4,5e-4, or a range with --sample: learning-rate=log:1e-5..1e-3"
Choice = Sequence[Any] | str  # the values of a list, or the text of a range


class Range(NamedTuple):
    """A range of numbers; whole ones if both ends are."""

    low: float
    high: float
    log: bool

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are drawn."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def draw(self, share: float) -> float:
        """The number at this share of the range."""
        ends = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = ends[0] + share * (ends[1] - ends[0])
        value = math.exp(at) if self.log else at
        if self.whole:
            return min(max(round(value), int(self.low)), int(self.high))
        return float(f"{value:.4g}")  # so that names are short and exact


def parse_range(text: str) -> Range | None:
    """The range LOW..HIGH or log:LOW..HIGH; None if the text is no range."""
    found = RANGE.fullmatch(text.strip())
    if not found:
        return None
    low, high = (json.loads(word) if re.fullmatch(r"-?\d+", word) else float(word) for word in found.groups()[1:])
    require(low < high, "a range", text, "give the lower end first")
    require(not found[1] or low > 0, "a range", text, "a logarithmic one begins above 0")
    return Range(low, high, bool(found[1]))


def parse_choices(texts: Sequence[str]) -> dict[str, Choice]:
    """Choices by setting from texts name=VALUE,VALUE or name=LOW..HIGH."""
    found: dict[str, Choice] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name or not values:
            raise UserError(f"'{text}' is not NAME=VALUES; {EXAMPLE}")
        if field_name(name) in found:
            raise UserError(f"{name} is given twice; write all its values in one list")
        found[field_name(name)] = values if parse_range(values) else [plain_value(word) for word in values.split(",")]
    return found


def field_name(name: str) -> str:
    """A setting as in Python: learning-rate is learning_rate; ALGORITHM.setting keeps its algorithm."""
    algorithm, dot, setting = name.strip().removeprefix("--").rpartition(".")
    return f"{algorithm}{dot}{setting.replace('-', '_')}"


def plain_value(word: str) -> Any:
    """A number, true, false or a word."""
    if re.fullmatch(NUMBER, word.strip()) and not re.fullmatch(r"[-+]?\d+", word.strip()):
        return float(word)
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word.strip()


def combinations(choices: Mapping[str, Choice], sample: int | None, seed: int) -> list[dict[str, Any]]:
    """Every combination of the values; or, if `sample` is given, that many combinations drawn with a seed.

    The draws of each setting are spread evenly over its range (Latin hypercube), and equal for equal seeds.
    """
    ranges = {name: parse_range(choice) for name, choice in choices.items() if isinstance(choice, str)}
    for name, found in ranges.items():
        require(found is not None, name, choices[name], f"give a list or a range; {EXAMPLE}")
    for name, choice in choices.items():
        require(len(choice) > 0, name, choice, "give at least one value")
    if sample is None:
        if ranges:
            raise UserError(f"{next(iter(ranges))} is a range; say how many values to draw: --sample 20")
        return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
    require(1 <= sample <= 100_000, "sample", sample, "give a number from 1 to 100000")
    rng = np.random.default_rng(seed)
    drawn: dict[str, list[Any]] = {}
    for name, choice in choices.items():
        shares = (rng.permutation(sample) + rng.random(sample)) / sample
        found = ranges.get(name)
        drawn[name] = [found.draw(x) if found else choice[int(x * len(choice))] for x in shares]
    return [dict(zip(drawn, values, strict=True)) for values in zip(*drawn.values(), strict=True)]


def value_text(value: Any) -> str:
    """A value as in a flag: lists with spaces."""
    if isinstance(value, list | tuple):
        return " ".join(map(value_text, value))
    return shown(value) if not isinstance(value, str | int | float) else str(value)
