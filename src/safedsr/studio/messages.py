"""Messages between page and server. What the page sends is checked here; arrays are float32 in base64."""

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from safedsr.envs.grid.layout import check_costs
from safedsr.errors import UserError
from safedsr.validation import Name, check_fields, from_dict, require

MOST_BYTES = 4_000_000  # of a message
MOST_COSTS = 8


@dataclass(frozen=True)
class Painted:
    """A cost as it was painted."""

    name: Name
    values: str
    """One float32 for each point of the raster, row by row."""


@dataclass(frozen=True)
class View:
    """What the page asks to see. The page keeps it, so that a new connection, or a new server, needs nothing else."""

    run: str = ""
    """A name in the list of runs; the first one if it is empty."""
    seed: int | None = None
    task: int = 0
    policy: str | None = None
    """The number of an adapted policy; the trained policy if not given."""
    costs: tuple[Painted, ...] = ()
    budgets: tuple[float, ...] = ()
    lam: Literal["auto", "trained", "own"] = "auto"
    lams: tuple[float, ...] = ()
    """λ of each cost in its unit, for `lam` "own"."""
    epsilon: float = 0.0
    against: str | None = None
    """The run to compare with; the trained policy of the same run if not given."""
    args: dict[str, float | tuple[float, ...]] = field(default_factory=dict)
    """Parameters of cost functions, for environments that are no maps."""
    leverage: bool = False
    oracle: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        count = len(self.costs)
        require(count <= MOST_COSTS, "costs", count, f"give at most {MOST_COSTS}")
        require(0 <= self.epsilon <= 1, "epsilon", self.epsilon, "give a share between 0 and 1")
        names = [cost.name for cost in self.costs]
        require(len(set(names)) == count, "costs", names, "give each cost a name of its own")
        for name in names:
            require("," not in name and name.strip() == name, "the name of a cost", name, "leave out commas")
        if self.lam == "own":
            require(len(self.lams) == count, "lams", len(self.lams), f"give one for each of the {count} costs")

    def layers(self, shape: tuple[int, int], raster: int) -> np.ndarray:
        """The painted costs [J, H·n, W·n] of a map of this shape, checked."""
        height, width = (side * raster for side in shape)
        given, count = len(self.budgets), len(self.costs)
        require(given == count, "budgets", given, f"give one for each of the {count} costs")
        layers = [unpacked(cost.values, f"cost '{cost.name}'") for cost in self.costs]
        for cost, layer in zip(self.costs, layers, strict=True):
            require(
                len(layer) == height * width, f"cost '{cost.name}'", f"{len(layer)} values", f"give {height * width}"
            )
        return check_costs(np.array(layers, np.float32).reshape(-1, height, width), shape)


@dataclass(frozen=True)
class Request:
    """One message of the page."""

    type: Literal["open", "look", "film", "curves", "adapt", "stop", "import", "shape", "export", "save"]
    id: int = 0
    view: View = View()
    level: Literal["cost", "penalty", "memory", "auto"] = "auto"
    require: float = 0.9
    follow: bool = False
    """Whether M goes on learning from memory, for a hazard that moves."""
    text: str = ""
    """A map, for "import"; the name of a cost shape, for "shape"; that of a folder, for "save"."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(0 <= self.require < 1, "require", self.require, "give a share of at least 0 and below 1")
        if self.type == "save":
            fine = all(letter.isalnum() or letter in "-_." for letter in self.text) and self.text[:1].isalnum()
            require(fine and len(self.text) <= 64, "the name", self.text, "use letters, digits, '-', '_' and '.'")


def read(text: str) -> Request:
    """The request in a message; raises a `UserError` that says what is wrong with it."""
    require(len(text) <= MOST_BYTES, "the message", f"{len(text)} letters long", f"send at most {MOST_BYTES}")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError("the message is not JSON") from None
    return from_dict(Request, data, "message")


def packed(array: Any) -> str:
    """An array as float32 in base64."""
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()


def unpacked(text: str, what: str) -> np.ndarray:
    """The numbers in base64 text."""
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except (ValueError, binascii.Error):
        raise UserError(f"{what} is not float32 in base64") from None
