"""The map of a result."""

from safedsr.envs.grid.layout import Scene
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError
from safedsr.runs.results import Result


def scene_of(result: Result) -> Scene:
    """The map of a result as its run folder has written it down."""
    if not result.params.get("map"):
        raise UserError(f"{result.path} has no map for {result.environment}; only runs on the grid can be drawn so")
    return parse_scene(result.params["map"], result.layout)
