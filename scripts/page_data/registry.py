"""The one list of texts by name."""

import inspect
from collections.abc import Callable, Iterator

TEXTS: dict[str, Callable[..., str]] = {}


def text(function: Callable[..., str]) -> Callable[..., str]:
    """Make a function available to pages by its name, with hyphens; its arguments are words."""
    name = function.__name__.replace("_", "-")
    if name in TEXTS:
        raise ValueError(f"two texts have the name '{name}'")
    TEXTS[name] = function
    return function


def listed() -> Iterator[str]:
    """Every name with its arguments and what it says."""
    for name, function in sorted(TEXTS.items()):
        arguments = " ".join(str(one).partition(":")[0] for one in inspect.signature(function).parameters.values())
        yield f"{name} {arguments}".rstrip() + f"  # {(function.__doc__ or '').splitlines()[0]}"
