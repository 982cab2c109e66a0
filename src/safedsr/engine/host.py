"""Training in an environment that runs on the host: compiled functions of the trainer around steps in Python.

Each lane (one seed in one task) has several copies of the environment. All copies of all lanes step together: a
compiled function chooses their actions, the copies step, and its next call observes the results, copy by copy. After
a block of steps the trainer learns; the next step of the environment runs at the same time, so its actions are chosen
before this learning.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core.precision import precision
from safedsr.engine.lanes import LANE, SHARED, TASK, cores, over_lanes
from safedsr.engine.loop import Lane
from safedsr.engine.program import Program
from safedsr.envs.host import Copies, Host, Rows
from safedsr.errors import EnvironmentFailed, UserError
from safedsr.runs.job import Job
from safedsr.types import Choice, PyTree, Record, Seen, Trainer

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


class Tally:
    """Time, return and cost of the running episode of each copy."""

    def __init__(self, count: int, costs: int, discount: float) -> None:
        self.time, self.ret = np.zeros(count, np.int32), np.zeros(count, np.float32)
        self.cost, self.discount = np.zeros((count, costs), np.float32), discount

    def clear(self, which: np.ndarray | slice = slice(None)) -> None:
        """Start anew for some copies."""
        self.time[which] = self.ret[which] = self.cost[which] = 0

    def add(self, rows: Rows) -> np.ndarray:
        """Count a step; returns which episodes are done. Call `clear` for them afterwards."""
        if self.discount == 1.0:
            self.cost += rows.cost
        else:
            self.cost += (self.discount ** self.time.astype(np.float32))[:, None] * rows.cost
        self.time += 1
        self.ret += rows.reward
        return rows.terminated | rows.truncated


class Sent(NamedTuple):
    """The places of the parts of a step in the row that the compiled functions get."""

    observations: int
    costs: int
    extras: int

    @property
    def width(self) -> int:
        """Length of a row."""
        return 2 * self.observations + 2 * self.costs + self.extras + 4

    def pack(self, rows: Rows, done: np.ndarray, total: np.ndarray) -> np.ndarray:
        """The step of all copies as rows [copies, width]."""
        flags = [rows.reward, rows.terminated, rows.success, done]
        parts = [rows.next_obs, rows.start, rows.cost, total, rows.extra, np.stack(flags, 1)]
        return np.concatenate(parts, 1, dtype=np.float32)

    def unpack(self, row: Array, obs: Array, action: Array, last: bool) -> Seen:
        """The step of one copy."""
        sizes = [self.observations, self.observations, self.costs, self.costs, self.extras]
        next_obs, start, cost, total, extra, flags = jnp.split(row, np.cumsum(sizes).tolist())
        return Seen(
            obs=obs,
            action=action,
            reward=flags[0],
            cost=cost,
            next_obs=next_obs,
            terminated=flags[1] > 0,
            success=flags[2] > 0,
            done=flags[3] > 0,
            start=start,
            total=total,
            last=jnp.asarray(last),
            extra=extra if self.extras else (),
        )

    def start(self, rows: Array) -> Array:
        """s of the next step [copies, observations]."""
        return rows[:, self.observations : 2 * self.observations]


class HostProgram(Program):
    """A `Program` whose environment runs on the host. The environment's own state is not part of its state."""

    overlap = True  # the environment steps while the trainer learns

    def __init__(self, job: Job, trainer: Trainer | None = None, keeps: Callable[[int], bool] | None = None) -> None:
        super().__init__(job, trainer, keeps)
        spec, block = job.environment.spec, self.trainer.block
        self.copies = copies_of(job, block)
        self.turns = block // self.copies  # steps of all copies in a block
        self._sent = Sent(spec.observations, spec.costs, spec.extras)
        self._scene: Scene | None = None
        self._resets = jax.eval_shape(self.trainer.draw, self._agent_shape())[1].reset is not None
        self._changed = self._changed_leaves()
        lanes = partial(over_lanes, mesh=self._mesh)
        self._draw = jax.jit(lanes(self._draw_one, (LANE,)))
        self._begin = jax.jit(lanes(self._begin_one, (LANE, LANE)))
        self._choose = jax.jit(lanes(self._choose_one, (LANE, LANE, LANE, SHARED)))
        self._cache = jax.jit(
            lambda agent, phase: lanes(lambda one: self.trainer.cache(one, phase), (LANE,))(agent),
            static_argnames="phase",
        )
        self._sync = jax.jit(lanes(self.trainer.sync, (LANE,)), donate_argnums=0)
        self._turn = jax.jit(self._turn_all, static_argnames=("phase", "last"))
        self._digest = jax.jit(self._digest_all, static_argnames="phase", donate_argnums=(0, 1))

    def _check_environment(self) -> None:
        """An environment on the host was checked when it was made."""

    def _start_one(self, key: Array, seed: Array, params: PyTree) -> Lane:
        return Lane(self.trainer.init(key, seed, params)[0], ())  # type: ignore[arg-type]

    def _changed_leaves(self) -> list[int]:
        """Numbers of the leaves of an agent's state that `observe` changes; only these are returned from a step."""
        lane = self._agent_shape()
        leaves, tree = jax.tree.flatten(lane)
        obs = jax.ShapeDtypeStruct((self._sent.observations,), jnp.float32)
        aim = jax.ShapeDtypeStruct((self._sent.costs,), jnp.float32)
        row = jax.ShapeDtypeStruct((self._sent.width,), jnp.float32)
        now = jax.ShapeDtypeStruct((), jnp.int32)
        luck = jax.eval_shape(lambda agent: jax.tree.map(lambda x: x[0], self.trainer.draw(agent)[1].choices), lane)
        found: set[int] = set()
        for phase in self._phases():

            def after(leaves: list[Array], obs: Array, row: Array, luck: PyTree, aim: Array, now: Array, phase=phase):
                agent = jax.tree.unflatten(tree, leaves)
                choice = self.trainer.choose(agent, obs, luck, now)
                seen = self._sent.unpack(row, obs, choice.action, False)
                return jax.tree.leaves(self.trainer.observe(agent, choice, seen, aim, now, phase)[0])

            traced = jax.make_jaxpr(after)(leaves, obs, row, luck, aim, now).jaxpr
            pairs = zip(traced.invars[: len(leaves)], traced.outvars, strict=True)
            found |= {n for n, (before, later) in enumerate(pairs) if before is not later}
        return sorted(found)

    def _agent_shape(self) -> PyTree:
        """Shapes and types of the state of one lane's agent."""
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), self.state_shape().agent)

    def _phases(self) -> list[str]:
        """Every phase of the job."""
        phases, step = [], 0
        while step < self.job.train.steps:
            phase, end = self.trainer.phase_at(step)
            phases.append(phase)
            step = self.job.train.steps if end is None else end
        return phases

    # Functions of one lane; `over_lanes` maps them.

    def _draw_one(self, agent: PyTree) -> tuple[PyTree, PyTree]:
        agent, draws = self.trainer.draw(agent)
        shape = self.turns, self.copies
        luck = jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), draws.choices)
        return agent, luck

    def _begin_one(self, agent: PyTree, obs: Array) -> PyTree:
        return jax.lax.scan(lambda agent, one: (self.trainer.begin(agent, one), None), agent, obs)[0]

    def _choose_one(self, agent: PyTree, obs: Array, luck: PyTree, now: Array) -> Choice:
        return self._choose_at(agent, obs, jax.tree.map(lambda x: x[0], luck), now)

    def _choose_at(self, agent: PyTree, obs: Array, luck: PyTree, now: Array) -> Choice:
        return jax.vmap(self.trainer.choose, (None, 0, 0, 0))(agent, obs, luck, now + jnp.arange(self.copies))

    def _turn_one(
        self, agent: PyTree, obs: Array, choice: Choice, rows: Array, luck: PyTree, aim: Array, now: Array, turn: Array,
        phase: str, last: bool,
    ):  # fmt: skip
        def one(agent: PyTree, xs: tuple[Array, Choice, Array, Array]) -> tuple[PyTree, Array]:
            obs, choice, row, now = xs
            seen = self._sent.unpack(row, obs, choice.action, last)
            return self.trainer.observe(agent, choice, seen, aim, now, phase)

        agent, kept = jax.lax.scan(one, agent, (obs, choice, rows, now + jnp.arange(self.copies)))
        start, leaves = self._sent.start(rows), jax.tree.leaves(agent)
        changed = [leaves[n] for n in self._changed]
        if last:
            return Turn(changed, kept, start, None)
        luck = jax.tree.map(lambda x: x[turn + 1], luck)
        return Turn(changed, kept, start, self._choose_at(agent, start, luck, now + self.copies))

    def _turn_all(self, agent, obs, choice, rows, luck, aim, now, turn, phase: str, last: bool):
        axes = (LANE, LANE, LANE, LANE, LANE, TASK, SHARED, SHARED)
        one = partial(self._turn_one, phase=phase, last=last)
        return over_lanes(one, axes, self._mesh)(agent, obs, choice, rows, luck, aim, now, turn)

    def _digest_all(self, agent, cache, rows, params, aim, now, phase: str):
        def one(agent: PyTree, cache: PyTree, rows: tuple[Array, ...], params: PyTree, aim: Array, now: Array):
            stacked = jnp.stack(rows, 1)  # [copies, turns, …]: the steps of a copy follow each other
            flat = stacked.reshape(self.trainer.block, -1)
            return self.trainer.digest(agent, cache, flat, params, aim, now, phase)

        axes = (LANE, LANE, LANE, TASK, TASK, SHARED)
        return over_lanes(one, axes, self._mesh)(agent, cache, rows, params, aim, now)

    # The loop on the host.

    def advance(self, state: PyTree, step: int, count: int) -> tuple[PyTree, Record, dict[str, Array]]:
        """Run `count` environment steps of one phase, like `Program.advance`."""
        diary = Diary(self.job, self.copies, count)
        try:
            with precision(self.job.train.matmul):
                agent, losses = self._run(state.agent, step, count, diary)
        except EnvironmentFailed as error:
            self.close()
            raise EnvironmentFailed(f"{error} (at step {step + diary.taken * self.copies})") from error
        return Lane(agent, ()), diary.records(), losses  # type: ignore[arg-type]

    def close(self) -> None:
        """End all copies of the environment; the next `advance` makes new ones."""
        if self._scene:
            self._scene.envs.close()
            self._scene = None

    def _run(self, agent: PyTree, step: int, count: int, diary: "Diary") -> tuple[PyTree, dict[str, Array]]:
        phase, end = self.trainer.phase_at(step)[0], step + count
        scene = self._scene = self._open(step)
        learner = Learning(self, phase, self._cache(agent, phase))
        agent, luck, choice = self._plan(agent, scene, step)
        pending = None
        for now in range(step, end, self.trainer.block):
            kept = []
            for turn in range(self.turns):
                scene.envs.begin_step(np.asarray(choice.action).reshape(-1))
                if pending:
                    agent, pending = learner.learn(agent, *pending), None
                sent = self._sees(scene, diary)
                last = turn == self.turns - 1
                at = np.int32(now + turn * self.copies), np.int32(turn)
                found = self._turn(agent, scene.obs, choice, sent, luck, self.aim, *at, phase=phase, last=last)
                agent = self._with_changes(agent, found.changed)
                kept.append(found.kept)
                scene.obs, choice = found.start, found.choice
            later = now + self.trainer.block
            if self.overlap and later < end and not self._resets:
                agent, luck, choice = self._plan(agent, scene, later)
                pending = kept, now
            else:
                agent = learner.learn(agent, kept, now)
                if later < end:
                    agent, luck, choice = self._plan(agent, scene, later)
        return agent, learner.losses()

    def _plan(self, agent: PyTree, scene: "Scene", now: int) -> tuple[PyTree, PyTree, Choice]:
        """Random numbers for a block of steps, and the actions of its first step; also a reset, if it starts anew."""
        agent, luck = self._draw(agent)
        if self._resets and now != scene.begun:
            scene.restart(self._by_lane)
        if self._resets:
            agent = self._begin(agent, scene.obs)
        return agent, luck, self._choose(agent, scene.obs, luck, np.int32(now))

    def _sees(self, scene: "Scene", diary: "Diary") -> np.ndarray:
        """Finish the step of all copies; returns it as rows for the compiled functions."""
        rows, tally = scene.envs.end_step(), scene.tally
        done = tally.add(rows)
        diary.write(rows, done, tally)
        sent = self._sent.pack(rows, done, tally.cost)
        tally.clear(done)
        return self._by_lane(sent)

    def _with_changes(self, agent: PyTree, changed: list[Array]) -> PyTree:
        leaves, tree = jax.tree.flatten(agent)
        for n, leaf in zip(self._changed, changed, strict=True):
            leaves[n] = leaf
        return jax.tree.unflatten(tree, leaves)

    def _by_lane(self, rows: np.ndarray) -> np.ndarray:
        return rows.reshape(len(self.job.tasks), len(self.job.seeds), self.copies, -1)

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
            obs = self._by_lane(envs.reset(np.concatenate(seeds)[:, None]))
        except EnvironmentFailed:
            envs.close()
            raise
        return Scene(envs, Tally(len(args), self.job.num_costs, self.job.discount), obs, self.params, step)


