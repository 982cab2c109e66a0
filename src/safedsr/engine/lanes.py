"""Lanes on devices: a lane is one seed in one task, and the lanes [E, S] are distributed over the local devices.

Lanes are independent, so the results of a lane do not depend on its device. Each CPU core is a device of its own. An
accelerator runs all of its lanes in one batch. A CPU core runs its lanes one after the other, which is faster there:
the data of one lane fits into its cache, and that of ten does not.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

# The axes of an argument: lanes [E, S, …], tasks [E, …], seeds [S, …], or none of them.
LANE, TASK, SEED, SHARED = ("tasks", "seeds"), ("tasks",), ("seeds",), ()
Axes = tuple[str, ...]


def use_cores(lanes: int) -> None:
    """Make each CPU core that `lanes` can use a JAX device; this has no effect after JAX's first computation."""
    chosen = jax.config.jax_num_cpu_devices >= 0  # pyright: ignore[reportAttributeAccessIssue]
    if chosen or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    with contextlib.suppress(RuntimeError):  # JAX has already computed: its devices are fixed
        jax.config.update("jax_num_cpu_devices", max(min(cores(), lanes), 1))


def cores() -> int:
    """Number of CPU cores that this process may use; SAFEDSR_CORES limits it, as for the processes of a sweep."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(there, int(os.environ.get("SAFEDSR_CORES", there)))


def split(tasks: int, seeds: int, devices: int) -> tuple[int, int]:
    """Numbers of parts of tasks and seeds: those with the fewest lanes per device, then with the fewest parts."""

    def worth(parts: tuple[int, int]) -> tuple[int, int]:
        each = (tasks // parts[0]) * -(-seeds // parts[1])
        return each, parts[0] * parts[1]

    even = [e for e in range(1, tasks + 1) if tasks % e == 0]
    pairs = [(e, s) for e, s in itertools.product(even, range(1, seeds + 1)) if e * s <= devices]
    return min(pairs, key=worth)


def lane_mesh(tasks: int, seeds: int) -> Mesh:
    """The local devices over which the lanes are distributed."""
    devices = jax.local_devices()
    parts = split(tasks, seeds, len(devices))
    return Mesh(np.array(devices[: parts[0] * parts[1]]).reshape(parts), ("tasks", "seeds"))


def over_lanes(function: Callable[..., Any], axes: Sequence[Axes], mesh: Mesh) -> Callable[..., Any]:
    """Map a function of one lane over all lanes; `axes` gives the axes of each argument."""
    spread = one_by_one if mesh.devices.flat[0].platform == "cpu" else jax.vmap
    for name in ("seeds", "tasks"):
        function = spread(function, tuple(0 if name in kind else None for kind in axes))
    if mesh.size == 1:
        return function
    places = tuple(PartitionSpec("tasks", "seeds") if kind == LANE else PartitionSpec(*kind) for kind in axes)
    shared = jax.shard_map(function, mesh=mesh, in_specs=places, out_specs=PartitionSpec(*LANE), check_vma=False)
    return _filled_up(shared, axes, mesh.shape["seeds"])


def one_by_one(function: Callable[..., Any], axes: Sequence[int | None]) -> Callable[..., Any]:
    """Like `jax.vmap(function, axes)` for axes 0 and None, but one element after the other."""

    def run(*args: Any) -> Any:
        def one(chosen: list[Any]) -> Any:
            rest = iter(chosen)
            return function(*(arg if axis is None else next(rest) for arg, axis in zip(args, axes, strict=True)))

        return jax.lax.map(one, [arg for arg, axis in zip(args, axes, strict=True) if axis is not None])

    return run


def _filled_up(function: Callable[..., Any], axes: Sequence[Axes], parts: int) -> Callable[..., Any]:
    """Pad seeds that cannot be divided evenly with copies of the last seed, whose results are dropped."""

    def run(*args: Any) -> Any:
        seeds = next(
            leaf.shape[kind.index("seeds")]
            for arg, kind in zip(args, axes, strict=True)
            if "seeds" in kind
            for leaf in jax.tree.leaves(arg)
        )
        extra = -seeds % parts
        if not extra:
            return function(*args)

        def fill(arg: Any, kind: Axes) -> Any:
            if "seeds" not in kind:
                return arg
            axis = kind.index("seeds")
            chosen = jnp.minimum(jnp.arange(seeds + extra), seeds - 1)
            return jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis, mode="clip"), arg)

        filled = function(*map(fill, args, axes))
        return jax.tree.map(lambda leaf: leaf[:, :seeds], filled)

    return run
