"""Trained agents that come with the package. Commands that take a run folder also take pretrained:NAME."""

from pathlib import Path

from safedsr.errors import unknown

FOLDER = Path(__file__).parent / "pretrained"
PREFIX = "pretrained:"
FILES = ("policy.json", "policy.safetensors", "memory.safetensors", "card.json")  # of each agent


def pretrained_names() -> list[str]:
    """The names of the agents that come with the package."""
    return sorted(card.parent.name for card in FOLDER.glob("*/card.json"))


def pretrained_folder(name: str) -> Path:
    """The folder of an agent that comes with the package."""
    if name not in pretrained_names():
        raise unknown("pretrained agent", name, pretrained_names())
    return FOLDER / name


def folder_of(path: str | Path) -> Path:
    """The folder that a user means: a path, or pretrained:NAME."""
    text = str(path)
    return pretrained_folder(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else Path(path)