def start_seeds(seed: int, step: int, copies: int) -> np.ndarray:
    """Seeds of the first episode of each copy, if copies of a training seed start at this step."""
    return np.random.SeedSequence((seed, step)).generate_state(copies).astype(np.int64) >> 1


class Scene:
    """The running copies: their episodes, s of the next step, and the parameters of their cost functions."""

    def __init__(self, envs: Copies, tally: Tally, obs: Any, params: PyTree, begun: int) -> None:
        self.envs, self.tally, self.obs, self.params = envs, tally, obs, params
        self.begun = begun  # environment step at which the copies started

    def restart(self, by_lane: Callable[[np.ndarray], np.ndarray]) -> None:
        """New episodes in all copies."""
        self.obs = by_lane(self.envs.reset())
        self.tally.clear()


class Turn(NamedTuple):
    """The result of a step of all copies."""

    changed: list[Array]  # leaves of the agents' states
    kept: Array  # [E, S, copies, …] rows for `digest`
    start: Array  # [E, S, copies, observations] s of the next step
    choice: Choice | None  # the next actions; None after the last step of a block


class Learning:
    """The learning of a phase: its cached values and its losses."""

    def __init__(self, program: HostProgram, phase: str, cache: PyTree) -> None:
        self.program, self.phase, self.cache = program, phase, cache
        self._losses: list[dict[str, Array]] = []

    def learn(self, agent: PyTree, kept: list[Array], now: int) -> PyTree:
        """The agent after a block of steps that began at `now`; the result is computed in the background."""
        program = self.program
        agent, self.cache, losses = program._digest(
            agent, self.cache, tuple(kept), program.params, program.aim, np.int32(now), phase=self.phase
        )
        self._losses.append(losses)
        later = now + program.trainer.block
        return program._sync(agent) if later % program.trainer.period == 0 else agent

    def losses(self) -> dict[str, Array]:
        """The mean of each loss over all blocks."""
        return jax.tree.map(lambda *values: np.mean([np.asarray(x) for x in values], 0), *self._losses)


