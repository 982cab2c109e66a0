"""What the loop around environments on the host holds while it runs: agents, copies, running episodes, records."""

from typing import Any

import numpy as np
from jax import Array

from safedsr.engine.host_steps import Functions
from safedsr.engine.program import clock
from safedsr.envs.batch import Rows
from safedsr.envs.copies import Copies
from safedsr.runs.job import Job
from safedsr.types import PyTree, Record


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


class Scene:
    """The running copies: their episodes, s of the next step, and the parameters of their cost functions."""

    def __init__(self, envs: Copies, tally: Tally, obs: np.ndarray, params: PyTree) -> None:
        self.envs, self.tally, self.obs, self.params = envs, tally, obs, params
        self.fresh = True  # the copies have just been made

    def starts(self) -> np.ndarray:
        """New episodes in all copies; those that have just been made have new ones already."""
        if not self.fresh:
            self.obs = self.envs.reset()
            self.tally.clear()
        self.fresh = False
        return self.obs


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


class Part:
    """Lanes whose functions are called together: their agents, and the block of steps that is going on."""

    def __init__(self, functions: Functions, boxes: list[Array], params: PyTree, aim: Any, phase: str) -> None:
        self.functions, self.boxes, self.params, self.aim, self.phase = functions, boxes, params, aim, phase
        self.cache = functions.cache(boxes, phase)
        self.changing = functions.learnt(phase, params)
        self.obs: Any = None
        self.luck = self.choice = None
        self.kept: list[Array] = []  # rows of the block
        self.sums: Any = None  # of all losses
        self.blocks = 0  # that were learnt from

    @property
    def actions(self) -> Array:
        """The chosen actions."""
        assert self.choice
        return self.choice.action

    def plan(self, now: int, start: np.ndarray | None) -> None:
        """Begin a block of steps at the observations `start`, or at those after the last block."""
        self.obs = self.obs if start is None else start
        moved, self.luck, self.choice = self.functions.plan(self.boxes, self.obs, clock(now))
        self.boxes[: len(moved)] = moved

    def observe(self, rows: np.ndarray, now: int, turn: int, *, ahead: bool) -> None:
        """Observe a step of all copies and choose the next actions, after the last step of a block only if `ahead`."""
        functions, last = self.functions, turn == self.functions.turns - 1
        at = np.array((clock(now + turn * functions.copies), turn), np.int32)
        found = functions.turn(
            self.boxes, self.obs, self.choice, rows, self.luck, self.aim, at,
            phase=self.phase, last=last, ahead=last and ahead,
        )  # fmt: skip
        self.boxes[: len(found.moved)] = found.moved
        self.kept.append(found.kept)
        self.obs, self.choice = found.obs, found.choice
        self.luck = found.luck if last else self.luck

    def learn(self, now: int) -> None:
        """Learn from the block that began at `now`; the result is computed in the background."""
        functions, trainer, numbers = self.functions, self.functions.trainer, self.changing
        changing = [self.boxes[n] for n in numbers]
        fixed = [box for n, box in enumerate(self.boxes) if n not in numbers]
        changed, self.cache, self.sums = functions.digest(
            changing, fixed, self.cache, self.sums, tuple(self.kept), self.params, self.aim, clock(now),
            phase=self.phase, numbers=numbers,
        )  # fmt: skip
        for n, box in zip(numbers, changed, strict=True):
            self.boxes[n] = box
        self.kept, self.blocks = [], self.blocks + 1
        if (now + trainer.block) % trainer.period == 0:
            self.boxes = functions.sync(self.boxes)
