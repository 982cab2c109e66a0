"""Training in an environment that runs on the host: compiled functions of the trainer around steps in Python.

Each lane (one seed in one task) has several copies of the environment. All copies of all lanes step together: a
compiled function chooses their actions, the copies step, and its next call observes the results, copy by copy. After
a block of steps the trainer learns; the next step of the environment runs at the same time, so its actions are chosen
before this learning.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core.precision import precision
from safedsr.engine.host_parts import Diary, Part, Scene, Tally
from safedsr.engine.host_steps import Functions
from safedsr.engine.lanes import cores
from safedsr.engine.loop import Lane
from safedsr.engine.program import Program
from safedsr.envs.copies import Copies, Host
from safedsr.errors import EnvironmentFailed, UserError
from safedsr.runs.job import Job
from safedsr.types import PyTree, Record, Trainer

USUAL_COPIES = 8  # of each lane, at most
SLOW = 1e-3  # seconds of a step from which processes are worth their messages


def copies_of(job: Job, block: int) -> int:
    """Number of copies of the environment for each lane; it divides the block of steps between two updates."""
    given = job.train.copies
    if given is None:
        return max(n for n in range(1, min(USUAL_COPIES, block) + 1) if block % n == 0)
    if block % given:
        fitting = ", ".join(str(n) for n in range(1, min(block, 64) + 1) if block % n == 0)
        raise UserError(f"copies is {given}; {job.algorithm} learns after every {block} steps: give one of {fitting}")
    return given


def processes_for(host: Host, given: int | None, total: int) -> int:
    """Number of processes that step the copies: as given, or one for each core if a step is slow."""
    most = given if given is not None else cores() if host.seconds >= SLOW and total > 1 else 0
    return max((n for n in range(1, min(most, total) + 1) if total % n == 0), default=0)


class HostProgram(Program):
    """A `Program` whose environment runs on the host. The environment's own state is not part of its state.

    On an accelerator, one call computes all lanes. On CPU cores, each lane has its own calls, on the core of its own,
    because its replay memory is then updated in place.
    """

    overlap = True  # the environment steps while the trainer learns

    def __init__(self, job: Job, trainer: Trainer | None = None, keeps: Callable[[int], bool] | None = None) -> None:
        super().__init__(job, trainer, keeps)
        self.copies = copies_of(job, self.trainer.block)
        self.devices = list(self._mesh.devices.flat)
        self.many = self.devices[0].platform != "cpu"
        shape = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), self.state_shape().agent)
        host = job.environment.host
        assert host
        self.functions = Functions(self.trainer, host.columns, self.copies, shape, self._phases(), many=self.many)
        self._scene: Scene | None = None
        self._given: Any = None  # params, aim, and both for each part
        self._take = jax.jit(self._boxes_of_part)
        self._whole = jax.jit(self._state_of_parts)

    def _check_environment(self) -> None:
        """An environment on the host was checked when it was made."""

    def start_one(self, key: Array, seed: Array, params: PyTree) -> Lane:
        """The state of one lane before the first step."""
        return Lane(self.trainer.init(key, seed, params)[0], ())  # type: ignore[arg-type]

    def _phases(self) -> list[str]:
        """Every phase of the job."""
        phases, step = [], 0
        while step < self.job.train.steps:
            phase, end = self.trainer.phase_at(step)
            phases.append(phase)
            step = self.job.train.steps if end is None else end
        return phases

    def advance(self, state: PyTree, step: int, count: int) -> tuple[PyTree, Record, dict[str, Array]]:
        """Run `count` environment steps of one phase, like `Program.advance`."""
        diary = Diary(self.job, self.copies, count)
        try:
            with precision(self.job.train.matmul):
                scene = self._scene = self._open(step)
                parts = self._split(state.agent, step)
                self._run(parts, scene, step, step + count, diary)
        except EnvironmentFailed as error:
            self.close()
            raise EnvironmentFailed(f"{error} (at step {step + diary.taken * self.copies})") from error
        return Lane(self._join(parts), ()), diary.records(), self._losses(parts)  # type: ignore[arg-type]

    def close(self) -> None:
        """End all copies of the environment; the next `advance` makes new ones."""
        if self._scene:
            self._scene.envs.close()
            self._scene = None

    def _run(self, parts: "list[Part]", scene: "Scene", step: int, end: int, diary: "Diary") -> None:
        block, turns = self.trainer.block, self.functions.turns
        self._plan(parts, scene, step, first=True)
        pending = None  # the block that the trainer has not learnt from yet
        for now in range(step, end, block):
            later = now + block
            ahead = self.overlap and later < end and not self.functions.resets
            for turn in range(turns):
                actions = [np.asarray(part.actions).reshape(-1) for part in parts]
                scene.envs.begin_step(actions[0] if len(actions) == 1 else np.concatenate(actions))
                if pending is not None:
                    for part in parts:
                        part.learn(pending)
                    pending = None
                sent = self._see(scene, diary)
                for part, rows in zip(parts, self._by_part(sent), strict=True):
                    part.observe(rows, now, turn, ahead=ahead)
            if ahead:
                pending = now
            else:
                for part in parts:
                    part.learn(now)
                if later < end:
                    self._plan(parts, scene, later)

    def _plan(self, parts: "list[Part]", scene: "Scene", now: int, *, first: bool = False) -> None:
        """Random numbers for a block of steps, and the actions of its first step; a reset, if it starts anew."""
        obs = scene.starts() if self.functions.resets else np.array(scene.obs) if first else None
        each = [None] * len(parts) if obs is None else self._by_part(obs)
        for part, start in zip(parts, each, strict=True):
            part.plan(now, start)

    def _see(self, scene: "Scene", diary: "Diary") -> np.ndarray:
        """Finish the step of all copies; returns it as rows for the compiled functions."""
        rows, tally = scene.envs.end_step(), scene.tally
        done = tally.add(rows)
        diary.write(rows, done, tally)
        sent = np.concatenate(
            [scene.envs.rows, tally.cost, tally.ret[:, None], tally.time[:, None]], 1, dtype=np.float32
        )
        tally.clear(done)
        scene.obs = rows.start
        return sent

    def _by_part(self, rows: np.ndarray) -> list[np.ndarray]:
        """Rows of all copies, for each part: [lanes, copies, …], or [copies, …] if a part is one lane."""
        lanes = rows.reshape(self.job.lanes, self.copies, -1)
        return [lanes] if self.many else list(lanes)

    def _split(self, agent: PyTree, step: int) -> "list[Part]":
        """The state [E, S] as parts."""
        phase = self.trainer.phase_at(step)[0]
        given = self._given_to_parts()
        devices = [self.devices[n % len(self.devices)] for n in range(len(given))]
        boxes = [self._take(agent, np.int32(n)) for n in range(len(given))]
        if len(self.devices) > 1:
            boxes = [jax.device_put(one, device) for one, device in zip(boxes, devices, strict=True)]
        return [Part(self.functions, one, *of, phase) for one, of in zip(boxes, given, strict=True)]

    def _boxes_of_part(self, agent: PyTree, n: Array) -> list[Array]:
        lanes = jax.tree.map(lambda x: x.reshape(self.job.lanes, *x.shape[2:]), agent)
        return self.functions.close(lanes if self.many else jax.tree.map(lambda x: x[n], lanes))

    def _given_to_parts(self) -> list[tuple[PyTree, Any]]:
        """Parameters and target costs of each part, on its device."""
        if self._given is None or self._given[0] is not self.params or self._given[1] is not self.aim:
            tasks = np.arange(self.job.lanes) // len(self.job.seeds)
            places = [tasks] if self.many else list(tasks)
            each = [jax.tree.map(lambda x, at=at: np.asarray(x)[at], (self.params, self.aim)) for at in places]
            put = [jax.device_put(one, self.devices[n % len(self.devices)]) for n, one in enumerate(each)]
            self._given = self.params, self.aim, put
        return self._given[2]

    def _join(self, parts: "list[Part]") -> PyTree:
        """The state [E, S] of all parts."""
        boxes = [part.boxes for part in parts]
        return self._whole(boxes if len(self.devices) == 1 else jax.device_put(boxes, self.devices[0]))

    def _state_of_parts(self, boxes: list[list[Array]]) -> PyTree:
        states = [self.functions.open(one) for one in boxes]
        whole = states[0] if self.many else jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        return jax.tree.map(lambda x: x.reshape(len(self.job.tasks), len(self.job.seeds), *x.shape[1:]), whole)

    def _losses(self, parts: "list[Part]") -> dict[str, Any]:
        """The mean of each loss over all blocks, [E, S]."""
        means = [jax.tree.map(lambda x, part=part: x / part.blocks, jax.device_get(part.sums)) for part in parts]
        shape = len(self.job.tasks), len(self.job.seeds)
        return jax.tree.map(lambda *values: np.stack(values).reshape(shape), *means)

    def _open(self, step: int) -> "Scene":
        """The running copies, with the parameters of this moment; new ones if there are none."""
        tasks = range(len(self.job.tasks))
        each = [jax.tree.map(lambda x, n=n: np.asarray(x[n]), self.params) for n in tasks]
        args = [one for one in each for _ in range(len(self.job.seeds) * self.copies)]
        if self._scene:
            if self.params is not self._scene.params:
                self._scene.envs.set_args(args)
                self._scene.params = self.params
            return self._scene
        host = self.job.environment.host
        assert host
        envs = Copies(host, args, processes_for(host, self.job.train.processes, len(args)))
        seeds = [start_seeds(seed, step, self.copies) for _ in tasks for seed in self.job.seeds]
        try:
            obs = envs.reset(np.concatenate(seeds)[:, None])
        except EnvironmentFailed:
            envs.close()
            raise
        return Scene(envs, Tally(len(args), self.job.num_costs, self.job.discount), obs, self.params)


def start_seeds(seed: int, step: int, copies: int) -> np.ndarray:
    """Seeds of the first episode of each copy, if copies of a training seed start at this step."""
    return np.random.SeedSequence((seed, step)).generate_state(copies).astype(np.int64) >> 1
