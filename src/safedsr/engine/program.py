"""A job as compiled functions over all environments and seeds, and its state as named arrays."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.agents.registry import make_trainer
from safedsr.engine.lanes import ENVIRONMENT, LANE, SEED, SHARED, lane_mesh, over_lanes, precision
from safedsr.envs.grid.layout import Layout, stack_layouts
from safedsr.errors import UserError
from safedsr.runs.experiment import Job
from safedsr.types import PyTree, Record

WORKING_COPIES = 3  # of the state: what goes in, what comes out, what is in between
KNOWN_COPIES = 2  # of what is kept beside it


class Program:
    """One trainer for all environments [E] and seeds [S], compiled once for each phase and length.

    Between two calls of `advance` anything may change without a new compilation: `layout` and `aim` are plain
    attributes, λ is an array of the state. `keeps` says of a chunk that ends at some step whether walks are recorded.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.trainer = make_trainer(job.algorithm, job.agent, job.grid)
        self.layout: Layout = stack_layouts([e.scene.layout for e in job.environments])
        self.aim = jnp.asarray([_aim(job, e.budgets) for e in job.environments], jnp.float32)
        self.keeps: Callable[[int], bool] = lambda stop: job.train.steps - stop < job.train.trajectories
        self._mesh = lane_mesh(len(job.environments), len(job.seeds))
        self._init = jax.jit(over_lanes(self.trainer.init, (SEED, ENVIRONMENT), self._mesh))
        self._finite = jax.jit(_finite)
        even = len(job.seeds) % self._mesh.shape["seeds"] == 0
        donated = 0 if even else ()  # what comes out of an uneven split lies elsewhere than what went in
        self._advance = jax.jit(self._advance_all, static_argnames=("phase", "periods"), donate_argnums=donated)

    def _advance_all(self, state: PyTree, layout: Layout, aim: Array, step: Array, phase: str, periods: int):
        one = partial(self.trainer.advance, phase=phase, periods=periods)
        return over_lanes(one, (LANE, ENVIRONMENT, ENVIRONMENT, SHARED), self._mesh)(state, layout, aim, step)

    def init(self) -> PyTree:
        """The state [E, S] before the first step."""
        return self._init(self._keys(), self.layout)

    def _keys(self) -> Array:
        return jax.vmap(jax.random.key)(jnp.asarray(self.job.seeds, jnp.uint32))

    def advance(self, state: PyTree, step: int, count: int) -> tuple[PyTree, Record, dict[str, Array]]:
        """`count` environment steps within one phase; gives the records [E, S, count] and mean losses [E, S]."""
        phase, _ = self.trainer.phase_at(step)
        periods = count // self.trainer.period
        with precision(self.job.train.matmul):
            return self._advance(state, self.layout, self.aim, jnp.int32(step), phase=phase, periods=periods)

    def next_stop(self, step: int) -> int:
        """Where the chunk that starts at `step` ends: at the chunk's length, the phase's end or the last step."""
        _, phase_end = self.trainer.phase_at(step)
        chunk = self.job.chunk
        ends = [(step // chunk + 1) * chunk, self.job.train.steps, phase_end]
        return min(end for end in ends if end is not None)

    def first_bad(self, state: PyTree) -> tuple[str, int, int] | None:
        """The first leaf that is not finite, with the environment and seed it belongs to."""
        for name, fine in zip(leaf_names(state), jax.device_get(self._finite(state)), strict=True):
            for environment, seed in np.argwhere(~fine):
                return name, int(environment), int(seed)
        return None

    def state_shape(self) -> PyTree:
        """Shapes and types of the state, without computing it."""
        return jax.eval_shape(self._init, self._keys(), self.layout)

    def bytes_needed(self) -> float:
        """About how much memory the job takes; what is kept beside the state only for the lanes at work."""
        state = self.state_shape()
        known = _bytes(jax.eval_shape(jax.vmap(jax.vmap(self.trainer.known)), state))
        one_by_one = self._mesh.devices.flat[0].platform == "cpu"
        share = self._mesh.size / self.job.lanes if one_by_one else 1.0
        return WORKING_COPIES * _bytes(state) + KNOWN_COPIES * share * known

    def check_memory(self) -> None:
        """Raise unless the device can be expected to hold the job."""
        need, free = self.bytes_needed(), _free_memory(self._mesh.size)
        if free is not None and need > free:
            fit = int(self.job.lanes * free / need) // len(self.job.environments)
            cure = f"train about {fit} seeds at a time, or lower buffer_size" if fit else "lower buffer_size"
            raise UserError(
                f"{len(self.job.seeds)} seeds in {len(self.job.environments)} environments need about "
                f"{need / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free; {cure}"
            )


def _bytes(tree: PyTree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _aim(job: Job, budgets: tuple[float, ...]) -> tuple[float, ...]:
    aim = job.agent.aim
    if aim is None:
        return budgets
    return aim * len(budgets) if len(aim) == 1 else aim


def _finite(state: PyTree) -> list[Array]:
    def check(leaf: Array) -> Array:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return jnp.ones(leaf.shape[:2], bool)
        return jnp.isfinite(leaf).reshape(*leaf.shape[:2], -1).all(-1)

    return [check(leaf) for leaf in jax.tree.leaves(state)]


def _free_memory(devices: int) -> int | None:
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        limit = (device.memory_stats() or {}).get("bytes_limit")
        return limit and limit * devices
    try:
        with open("/proc/meminfo") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None


def leaf_names(tree: PyTree) -> list[str]:
    """A name for each leaf: the way to it."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths]


def to_arrays(tree: PyTree) -> dict[str, np.ndarray]:
    """A state as named arrays; keys become the numbers behind them."""

    def plain(leaf: Any) -> np.ndarray:
        return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)

    return dict(zip(leaf_names(tree), map(plain, jax.tree.leaves(tree)), strict=True))


def from_arrays(shape: PyTree, arrays: dict[str, np.ndarray], source: str) -> PyTree:
    """The state of that shape which `to_arrays` took apart."""
    names = leaf_names(shape)
    if missing := sorted(set(names) ^ set(arrays)):
        raise UserError(
            f"{source} does not fit these settings: '{missing[0]}' is in only one of them; other settings or another "
            "version of safedsr wrote it: train anew, or go on with that version"
        )

    def fill(name: str, leaf: Any) -> Any:
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        array = jnp.asarray(arrays[name])
        array = jax.random.wrap_key_data(array) if is_key else array
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise UserError(
                f"{source} does not fit these settings: '{name}' is {array.dtype}{list(array.shape)} instead of "
                f"{leaf.dtype}{list(leaf.shape)}"
            )
        return array

    leaves, tree = jax.tree.flatten(shape)
    return jax.tree.unflatten(tree, [fill(name, leaf) for name, leaf in zip(names, leaves, strict=True)])
