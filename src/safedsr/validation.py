"""The border: text, JSON and arguments become values of known types here, or a `UserError` names what is wrong.

An error names the file (`in_file`), the field, what was found and what is possible.
"""

import contextlib
import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

from safedsr.errors import UserError, unknown

MOST = 2**31 - 1  # of a whole number that becomes a shape or a counter of a compiled program
LARGEST = 1e30  # of a number: products of a few of them are still finite in float32
SHOWN = 60  # characters of a wrong value that an error shows
NUMBERS = (tuple[int, ...], tuple[float, ...], tuple[float, ...] | None)  # types of fields of numbers
MOST_SEEDS = 100_000  # in one run; the memory that they need is checked too
Name = Annotated[str, "one line of printable text"]


def require(ok: bool, field: str, given: object, need: str) -> None:
    """Raise unless `ok`; the message names the field, the given value and what is needed."""
    if not ok:
        raise UserError(f"{field} is {shown(given)}; {need}")


def shown(value: object) -> str:
    """A wrong value in an error message, not longer than a line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or a deeply nested list
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


@contextlib.contextmanager
def in_file(path: str | Path) -> Iterator[None]:
    """Errors of this block name the file."""
    try:
        yield
    except UserError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: {error}") from None


def typed(kind: Any, value: Any, name: str) -> Any:
    """The value as this type, from JSON or from Python; raises an error that names the field.

    Types: bool, int, float, str, Name, None, Literal, unions, tuple[T, ...], list[T], dict[str, T], dataclasses and
    TypedDicts. Lists become tuples, dictionaries become dataclasses where these are wanted.
    """
    if kind is Any:
        return value
    if kind == Name:
        return check_name(value, name)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return typed(next(one for one in inner if one is not type(None)), value, name)
    if origin is Literal:
        return _choice(inner, value, name)
    if origin is tuple:
        fine = isinstance(value, list | tuple) and (inner[-1] is ... or len(value) == len(inner))
        require(fine, name, value, "give a list" if inner[-1] is ... else f"give {len(inner)} values")
        kinds = [inner[0]] * len(value) if inner[-1] is ... else inner
        return tuple(typed(one, x, f"{name}[{n}]") for n, (one, x) in enumerate(zip(kinds, value, strict=True)))
    if origin is list:
        require(isinstance(value, list | tuple), name, value, "give a list")
        return [typed(inner[0], x, f"{name}[{n}]") for n, x in enumerate(value)]
    if origin is dict:
        require(isinstance(value, Mapping), name, value, "give an object with names and values")
        return {typed(str, key, f"{name}'s key"): typed(inner[1], x, f"{name}.{key}") for key, x in value.items()}
    if typing.is_typeddict(kind):
        return _record(kind, value, name)
    if dataclasses.is_dataclass(kind):
        return value if isinstance(value, kind) else from_dict(kind, value, name)  # type: ignore[arg-type]
    return _plain(kind, value, name)


def _plain(kind: Any, value: Any, name: str) -> Any:
    if kind is bool:
        require(isinstance(value, bool), name, value, "give true or false")
    elif kind is int:
        require(isinstance(value, int) and not isinstance(value, bool), name, value, "give a whole number")
    elif kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fine = number and abs(value) <= LARGEST and math.isfinite(value)
        require(fine, name, value, f"give a finite number, at most {LARGEST:g}")
    elif kind is str:
        require(isinstance(value, str), name, value, "give text")
        require(_is_text(value), name, value, "give text without half characters and without character 0")
    return value


def _is_text(value: str) -> bool:
    return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


def check_name(value: Any, field: str) -> str:
    """A name of a map, task or cost: one line of printable text."""
    fine = isinstance(value, str) and 0 < len(value) <= 1000 and value.isprintable() and _is_text(value)
    require(fine, field, value, "give a name of one line, without control characters")
    return value


def _choice(choices: tuple[Any, ...], value: Any, name: str) -> Any:
    near = difflib.get_close_matches(str(value)[:SHOWN], [str(one) for one in choices], n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    known = isinstance(value, str | int) and value in choices
    require(known, name, value, f"possible: {', '.join(map(str, choices))}{hint}")
    return value


def _record(kind: Any, value: Any, name: str) -> dict[str, Any]:
    """A dictionary with the typed entries of a TypedDict; other entries are kept as they are."""
    require(isinstance(value, Mapping), name, value, "give an object with names and values")
    if lacking := sorted(kind.__required_keys__ - set(value)):
        raise UserError(f"{name} lacks {', '.join(lacking)}; found: {shown(sorted(map(str, value)))}")
    hints = typing.get_type_hints(kind, include_extras=True)
    at = "" if name.startswith("the ") else f"{name}."
    found = {key: typed(_bare(hint), value[key], at + key) for key, hint in hints.items() if key in value}
    return {**value, **found}


def _bare(hint: Any) -> Any:
    """A type without Required or NotRequired."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) in (typing.NotRequired, typing.Required) else hint


