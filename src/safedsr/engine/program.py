"""A job as compiled functions over all tasks and seeds."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.agents.registry import make_trainer
from safedsr.core.capacity import fitting, free_memory, in_gib, largest_part, require_room
from safedsr.core.config import LATEST
from safedsr.core.precision import precision
from safedsr.engine import loop
from safedsr.engine.lanes import LANE, SEED, SHARED, TASK, lane_mesh, over_lanes
from safedsr.envs.environment import check_environment
from safedsr.runs.arrays import leaf_names
from safedsr.runs.job import Job, aim_of
from safedsr.types import PyTree, Record, Trainer

WORKING_COPIES = 3  # of the state: input, output and intermediate values
CACHE_COPIES = 2  # of the values cached during a phase
MANY_GROUPS = 10_000  # cells of a map from which its size is worth a word


def clock(step: int) -> np.int32:
    """A step for a compiled program: the clock stops when every schedule has ended, so that no int32 overflows."""
    return np.int32(min(step, LATEST))


class Program:
    """The trainer of a job for all tasks [E] and seeds [S], compiled once for each phase and number of steps.

    The attributes `params` and `aim`, and λ in the state, may change between two calls of `advance` without a new
    compilation. `keeps(stop)` tells whether positions are recorded in the chunk that ends at step `stop`. `trainer`
    may replace the algorithm's own trainer, for example by one with other phases.
    """

    def __init__(self, job: Job, trainer: Trainer | None = None, keeps: Callable[[int], bool] | None = None) -> None:
        self.job = job
        self.trainer = trainer or make_trainer(job.algorithm, job.agent, job.environment)
        self.params: PyTree = job.environment.stack([task.params for task in job.tasks])
        self.aim = jnp.asarray([aim_of(job.agent, task.budgets) for task in job.tasks], jnp.float32)
        self.keeps = keeps or (lambda stop: job.train.steps - stop < job.train.trajectories)
        self._mesh = lane_mesh(len(job.tasks), len(job.seeds))
        self._check_environment()
        self._init = jax.jit(over_lanes(self._init_one, (SEED, SEED, TASK, TASK), self._mesh))
        self._finite = jax.jit(_finite)
        even = len(job.seeds) % self._mesh.shape["seeds"] == 0
        donated = 0 if even else ()  # uneven split: input and output have different layouts
        self._advance = jax.jit(self._advance_all, static_argnames=("phase", "periods"), donate_argnums=donated)

    def _check_environment(self) -> None:
        check_environment(self.job.environment, self.job.tasks[0].params)

    def _init_one(self, key: Array, seed: Array, params: PyTree, aim: Array) -> loop.Lane:
        del aim  # an array of each task, since the parameters may have no arrays
        return self.start_one(key, seed, params)

    def start_one(self, key: Array, seed: Array, params: PyTree) -> loop.Lane:
        """The state of one lane before the first step."""
        return loop.init(self.trainer, self.job.environment, key, seed, params)

    def close(self) -> None:
        """Nothing to close: the environment is compiled."""

    def _advance_all(self, state: PyTree, params: PyTree, aim: Array, step: Array, phase: str, periods: int):
        how = {"phase": phase, "periods": periods, "discount": self.job.discount}
        one = partial(loop.advance, self.trainer, self.job.environment, **how)
        return over_lanes(one, (LANE, TASK, TASK, SHARED), self._mesh)(state, params, aim, step)

    def init(self) -> PyTree:
        """The state [E, S] before the first step."""
        return self._init(*self._keys(), self.params, self.aim)

    def _keys(self) -> tuple[Array, Array]:
        seeds = jnp.asarray(self.job.seeds, jnp.uint32)
        return jax.vmap(jax.random.key)(seeds), seeds

    def advance(self, state: PyTree, step: int, count: int) -> tuple[PyTree, Record, dict[str, Array]]:
        """Run `count` environment steps of one phase; returns state, records [E, S, count] and mean losses [E, S]."""
        phase, _ = self.trainer.phase_at(step)
        periods = count // self.trainer.period
        with precision(self.job.train.matmul):
            return self._advance(state, self.params, self.aim, clock(step), phase=phase, periods=periods)

    def next_stop(self, step: int) -> int:
        """End of the chunk that starts at `step`: a multiple of the chunk length, or the end of the phase or job."""
        _, phase_end = self.trainer.phase_at(step)
        chunk = self.job.chunk
        ends = [(step // chunk + 1) * chunk, self.job.train.steps, phase_end]
        return min(end for end in ends if end is not None)

    def first_bad(self, state: PyTree) -> tuple[str, int, int] | None:
        """Name of the first array with a value that is not finite, and the indices of its task and seed."""
        for name, fine in zip(leaf_names(state), jax.device_get(self._finite(state)), strict=True):
            for task, seed in np.argwhere(~fine):
                return name, int(task), int(seed)
        return None

    def state_shape(self) -> PyTree:
        """Shapes and types of the state, without computing it."""
        return jax.eval_shape(self._init, *self._keys(), self.params, self.aim)

    def bytes_needed(self) -> float:
        """Approximate memory of the job; cached values count only for the lanes that run at the same time."""
        state = self.state_shape()
        trainer = self.trainer
        cache = jax.vmap(jax.vmap(lambda agent: trainer.cache(agent, trainer.last_phase)))
        cached = _bytes(jax.eval_shape(cache, state.agent))
        one_by_one = self._mesh.devices.flat[0].platform == "cpu"
        share = self._mesh.size / self.job.lanes if one_by_one else 1.0
        return WORKING_COPIES * _bytes(state) + CACHE_COPIES * share * cached

    def prices(self) -> dict[str, float]:
        """Approximate bytes of the job by the settings that they grow with."""
        job, codec, agent = self.job, self.job.environment.spec.codec, self.job.agent
        batches = getattr(agent, "update_steps", 1) * getattr(agent, "batch_size", 0)
        return {
            "buffer_size, the networks or the map": self.bytes_needed(),
            "chunk": WORKING_COPIES * 4.0 * job.lanes * job.chunk * codec.record_width,
            "steps_per_epoch or train_every": 4.0 * job.lanes * self.trainer.block * (codec.width + codec.record_width),
            "update_steps or batch_size": 4.0 * self._mesh.size * batches * codec.width,
            "trajectories": 24.0 * job.lanes * job.train.trajectories,
        }

    def check_memory(self) -> None:
        """Raise if the job needs more memory than the devices have free."""
        prices, free = self.prices(), _free_memory(self._mesh.size)
        need, most, job = sum(prices.values()), largest_part(prices), self.job
        fit = fitting(job.lanes, need, free) // len(job.tasks)
        cure = f"lower {most} ({in_gib(prices[most])} GiB)"
        if most in ("chunk", "trajectories"):
            asked = job.chunk if most == "chunk" else job.train.trajectories
            cure = f"lower {most}: about {fitting(asked, need, free)} fits"
        elif job.environment.groups and (cells := job.environment.groups.count(job.tasks[0].params)) > MANY_GROUPS:
            cure = (
                f"the map has {cells} cells, about {fitting(cells, need, free)} fit: train on a smaller map, or {cure}"
            )
        if fit:
            cure = f"train about {fit} seeds at a time, or {cure}"
        require_room(f"{len(job.seeds)} seeds in {len(job.tasks)} tasks", need, free, cure)


def _bytes(tree: PyTree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


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
    return free_memory()
