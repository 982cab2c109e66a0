"""Checks of user settings, and conversion of dictionaries to settings."""

import dataclasses
import difflib
import math
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from safedsr.errors import UserError, unknown


def require(ok: bool, field: str, given: object, need: str) -> None:
    """Raise unless `ok`; the message names the field, the given value and what is needed."""
    if not ok:
        raise UserError(f"{field} is {given!r}; {need}")


def check_fields(config: Any) -> None:
    """Raise unless the value of every field fits its type: a known word, a whole number, a finite number."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        kind, value = hints[field.name], getattr(config, field.name)
        if kind in (int | None, float | None):
            if value is None:
                continue
            kind = int if kind == int | None else float
        if words := _words(kind):
            for word in value if isinstance(value, tuple) else (value,):
                near = difflib.get_close_matches(str(word), words, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                require(word in words, field.name, word, f"possible: {', '.join(words)}{hint}")
        elif kind is int:
            require(isinstance(value, int) and not isinstance(value, bool), field.name, value, "give a whole number")
        elif kind is float:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            require(number and math.isfinite(value), field.name, value, "give a finite number")
        elif isinstance(value, tuple):
            check_numbers(field.name, value, whole=kind == tuple[int, ...])


def _words(kind: Any) -> tuple[str, ...]:
    """The possible words of a field of type Literal, or of a tuple of Literal; empty for other types."""
    if typing.get_origin(kind) is tuple:
        kind = typing.get_args(kind)[0]
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def check_numbers(name: str, values: tuple[Any, ...], *, whole: bool) -> None:
    """Raise unless all values are numbers: layer widths (whole, at least 1) or costs (finite, at least 0)."""
    for value in values:
        if whole:
            require(isinstance(value, int) and value >= 1, name, values, "give whole numbers of at least 1")
        else:
            fine = isinstance(value, int | float) and math.isfinite(value) and value >= 0
            require(fine, name, values, "give finite numbers of at least 0")


def parse_budgets(budgets: float | str | tuple[float, ...], count: int) -> tuple[float, ...]:
    """One budget per cost, from numbers or from text with commas; a single budget is used for all costs."""
    if isinstance(budgets, str):
        try:
            budgets = tuple(float(word) for word in budgets.split(","))
        except ValueError:
            raise UserError(f"budget '{budgets}' is not a list of numbers; write for example --budget 5,10") from None
    if isinstance(budgets, int | float):
        budgets = (float(budgets),)
    if len(budgets) == 1:
        budgets = budgets * count
    given = ",".join(f"{budget:g}" for budget in budgets)
    require(
        len(budgets) == count, "budget", given, f"there are {count} costs: give one number for all, or one for each"
    )
    for budget in budgets:
        require(budget >= 0 and budget < float("inf"), "budget", budget, "give finite values of at least 0")
    return tuple(float(budget) for budget in budgets)


def first_difference(one: Any, other: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """Name and both values of the first difference of two nested dictionaries, or None."""
    one, other = (list(value) if isinstance(value, tuple) else value for value in (one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        found = (first_difference(one.get(key), other.get(key), key) for key in {**one, **other})
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = (first_difference(mine, theirs, name) for mine, theirs in zip(one, other, strict=True))
    else:
        return None if one == other else (name, one, other)
    return next((difference for difference in found if difference), None)


T = TypeVar("T")


def from_dict(kind: type[T], data: Mapping[str, Any]) -> T:
    """A configuration from the dictionary that `dataclasses.asdict` returned."""
    hints = typing.get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    values = {}
    for name, value in data.items():
        if name not in known:
            raise unknown(f"setting of {kind.__name__}", name, known)
        if dataclasses.is_dataclass(hints[name]):
            value = from_dict(hints[name], value)  # type: ignore[arg-type]
        elif isinstance(value, list):
            value = tuple(value)
        values[name] = value
    return kind(**values)


def with_settings(config: Any, settings: Mapping[str, Any]) -> Any:
    """A configuration with some fields changed; fields of nested configurations are given by their own names."""
    names = [field.name for field in dataclasses.fields(config)]
    parts = [name for name in names if dataclasses.is_dataclass(getattr(config, name))]
    inside = {
        part: {field.name for field in dataclasses.fields(getattr(config, part))} & settings.keys() for part in parts
    }
    for name in settings:
        if name not in names and not any(name in found for found in inside.values()):
            raise unknown(f"setting of {type(config).__name__}", name, names)
    changes = {name: value for name, value in settings.items() if name in names}
    for part, found in inside.items():
        whole = changes.get(part, getattr(config, part))
        changes[part] = dataclasses.replace(whole, **{name: settings[name] for name in found})
    return dataclasses.replace(config, **changes)
