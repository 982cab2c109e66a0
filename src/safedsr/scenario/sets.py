"""Scenarios that come with the package: the set changing-v1, and the paper's experiment with changing costs.

The texts of changing-v1 are generated here from two seeds, one for the public half and one for the held-out half, and
frozen: `changing-v1/sha256.json` has the hash of each. The public half is also stored as files. The held-out half is
not, so that nobody tunes on it by accident; `held_out(seed)` makes further ones.
"""

import json
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.errors import UserError, unknown
from safedsr.scenario.file import Scenario, parse_scenario, read_scenario

SET, PAPER = "changing-v1", "paper"
HELD_OUT = "held-out"
PUBLIC_SEED, HELD_OUT_SEED = 1, 2
HASHES = "sha256.json"


def _text(name: str, about: str, steps: int, place: dict[str, Any], changes: list[dict[str, Any]]) -> str:
    """The text of a scenario file."""
    lines = ["format = 1", f'name = "{name}"', f'about = "{about}"', f"steps = {steps:_}", "", "[environment]"]
    lines += _fields(place)
    for change in changes:
        lines += ["", "[[change]]", *_fields(change)]
    return "\n".join(lines) + "\n"


def _fields(fields: dict[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in fields.items()]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'''\n{value}'''" if "\n" in value else f'"{value}"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:_}" if isinstance(value, int) else f"{round(float(value), 3):g}"


Rng = np.random.Generator
FIRST, LATER = 100_000, 50_000  # steps before the first change, and after each


def _times(count: int, first: int = FIRST, later: int = LATER) -> tuple[list[int], int]:
    """The steps of the changes, and all steps."""
    return [first + n * later for n in range(count)], first + count * later


def shapes(rng: Rng, name: str) -> str:
    """Announced: the costs get another shape, then they move."""
    at, steps = _times(2)
    first, second = str(rng.choice(["diamond", "small-diamond"])), str(rng.choice(["square", "discs"]))
    move = [int(rng.choice([-1, 1])), int(rng.choice([-2, -1, 1, 2]))]
    about = "two rooms; the costs get another shape, then they move; both changes are announced"
    changes = [{"at": at[0], "costs": second}, {"at": at[1], "costs": first, "shift": move}]
    return _text(name, about, steps, {"map": "two-rooms", "costs": first, "budget": 5}, changes)


def silent(rng: Rng, name: str) -> str:
    """Silent: costs appear where there were none, then they grow or move."""
    at, steps = _times(2)
    later: dict[str, Any] = {"grow": 1} if rng.random() < 0.5 else {"shift": [0, int(rng.choice([-1, 1]))], "grow": 1}
    about = "two rooms without costs; costs appear on the way, then they grow; nobody is told"
    changes = [
        {"at": at[0], "announced": False, "costs": "small-diamond"},
        {"at": at[1], "announced": False, **later},
    ]
    return _text(name, about, steps, {"map": "two-rooms", "costs": "none", "budget": 5}, changes)


def budgets(rng: Rng, name: str) -> str:
    """Announced: two costs in a larger map; the budgets are tightened twice."""
    at, steps = _times(2, first=150_000)
    tight = [int(rng.integers(2, 4)), int(rng.integers(4, 7))]
    about = "three rooms with two costs; the budgets are tightened, then the costs change their shape too"
    place = {"map": "three-rooms", "costs": "diamond,discs", "budget": [8, 12], "time_limit": 600}
    changes = [
        {"at": at[0], "budget": tight},
        {"at": at[1], "costs": "small-diamond,offset-diamond", "budget": [2, 3]},
    ]
    return _text(name, about, steps, place, changes)


def goals(rng: Rng, name: str) -> str:
    """Announced: a larger map drawn by the seed; the goal, the start and the rewards change, then the costs."""
    at, steps = _times(3, first=150_000)
    drawn, spots = _draw_map(rng)
    place = {"map": drawn, "costs": "cost", "budget": 5, "time_limit": 600}
    changes = [
        {"at": at[0], "goal": spots[0], "starts": [spots[1]]},
        {"at": at[1], "reward": {"step": -0.02, "goal": 1.0}, "budget": 2},
        {"at": at[2], "grow": 1, "budget": 5},
    ]
    about = "a larger map drawn by the seed; goal and start move, then rewards and budget change, then the costs grow"
    return _text(name, about, steps, place, changes)


def _draw_map(rng: Rng) -> tuple[str, list[list[int]]]:
    """A map of 15 × 24 cells with two walls that have gaps, and three patches of costs; also two other free cells."""
    height, width = 15, 24
    cells = np.full((height, width), ".")
    for column in (8, 16):
        cells[:, column] = "#"
        gap = int(rng.integers(2, height - 5))
        cells[gap : gap + 4, column] = "."
    for left in (2, 10, 18):
        top = int(rng.integers(3, height - 6))
        cells[top : top + 3, left + 1 : left + 4] = "C"
    cells[height // 2, 0], cells[height // 2, width - 1] = "S", "G"
    return "\n".join("".join(row) for row in cells) + "\n", [[width - 1, 1], [0, height - 2]]


def hazard(rng: Rng, name: str, *, sees: bool = True) -> str:
    """Announced: a hazard moves along a path every step or every episode; then its path changes, then it grows."""
    at, steps = _times(2)
    moves = "step" if sees else "episode"
    columns = rng.permutation([4, 15])

    def on(column: int, radius: float, laps: float) -> dict[str, Any]:
        path = [[column + 0.5, 1.5], [column + 0.5, 9.5]]
        return {"path": path, "radius": radius, "moves": moves, "laps": laps}

    place = {
        "map": "two-rooms",
        "costs": "none",
        "budget": 3,
        "sees_hazard": sees,
        "hazard": on(int(columns[0]), 1.5, 0.02),
    }
    changes = [
        {"at": at[0], "hazard": on(int(columns[1]), 1.5, 0.02)},
        {"at": at[1], "hazard": on(int(columns[1]), 2.0, 0.03)},
    ]
    seen = "agents see its place" if sees else "agents do not see it"
    about = f"two rooms with a hazard that moves every {moves}; {seen}; its path changes, then it grows"
    return _text(name, about, steps, place, changes)


def cartpole(rng: Rng, name: str) -> str:
    """Announced: zones of the track are closed, and the zones move."""
    at, steps = _times(3, first=60_000, later=20_000)
    away = [100, 100]

    def zone(side: int, edge: float) -> dict[str, Any]:
        low, high = sorted([side * edge, side * 9.0])
        return {"low": [low, away[0]], "high": [high, away[1]]}

    side, edges = int(rng.choice([-1, 1])), rng.uniform(0.3, 0.5, 3)
    both = {"low": [float(edges[2]), -9.0], "high": [9.0, -float(edges[2])]}
    place = {"env": "cartpole", "time_limit": 200, "budget": 5, "args": zone(side, edges[0])}
    changes = [
        {"at": at[0], "args": zone(-side, edges[1])},
        {"at": at[1], "args": both},
        {"at": at[2], "args": zone(side, edges[0]), "budget": 1},
    ]
    about = "CartPole; one side of the track is closed, then the other, then both, then the first with a budget of 1"
    return _text(name, about, steps, place, changes)


def minecart(rng: Rng, name: str) -> str:
    """Announced: the price of fuel changes every 10 000 steps."""
    at, steps = _times(5, later=10_000)
    prices = rng.permutation([0.5, 0.7, 1.1, 1.2, 0.8])
    about = "minecart; after 100 000 steps the price of fuel changes every 10 000 steps"
    changes = [{"at": step, "args": {"price": float(price)}} for step, price in zip(at, prices, strict=True)]
    place = {"env": "minecart", "time_limit": 200, "budget": 1, "args": {"price": 0.9}}
    return _text(name, about, steps, place, changes)


Family = Callable[[Rng, str], str]
PUBLIC: dict[str, Family] = {
    "shapes": shapes,
    "silent": silent,
    "budgets": budgets,
    "hazard": hazard,
    "cartpole": cartpole,
    "minecart": minecart,
}
HIDDEN: dict[str, Family] = {
    "shapes": shapes,
    "silent": silent,
    "goals": goals,
    "hazard": lambda rng, name: hazard(rng, name, sees=False),
    "cartpole": cartpole,
    "minecart": minecart,
}


def public() -> dict[str, str]:
    """The texts of the public half, by name."""
    return {name: make(np.random.default_rng([PUBLIC_SEED, n]), name) for n, (name, make) in enumerate(PUBLIC.items())}


def held_out(seed: int = HELD_OUT_SEED) -> dict[str, str]:
    """The texts of a held-out half, by name; the official one has the default seed."""
    word = HELD_OUT if seed == HELD_OUT_SEED else f"{HELD_OUT}-{seed}"
    return {
        f"{word}-{name}": make(np.random.default_rng([seed, n]), f"{word}-{name}")
        for n, (name, make) in enumerate(HIDDEN.items())
    }


def folder(name: str) -> Path:
    """The folder of a set in the package."""
    return Path(str(resources.files("safedsr.scenario"))) / name


def hashes() -> dict[str, str]:
    """The frozen hashes of changing-v1, by scenario."""
    return json.loads((folder(SET) / HASHES).read_text(encoding="utf-8"))


def changing_v1() -> list[Scenario]:
    """The whole set; raises if a text is not the frozen one."""
    found = [parse_scenario(text, f"{SET}/{name}") for name, text in {**public(), **held_out()}.items()]
    for scenario in found:
        if hashes().get(scenario.name) != scenario.sha256:
            raise UserError(
                f"{scenario.source} is not the frozen scenario (its hash differs): this version of safedsr or NumPy "
                "generates another text; use a released version"
            )
    return found


def find_scenarios(name: str) -> list[Scenario]:
    """Scenarios by file, by SET/NAME, by the name of a set, or SET/held-out-SEED for a new held-out half."""
    if name.endswith(".toml"):
        return [read_scenario(Path(name))]
    owner, _, one = name.partition("/")
    if owner == SET:
        every = {scenario.name: scenario for scenario in changing_v1()}
        if drawn := re.fullmatch(rf"({HELD_OUT}-(\d+))(-.+)?", one):
            every = {name: parse_scenario(text, f"{SET}/{name}") for name, text in held_out(int(drawn[2])).items()}
            one = one if drawn[3] else ""
    elif owner == PAPER:
        every = {path.stem: read_scenario(path) for path in sorted(folder(PAPER).glob("*.toml"))}
    else:
        raise UserError(
            f"no scenario '{name}'; give a file.toml, {SET}, {SET}/NAME or {PAPER}/NAME (safedsr scenario list)"
        )
    if not one:
        return list(every.values())
    if one not in every:
        raise unknown(f"scenario of {owner}", one, every)
    return [every[one]]


def write_files() -> None:
    """Write the public half and the hashes of both; for the developers of a set only, as a set is frozen."""
    target = folder(SET)
    target.mkdir(exist_ok=True)
    for name, text in public().items():
        (target / f"{name}.toml").write_text(text, encoding="utf-8")
    every = {**public(), **held_out()}
    found = {name: parse_scenario(text, name).sha256 for name, text in every.items()}
    (target / HASHES).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
