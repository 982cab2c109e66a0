"""Scenario files: an environment, and a timetable of what changes at which environment step (TOML). No JAX here.

    format = 1
    name = "the wall of fire moves"
    steps = 120_000

    [environment]
    map = "two-rooms"          # a map by name, a text file beside this one, or the text of a map; or env = "cartpole"
    costs = "diamond"
    budget = 5

    [[change]]
    at = 60_000                # environment step
    announced = true           # the agent is told the new task; false: it only sees costs happen
    shift = [2, 0]             # the costs move by two cells to the right

An error names the file, the line and the field.
"""

import contextlib
import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from safedsr.errors import UserError, unknown
from safedsr.validation import check_name, require, typed

FORMAT = 1
STEP = 500  # changes and ends are multiples of this, the period of the value-based agents
HEADER = re.compile(r"\s*\[(\[?)\s*([\w.-]+)\s*\]?\]")
KEY = re.compile(r"\s*([\w-]+)\s*=")

Cell = tuple[int, int]


@dataclass(frozen=True)
class HazardSetting:
    """A disc that moves along a closed path."""

    path: tuple[tuple[float, float], ...]
    """Corners of the path, [column, row]; the middle of the first cell is [0.5, 0.5]."""
    radius: float = 1.5
    """In cells."""
    cost: float = 1.0
    """Of each step that ends in the disc."""
    layer: int = 0
    """Number of the cost that it belongs to."""
    moves: Literal["step", "episode"] = "step"
    """Whether it moves in every step, or stands at a random place of its path in each episode."""
    laps: float = 0.02
    """Laps along the path in each step, if it moves in every step."""


@dataclass(frozen=True)
class RewardSetting:
    """Rewards of the grid."""

    step: float = -0.01
    goal: float = 1.0


SHARED: dict[str, Any] = {
    "costs": str,
    "budget": Any,
    "shift": Cell,
    "grow": int,
    "hazard": HazardSetting,
    "reward": RewardSetting,
    "goal": Cell,
    "starts": tuple[Cell, ...],
    "args": dict[str, Any],
}
PLACE = {**SHARED, "map": str, "env": str, "time_limit": int, "sees_hazard": bool}
CHANGE = {**SHARED, "at": int, "announced": bool}
TOP = {"format": int, "name": str, "about": str, "steps": int, "environment": Any, "change": Any}


@dataclass(frozen=True)
class Part:
    """A table of the file: its fields, and the line of each."""

    values: Mapping[str, Any]
    lines: Mapping[str, int]
    line: int  # of its header


@dataclass(frozen=True)
class Scenario:
    """The content of a scenario file, checked as far as it can be without its map."""

    source: str  # the file, or the name of the set and of the scenario
    text: str
    name: str
    about: str
    steps: int
    place: Part
    changes: tuple[Part, ...] = field(default_factory=tuple)

    @property
    def sha256(self) -> str:
        """The hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def starts(self) -> tuple[int, ...]:
        """The environment step at which each phase begins; the first is 0."""
        return (0, *(change.values["at"] for change in self.changes))

    @property
    def ends(self) -> tuple[int, ...]:
        """The environment step at which each phase ends."""
        return (*self.starts[1:], self.steps)

    @contextlib.contextmanager
    def at(self, part: Part, name: str) -> Iterator[None]:
        """Errors of this block name the file, the line and the field."""
        with _at(self.source, part.lines.get(name, part.line), name):
            yield


@contextlib.contextmanager
def _at(source: str, line: int, name: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        text = str(error)
        raise UserError(f"{source}, line {line}: {'' if text.startswith(name) else f'{name}: '}{text}") from None


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"cannot read the scenario '{path}': {getattr(error, 'strerror', None) or error}") from None
    return parse_scenario(text, str(path))


def parse_scenario(text: str, source: str) -> Scenario:
    """The scenario of a text; `source` names it in errors."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{source}: this is no TOML: {error}") from None
    lines = _find_lines(text)
    top = _part({k: v for k, v in data.items() if k not in ("environment", "change")}, TOP, lines.get("", {}), source)
    _need(top, ("format", "name", "steps"), source, "the file")
    with _at(source, top.lines.get("format", 1), "format"):
        require(top.values["format"] == FORMAT, "format", top.values["format"], f"this version reads {FORMAT}")
    with _at(source, top.lines["name"], "name"):
        check_name(top.values["name"], "name")
    place = data.get("environment")
    if not isinstance(place, dict):
        raise UserError(f"{source}, line 1: environment: the table [environment] is missing; it names the map or env")
    found = _part(place, PLACE, lines.get("environment", {}), source)
    if ("map" in place) == ("env" in place):
        raise UserError(f"{source}, line {found.line}: environment: give either map or env")
    changes = data.get("change", [])
    if not isinstance(changes, list):
        line = lines.get("change", {}).get("", 1)
        raise UserError(f"{source}, line {line}: change: write [[change]] with two brackets, one for each change")
    parts = tuple(
        _part(change, CHANGE, lines.get(f"change.{n}", {}), source) for n, change in enumerate(changes) if change
    )
    scenario = Scenario(
        source, text, top.values["name"], top.values.get("about", ""), top.values["steps"], found, parts
    )
    _check_times(scenario, top)
    return scenario


