"""The compiled functions around an environment on the host, for one lane: choose actions, observe a step, learn."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.envs.environment import Spec
from safedsr.envs.host import Rows
from safedsr.types import Choice, PyTree, Seen, Trainer


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


class Turn(NamedTuple):
    """The result of a step of all copies of a lane."""

    changed: list[Array]  # leaves of the agent's state
    kept: Array  # [copies, …] rows for `digest`
    obs: Array  # [copies, observations] s of the next step
    choice: Choice | None  # the next actions; None after the last step of a block


class Functions:
    """Compiled functions of one lane, or of several lanes along a leading axis if `many`."""

    def __init__(
        self, trainer: Trainer, spec: Spec, copies: int, agent: PyTree, phases: Sequence[str], *, many: bool
    ) -> None:
        self.trainer, self.copies, self.turns = trainer, copies, trainer.block // copies
        self.sent = Sent(spec.observations, spec.costs, spec.extras)
        self.changed = _changed_leaves(trainer, self.sent, agent, phases)
        self.resets = jax.eval_shape(trainer.draw, agent)[1].reset is not None

        def lanes(function: Any, *shared: int) -> Any:
            """The function for several lanes; arguments with these numbers are the same for all."""
            return (lambda *args: _over(function, shared, args)) if many else function

        self.draw = jax.jit(lanes(self._draw))
        self.begin = jax.jit(lanes(self._begin))
        self.choose = jax.jit(lanes(self._choose, 3))
        self.sync = jax.jit(lanes(self._sync))
        self._lanes = lanes
        self.cache = jax.jit(self._cache, static_argnums=1)
        self.turn = jax.jit(self._turn_lanes, static_argnames=("phase", "last"))
        self.digest = jax.jit(self._digest_lanes, static_argnames="phase", donate_argnums=(0, 1))

    def with_changes(self, agent: PyTree, changed: list[Array]) -> PyTree:
        """The agent's state with the leaves that a step changed."""
        leaves, tree = jax.tree.flatten(agent)
        for n, leaf in zip(self.changed, changed, strict=True):
            leaves[n] = leaf
        return jax.tree.unflatten(tree, leaves)

    def _draw(self, agent: PyTree) -> tuple[PyTree, PyTree]:
        agent, draws = self.trainer.draw(agent)
        shape = self.turns, self.copies
        return agent, jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), draws.choices)

    def _begin(self, agent: PyTree, obs: Array) -> PyTree:
        return jax.lax.scan(lambda agent, one: (self.trainer.begin(agent, one), None), agent, obs)[0]

    def _choose(self, agent: PyTree, obs: Array, luck: PyTree, now: Array) -> Choice:
        return self._choose_at(agent, obs, jax.tree.map(lambda x: x[0], luck), now)

    def _choose_at(self, agent: PyTree, obs: Array, luck: PyTree, now: Array) -> Choice:
        return jax.vmap(self.trainer.choose, (None, 0, 0, 0))(agent, obs, luck, now + jnp.arange(self.copies))

    def _sync(self, agent: PyTree) -> PyTree:
        return distinct(self.trainer.sync(agent))

    def _cache(self, agent: PyTree, phase: str) -> PyTree:
        return self._lanes(lambda one: self.trainer.cache(one, phase))(agent)

    def _turn_lanes(self, agent, obs, choice, rows, luck, aim, now, turn, phase: str, last: bool) -> Turn:
        one = partial(self._turn, phase=phase, last=last)
        return self._lanes(one, 6, 7)(agent, obs, choice, rows, luck, aim, now, turn)

    def _turn(self, agent, obs, choice, rows, luck, aim, now, turn, phase: str, last: bool) -> Turn:
        """Observe the step of each copy, one after another, and choose the next actions."""
        leaves = jax.tree.leaves(agent)

        def one(changed: list[Array], xs: tuple[Array, Choice, Array, Array]) -> tuple[list[Array], Array]:
            obs, choice, row, now = xs
            seen = self.sent.unpack(row, obs, choice.action, last)
            after, kept = self.trainer.observe(self.with_changes(agent, changed), choice, seen, aim, now, phase)
            leaves = jax.tree.leaves(after)
            return [leaves[n] for n in self.changed], kept

        # The loop carries only the leaves that change: the replay memory would be copied.
        each = obs, choice, rows, now + jnp.arange(self.copies)
        changed, kept = jax.lax.scan(one, [leaves[n] for n in self.changed], each)
        start = self.sent.start(rows)
        if last:
            return Turn(changed, kept, start, None)
        luck = jax.tree.map(lambda x: x[turn + 1], luck)
        agent = self.with_changes(agent, changed)
        return Turn(changed, kept, start, self._choose_at(agent, start, luck, now + self.copies))

    def _digest_lanes(self, agent, cache, kept, params, aim, now, phase: str):
        return self._lanes(partial(self._digest, phase=phase), 5)(agent, cache, kept, params, aim, now)

    def _digest(self, agent, cache, kept: tuple[Array, ...], params, aim, now, phase: str):
        before = agent
        rows = jnp.stack(kept, 1).reshape(self.trainer.block, -1)  # the steps of a copy follow each other
        agent, cache, losses = self.trainer.digest(agent, cache, rows, params, aim, now, phase)
        return distinct(agent, before), cache, losses


def _over(function: Any, shared: Sequence[int], args: tuple[Any, ...]) -> Any:
    return jax.vmap(function, tuple(None if n in shared else 0 for n in range(len(args))))(*args)


def distinct(tree: PyTree, given: PyTree = None) -> PyTree:
    """The tree with a copy of each leaf that occurs twice, or that is a leaf of `given`.

    The memory of an array can be given away only once; and an array that a compiled function gets and returns unchanged
    is the same array, so its memory must not be given away.
    """
    leaves, structure = jax.tree.flatten(tree)
    seen = {id(leaf) for leaf in jax.tree.leaves(given)}
    for n, leaf in enumerate(leaves):
        leaves[n] = jnp.copy(leaf) if id(leaf) in seen else leaf
        seen.add(id(leaf))
    return structure.unflatten(leaves)


def _changed_leaves(trainer: Trainer, sent: Sent, agent: PyTree, phases: Sequence[str]) -> list[int]:
    """Numbers of the leaves of an agent's state that `observe` changes; only these are returned from a step."""
    leaves, tree = jax.tree.flatten(agent)
    obs, row, aim = (jax.ShapeDtypeStruct((size,), jnp.float32) for size in (sent.observations, sent.width, sent.costs))
    now = jax.ShapeDtypeStruct((), jnp.int32)
    luck = jax.eval_shape(lambda agent: jax.tree.map(lambda x: x[0], trainer.draw(agent)[1].choices), agent)
    found: set[int] = set()
    for phase in phases:

        def after(leaves: list[Array], obs: Array, row: Array, luck: PyTree, aim: Array, now: Array, phase=phase):
            agent = jax.tree.unflatten(tree, leaves)
            choice = trainer.choose(agent, obs, luck, now)
            seen = sent.unpack(row, obs, choice.action, False)
            return jax.tree.leaves(trainer.observe(agent, choice, seen, aim, now, phase)[0])

        traced = jax.make_jaxpr(after)(leaves, obs, row, luck, aim, now).jaxpr
        pairs = zip(traced.invars[: len(leaves)], traced.outvars, strict=True)
        found |= {n for n, (before, later) in enumerate(pairs) if before is not later}
    return sorted(found)
