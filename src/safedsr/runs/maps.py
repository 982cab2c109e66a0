"""The grid map of a result."""

from safedsr.envs.grid.layout import Scene
from safedsr.envs.grid.text import parse_scene
from safedsr.errors import UserError
from safedsr.runs.results import Result


def scene_of(result: Result) -> Scene:
    """The map of a result, from the configuration of its run folder."""
    if not result.params.get("map"):
        raise UserError(f"{result.path} has no map for {result.environment}; this picture needs a run on a grid map")
    return parse_scene(result.params["map"], result.layout)
