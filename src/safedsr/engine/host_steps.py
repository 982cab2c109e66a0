"""The compiled functions around an environment on the host, for one lane: choose actions, observe a step, learn."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.engine.boxes import Boxes, changed_leaves
from safedsr.envs.batch import Columns
from safedsr.types import Choice, PyTree, Seen, Trainer


class Turn(NamedTuple):
    """The result of a step of all copies of a lane."""

    moved: list[Array]  # boxes of the agent's state that acting changes
    kept: Array  # [copies, …] rows for `digest`
    obs: Array  # [copies, observations] s of the next step
    choice: Choice | None  # the next actions; None if they are chosen later
    luck: PyTree  # random numbers of the next block, if its first actions are chosen


class Functions:
    """Compiled functions of one lane, or of several lanes along a leading axis if `many`.

    They get and return an agent's state as boxes. Rows of a step are those of the environment's `columns`, each
    followed by the costs, the return and the length of its episode so far.
    """

    def __init__(
        self, trainer: Trainer, columns: Columns, copies: int, agent: PyTree, phases: Sequence[str], *, many: bool
    ) -> None:
        self.trainer, self.columns, self.copies, self.turns = trainer, columns, copies, trainer.block // copies
        self.resets = jax.eval_shape(trainer.draw, agent)[1].reset is not None
        self._agent, self._many = agent, many
        self._learnt: dict[str, tuple[int, ...]] = {}
        self.boxes = Boxes(agent, set().union(*[self._moved_leaves(phase) for phase in phases]))

        def lanes(function: Any, *shared: int) -> Any:
            """The function for several lanes; arguments with these numbers are the same for all."""
            return (lambda *args: _over(function, shared, args)) if many else function

        self._lanes = lanes
        self.close, self.open = lanes(self.boxes.close), lanes(self.boxes.open)
        self.plan = jax.jit(lanes(self._plan, 2))
        self.sync = jax.jit(lanes(self._sync))
        self.cache = jax.jit(self._cache, static_argnums=1)
        self.turn = jax.jit(self._turn_lanes, static_argnames=("phase", "last", "ahead"))
        self.digest = jax.jit(self._digest_lanes, static_argnames=("phase", "numbers"), donate_argnums=(0, 2))

    def learnt(self, phase: str, params: PyTree) -> tuple[int, ...]:
        """Numbers of the boxes that learning changes; the function `digest` gets and returns these in place."""
        if phase not in self._learnt:
            self._learnt[phase] = self._find_learnt(phase, params)
        return self._learnt[phase]

    def _find_learnt(self, phase: str, params: PyTree) -> tuple[int, ...]:

        def after(agent: PyTree, obs: Array, row: Array, params: PyTree, aim: Array, now: Array) -> PyTree:
            _, kept = self._observe_one(agent, obs, row, aim, now, phase)
            rows = jnp.broadcast_to(kept, (self.trainer.block, *kept.shape))
            return self.trainer.digest(agent, self.trainer.cache(agent, phase), rows, params, aim, now, phase)[0]

        obs, row, aim, now = _examples(self.columns)
        if self._many:
            params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), params)
        return tuple(self.boxes.of(changed_leaves(after, self._agent, obs, row, params, aim, now)))

    def _moved_leaves(self, phase: str) -> set[int]:
        """Numbers of the leaves of an agent's state that acting changes; only these are returned from a step."""

        def after(agent: PyTree, obs: Array, row: Array, aim: Array, now: Array) -> PyTree:
            agent, _ = self._draw(agent)
            agent = self.trainer.begin(agent, obs) if self.resets else agent
            return self._observe_one(agent, obs, row, aim, now, phase)[0]

        return changed_leaves(after, self._agent, *_examples(self.columns))

    def _observe_one(self, agent: PyTree, obs: Array, row: Array, aim: Array, now: Array, phase: str):
        luck = jax.tree.map(lambda x: x[0, 0], self._draw(agent)[1])
        choice = self.trainer.choose(agent, obs, luck, now)
        return self.trainer.observe(agent, choice, self._seen(row, obs, choice.action, False), aim, now, phase)

    def _seen(self, row: Array, obs: Array, action: Array, last: bool) -> Seen:
        """The step of one copy."""
        width = self.columns.width
        step: Any = self.columns.split(row[:width])  # type: ignore[arg-type]
        return Seen(
            obs=obs,
            action=action,
            reward=step.reward,
            cost=step.cost,
            next_obs=step.next_obs,
            terminated=step.terminated,
            success=step.success,
            done=step.terminated | step.truncated,
            start=step.start,
            total=row[width:-2],
            ret=row[-2],
            time=row[-1].astype(jnp.int32),
            last=jnp.asarray(last),
            extra=step.extra if self.columns.extras else (),
        )

    def _moved(self, agent: PyTree) -> list[Array]:
        return self.boxes.close(agent)[: self.boxes.moved]

    def _draw(self, agent: PyTree) -> tuple[PyTree, PyTree]:
        agent, draws = self.trainer.draw(agent)
        shape = self.turns, self.copies
        return agent, jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), draws.choices)

    def _choose_at(self, agent: PyTree, obs: Array, luck: PyTree, now: Array) -> Choice:
        return jax.vmap(self.trainer.choose, (None, 0, 0, 0))(agent, obs, luck, now + jnp.arange(self.copies))

    def _plan(self, boxes: list[Array], obs: Array, now: Array) -> tuple[list[Array], PyTree, Choice]:
        """Random numbers for a block of steps, and the actions of its first step."""
        agent, luck = self._draw(self.boxes.open(boxes))
        if self.resets:
            agent = jax.lax.scan(lambda agent, one: (self.trainer.begin(agent, one), None), agent, obs)[0]
        return self._moved(agent), luck, self._choose_at(agent, obs, jax.tree.map(lambda x: x[0], luck), now)

    def _sync(self, boxes: list[Array]) -> list[Array]:
        # Copies, because learning gives the memory of an array away, and a large network may be a box.
        # No memory is given away here: on a GPU (JAX 0.11), a network that became the target network lost its values.
        return [jnp.copy(box) for box in self.boxes.close(self.trainer.sync(self.boxes.open(boxes)))]

    def _cache(self, boxes: list[Array], phase: str) -> PyTree:
        return self._lanes(lambda one: self.trainer.cache(self.boxes.open(one), phase))(boxes)

    def _turn_lanes(self, boxes, obs, choice, rows, luck, aim, at, phase: str, last: bool, ahead: bool) -> Turn:
        one = partial(self._turn, phase=phase, last=last, ahead=ahead)
        return self._lanes(one, 6)(boxes, obs, choice, rows, luck, aim, at)

    def _turn(self, boxes, obs, choice, rows, luck, aim, at, phase: str, last: bool, ahead: bool) -> Turn:
        """Observe the step of each copy, one after another, and choose the next actions.

        `at` is the environment step, and the number of this step of all copies in its block. After the last one of a
        block, the first actions of the next block are chosen if `ahead`.
        """
        (now, turn), first, rest = at, boxes[: self.boxes.moved], boxes[self.boxes.moved :]

        def one(moved: list[Array], xs: tuple[Array, Choice, Array, Array]) -> tuple[list[Array], Array]:
            obs, choice, row, now = xs
            seen = self._seen(row, obs, choice.action, last)
            agent, kept = self.trainer.observe(self.boxes.open([*moved, *rest]), choice, seen, aim, now, phase)
            return self._moved(agent), kept

        # The loop carries only the boxes that change: the replay memory would be copied.
        moved, kept = jax.lax.scan(one, first, (obs, choice, rows, now + jnp.arange(self.copies)))
        start = rows[:, self.columns.width - self.columns.observations : self.columns.width]
        if last and not ahead:
            return Turn(moved, kept, start, None, None)
        agent = self.boxes.open([*moved, *rest])
        if last:
            agent, luck = self._draw(agent)
        chosen = jax.tree.map(lambda x: x[0 if last else turn + 1], luck)
        choice = self._choose_at(agent, start, chosen, now + self.copies)
        return Turn(self._moved(agent), kept, start, choice, luck if last else None)

    def _digest_lanes(self, changing, fixed, cache, sums, kept, params, aim, now, phase: str, numbers: tuple[int, ...]):
        one = partial(self._digest, phase=phase, numbers=numbers)
        return self._lanes(one, 7)(changing, fixed, cache, sums, kept, params, aim, now)

    def _digest(self, changing, fixed, cache, sums, kept, params, aim, now, phase: str, numbers: tuple[int, ...]):
        """Learn from a block of steps; `changing` are the boxes with these numbers. `sums` are those of all losses."""
        changes, others = iter(changing), iter(fixed)
        boxes = [next(changes if n in numbers else others) for n in range(len(changing) + len(fixed))]
        rows = jnp.stack(kept, 1).reshape(self.trainer.block, -1)  # the steps of a copy follow each other
        agent = self.boxes.open(boxes)
        agent, cache, losses = self.trainer.digest(agent, cache, rows, params, aim, now, phase)
        boxes = self.boxes.close(agent)
        return [boxes[n] for n in numbers], cache, losses if sums is None else jax.tree.map(jnp.add, sums, losses)


def _over(function: Any, shared: Sequence[int], args: tuple[Any, ...]) -> Any:
    return jax.vmap(function, tuple(None if n in shared else 0 for n in range(len(args))))(*args)


def _examples(columns: Columns) -> tuple[Any, ...]:
    """Shapes of an observation, a row, the target costs and an environment step."""
    sizes = columns.observations, columns.width + columns.costs + 2, columns.costs
    return *(jax.ShapeDtypeStruct((size,), jnp.float32) for size in sizes), jax.ShapeDtypeStruct((), jnp.int32)