def check_fields(config: Any, *, large: tuple[str, ...] = ()) -> None:
    """Raise unless the value of every field fits its type: a known word, a whole number, a finite number.

    Whole numbers are at most `MOST`, except those of the fields `large`.
    """
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value = typed(hints[field.name], getattr(config, field.name), field.name)
        object.__setattr__(config, field.name, value)
        if isinstance(value, int) and not isinstance(value, bool):
            most = 2**62 if field.name in large else MOST
            require(abs(value) <= most, field.name, value, f"give at most {most}")
        elif isinstance(value, tuple) and hints[field.name] in NUMBERS:
            check_numbers(field.name, value, whole=hints[field.name] == tuple[int, ...])


def check_numbers(name: str, values: tuple[Any, ...], *, whole: bool) -> None:
    """Raise unless all values are numbers: layer widths (whole, at least 1) or costs (finite, at least 0)."""
    for value in values:
        if whole:
            fine = isinstance(value, int) and 1 <= value <= MOST
            require(fine, name, values, f"give whole numbers of at least 1 and at most {MOST}")
        else:
            fine = isinstance(value, int | float) and 0 <= value <= LARGEST
            require(fine, name, values, "give finite numbers of at least 0")


def seed_numbers(first: int, count: int) -> tuple[int, ...]:
    """The seeds of a run: `count` numbers from `first` on."""
    require(1 <= count <= MOST_SEEDS, "seeds", count, f"give a number from 1 to {MOST_SEEDS}")
    require(0 <= first <= 2**32 - count, "first_seed", first, "seeds are numbers from 0 to 2³² - 1")
    return tuple(range(first, first + count))


def check_epsilon(epsilon: Any) -> float:
    """ε as a number between 0 and 1."""
    number = isinstance(epsilon, int | float) and not isinstance(epsilon, bool)
    require(number and 0 <= epsilon <= 1, "epsilon", epsilon, "give a share between 0 and 1")
    return float(epsilon)


def parse_budgets(budgets: Any, count: int) -> tuple[float, ...]:
    """One budget per cost, from numbers or from text with commas; a single budget is used for all costs."""
    if isinstance(budgets, str):
        try:
            budgets = tuple(float(word) for word in budgets.split(","))
        except ValueError:
            raise UserError(
                f"budget {shown(budgets)} is not a list of numbers; write for example --budget 5,10"
            ) from None
    try:
        found = (float(budgets),) if _is_number(budgets) else tuple(float(budget) for budget in budgets)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"budget is {shown(budgets)}; give a number, or one for each cost") from None
    if len(found) == 1:
        found = found * count
    given = ",".join(f"{budget:g}" for budget in found)
    require(len(found) == count, "budget", given, f"there are {count} costs: give one number for all, or one for each")
    for budget in found:
        require(0 <= budget <= LARGEST, "budget", budget, "give finite values of at least 0")
    return found


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not getattr(value, "shape", ())


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


def from_dict(kind: type[T], data: Any, name: str = "") -> T:
    """A configuration from the dictionary that `dataclasses.asdict` returned; `name` is its place in the file."""
    where = name or kind.__name__
    require(isinstance(data, Mapping), where, data, "give an object with names and values")
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    for key in data:
        if key not in hints:
            raise unknown(f"setting of {kind.__name__}", str(key), [field.name for field in fields])
    usual = {field.name for field in fields if field.default is not dataclasses.MISSING}
    usual |= {field.name for field in fields if field.default_factory is not dataclasses.MISSING}
    if lacking := sorted({field.name for field in fields} - usual - set(data)):
        raise UserError(f"{where} lacks {', '.join(lacking)}")
    at = f"{name}." if name else ""
    return kind(**{key: typed(hints[key], value, at + key) for key, value in data.items()})


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
