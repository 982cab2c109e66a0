"""The schema of config.json and manifest.json: types and ranges of what all readers need."""

from pathlib import Path
from typing import Any, NotRequired, TypedDict, get_type_hints

from safedsr.runs.config import TrainConfig
from safedsr.validation import Name, in_file, require, typed

CONFIG, MANIFEST = "config.json", "manifest.json"


class TaskData(TypedDict):
    """A task in config.json."""

    name: Name
    costs: tuple[Name, ...]
    budgets: tuple[float, ...]
    params: dict[str, Any]


class FunctionData(TypedDict):
    """A function of an environment's steps in config.json."""

    function: NotRequired[str]
    source: NotRequired[str | None]
    sha256: NotRequired[str]
    info: NotRequired[str]
    reward: NotRequired[int]
    sign: NotRequired[float]


class EnvironmentData(TypedDict):
    """The environment in config.json; its other entries depend on it."""

    name: Name


class AdapterData(EnvironmentData):
    """An environment of Gymnasium or gymnax in config.json."""

    costs: list[FunctionData]
    gymnasium: NotRequired[str | None]
    env_args: NotRequired[dict[str, Any]]
    time_limit: NotRequired[int | None]
    reward: NotRequired[list[tuple[int, float]] | None]
    success: NotRequired[bool]
    success_function: NotRequired[FunctionData | None]
    made_by: NotRequired[FunctionData | None]
    code: NotRequired[FunctionData | None]


class ConfigData(TypedDict):
    """The content of config.json."""

    algorithm: Name
    environment: EnvironmentData
    tasks: list[TaskData]
    train: dict[str, Any]
    seeds: NotRequired[tuple[int, ...]]
    agent: NotRequired[dict[str, Any]]
    budget_kind: NotRequired[str]


class ManifestData(TypedDict):
    """What manifest.json must have."""

    seeds: tuple[int, ...]


def check_config(config: Any) -> dict[str, Any]:
    """The content of a config.json of the current format, or of a job in policy.json, as far as all readers need it."""
    config = typed(ConfigData, config, "the configuration")
    if "costs" in config["environment"]:
        where = typed(AdapterData, config["environment"], "environment")
        for about in (*where["costs"], *(where.get(name) for name in ("success_function", "made_by", "code"))):
            whole = not about or "function" not in about or {"source", "sha256"} <= about.keys()
            whole = whole and (not about or "reward" not in about or "sign" in about)
            require(
                whole, "a function of the environment", about, "give function, source and sha256; or reward and sign"
            )
    kinds = get_type_hints(TrainConfig)
    for name in kinds.keys() & config["train"].keys():
        typed(kinds[name], config["train"][name], f"train.{name}")
    for n, task in enumerate(config["tasks"]):
        numbers, names = task["budgets"], task["costs"]
        require(len(numbers) == len(names), f"tasks[{n}].budgets", numbers, f"give {len(names)}, one for each cost")
        require(all(x >= 0 for x in numbers), f"tasks[{n}].budgets", numbers, "give numbers of at least 0")
    return config


def check_manifest(manifest: Any, path: Path) -> dict[str, Any]:
    """The manifest of a full or packed folder, if its seeds are different numbers."""
    with in_file(path / MANIFEST):
        found = typed(ManifestData, manifest, "the manifest")
        seeds = found["seeds"]
        fine = len(set(seeds)) == len(seeds) >= 1 and all(0 <= seed < 2**32 for seed in seeds)
        require(fine, "seeds", seeds, "give different numbers from 0 to 2³² - 1")
    return found