def _check_times(scenario: Scenario, top: Part) -> None:
    before, unit = 0, f"give a multiple of {STEP}"
    with scenario.at(top, "steps"):
        require(scenario.steps >= STEP and scenario.steps % STEP == 0, "steps", scenario.steps, unit)
    for change in scenario.changes:
        _need(change, ("at",), scenario.source, "the change")
        at = change.values["at"]
        with scenario.at(change, "at"):
            require(at % STEP == 0, "at", at, unit)
            require(before < at < scenario.steps, "at", at, f"give a step between {before} and {scenario.steps}")
        if not set(change.values) - {"at", "announced"}:
            raise UserError(f"{scenario.source}, line {change.line}: change: nothing changes; give one of {_names()}")
        before = at


def _names() -> str:
    return ", ".join(SHARED)


def _need(part: Part, names: tuple[str, ...], source: str, what: str) -> None:
    for name in names:
        if name not in part.values:
            raise UserError(f"{source}, line {part.line}: {name}: {what} needs this field")


def _part(table: Mapping[str, Any], kinds: Mapping[str, Any], lines: Mapping[str, int], source: str) -> Part:
    """A table with fields of the right types."""
    values = {}
    for name, value in table.items():
        with _at(source, lines.get(name, lines.get("", 1)), name):
            if name not in kinds:
                raise unknown("field", name, kinds)
            values[name] = typed(kinds[name], value, name)
    return Part(values, lines, lines.get("", 1))


def _find_lines(text: str) -> dict[str, dict[str, int]]:
    """The line of every field, by table: '' at the top, 'environment', 'change.0' …; the field '' is the header."""
    found: dict[str, dict[str, int]] = {"": {"": 1}}
    table, count, quote = "", 0, None
    for number, line in enumerate(text.splitlines(), 1):
        if quote:  # in a text of several lines
            quote = None if quote in line else quote
            continue
        if header := HEADER.match(line):
            table = header[2]
            if header[1]:
                table, count = f"{table}.{count}", count + 1
            found[table] = {"": number}
            owner, _, name = table.rpartition(".")
            if owner and not header[1]:  # a table in a table, such as [change.hazard]
                found.get(f"{owner}.{count - 1}", found.get(owner, {}))[name] = number
        elif key := KEY.match(line):
            found[table].setdefault(key[1], number)
        quote = next((q for q in ('"""', "'''") if line.count(q) == 1), None)
    return found


def note_of(values: Mapping[str, Any]) -> str:
    """What a change changes, in a few words."""
    words = []
    for name, value in values.items():
        if name in ("at", "announced"):
            continue
        if name == "hazard":
            words.append(f"hazard (radius {value.radius:g}, moves every {value.moves})")
        elif name == "reward":
            words.append(f"rewards {value.step:g}, {value.goal:g}")
        elif name == "args":
            words.append(", ".join(f"{key} {shown}" for key, shown in value.items()))
        elif isinstance(value, str) and "\n" in value:
            words.append(f"{name} as drawn")
        else:
            words.append(f"{name} {_plain(value)}")
    return "; ".join(words)


def _plain(value: Any) -> str:
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else str(value)