class Diary:
    """Records of all steps of a chunk, in the order of steps and then of copies."""

    def __init__(self, job: Job, copies: int, count: int) -> None:
        self.shape = len(job.tasks), len(job.seeds), copies
        turns, total = count // copies, len(job.tasks) * len(job.seeds) * copies
        self.done, self.success = np.zeros((2, turns, total), bool)
        self.length, self.ret = np.zeros((turns, total), np.int32), np.zeros((turns, total), np.float32)
        self.cost = np.zeros((turns, total, job.num_costs), np.float32)
        self.taken = 0  # steps of all copies

    def write(self, rows: Rows, done: np.ndarray, tally: Tally) -> None:
        """Write a step of all copies."""
        n = self.taken
        self.done[n], self.success[n] = done, rows.success & done
        self.length[n], self.ret[n], self.cost[n] = tally.time, tally.ret, tally.cost
        self.taken += 1

    def records(self) -> Record:
        """The records [E, S, steps]; without observations, which only maps need."""

        def by_lane(x: np.ndarray) -> Any:
            x = np.moveaxis(x.reshape(len(x), *self.shape, *x.shape[2:]), 0, 2)  # [E, S, turns, copies, …]
            return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3], *x.shape[4:])

        empty = np.zeros((*self.done.shape, 0), np.float32)
        return Record(*map(by_lane, (self.done, self.success, self.length, self.ret, self.cost, empty)))
