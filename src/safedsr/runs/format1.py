"""Conversion of run folders, policies and replay memories of format 1 (grid only) to the current format."""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout
from safedsr.validation import from_dict, typed

if TYPE_CHECKING:
    from safedsr.types import Transition


# Settings of SafeDSR-plus as it was when a run folder did not have them yet.
BEFORE = {"outcomes": False, "idle_share": 0.0}


def upgrade_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration of any format in the current format."""
    known = {"agent": dict[str, Any], "environments": list[dict[str, Any]], "grid": dict[str, Any]}
    found = typed(dict[str, Any], config, "the configuration")
    config = {**found, **{name: typed(kind, found[name], name) for name, kind in known.items() if name in found}}
    if config.get("algorithm") == "safedsr-plus" and "outcomes" not in config.get("agent", {"outcomes": True}):
        config = {**config, "agent": {**config["agent"], **BEFORE}}
    if "environments" not in config:
        return dict(config)
    tasks = [
        {**{name: value for name, value in one.items() if name != "map"}, "params": {"map": one.get("map", "")}}
        for one in config["environments"]
    ]
    kept = {name: value for name, value in config.items() if name not in ("environments", "grid")}
    return {**kept, "environment": {"name": "grid", **config.get("grid", {})}, "tasks": tasks}


def upgrade_episodes(table: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A table of episodes with the column 'reached' renamed to 'success'."""
    return {"success" if name == "reached" else name: column for name, column in table.items()}


def upgrade_names(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a policy under their current names."""
    return {name.replace("/place/", "/frame/"): array for name, array in arrays.items()}


def remembered_steps(tensors: Mapping[str, np.ndarray], layout: Layout, grid: Mapping[str, Any]) -> "Transition":
    """The steps of a format 1 memory: it stores positions in fractions of a cell; the grid gives rewards and costs."""
    import jax

    from safedsr.types import Transition

    per_cell = 2**16 // int(layout.scale)
    place = (tensors["place"] + np.float32(0.5)) / np.float32(per_cell) / layout.scale
    terminated, config = tensors["terminated"].astype(np.float32), from_dict(GridConfig, grid)
    fields: dict[str, Any] = dict(
        obs=place[:, :2].astype(np.float32),
        action=tensors["action"].astype(np.int32),
        reward=(config.step_reward + config.goal_reward * terminated).astype(np.float32),
        cost=np.zeros((len(terminated), 0), np.float32),
        next_obs=place[:, 2:].astype(np.float32),
        terminated=terminated,
    )
    return jax.tree.map(np.asarray, _relabel_all()(Transition(**fields), layout))


@functools.cache
def _relabel_all() -> Any:
    import jax

    from safedsr.envs.grid.environment import relabel

    return jax.jit(jax.vmap(relabel, (0, None)))
