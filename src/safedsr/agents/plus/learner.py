"""SafeDSR-plus: successor features that say where one goes, learnt to be right where it matters.

A feature is a cell of the map: M(s, a) holds how often, discounted, each cell will be entered. Rewards and costs are
those of cells, so their weights are plain means, exact and ready for any cost map. What M is trained for is first of
all the value of its errors, M·w_r and M·w_c, and only then M itself. Losses are written for one transition.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.safedsr.equations import Weights
from safedsr.agents.value_based.loop import Learner, Memory, State, make_trainer
from safedsr.core import replay
from safedsr.core.nets import Mlp, dense, descend
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout
from safedsr.envs.grid.physics import NUM_ACTIONS, cell_of
from safedsr.types import PyTree, Trainer, Transition, Values


class Place(NamedTuple):
    """How observations lie on the map; arrays, so that maps of several sizes share a program."""

    scale: Array  # [] cells across: position = scale · observation
    columns: Array  # [] int32


def place_of(layout: Layout) -> Place:
    """How observations lie on this map."""
    return Place(jnp.asarray(layout.scale), jnp.int32(layout.walls.shape[1]))


class CellNet(eqx.Module):
    """A number for every action and cell: waves of the position, a layer for all actions, one for each, cells."""

    trunk: Mlp
    last: eqx.nn.Linear

    def __init__(self, cells: int, config: SafeDsrPlusConfig, *, key: Array) -> None:
        trunk_key, last_key = jax.random.split(key)
        self.trunk = Mlp((2 + 4 * config.octaves, config.trunk, NUM_ACTIONS * config.head), key=trunk_key)
        # A last layer of zeros: nothing is expected at first, instead of something random in every cell.
        self.last = jax.tree.map(jnp.zeros_like, eqx.nn.Linear(config.head, cells, key=last_key))

    def hidden(self, obs: Array, place: Place) -> Array:
        """What the last layer sees, [A, head]."""
        octaves = (self.trunk.layers[0].weight.shape[1] - 2) // 4
        turns = obs[:, None] * place.scale / 2.0 ** jnp.arange(1, octaves + 1)[None]  # wavelengths 2, 4, 8 … cells
        waves = 2 * jnp.pi * turns.ravel()
        inputs = jnp.concatenate([obs, jnp.sin(waves), jnp.cos(waves)])
        return jax.nn.relu(self.trunk(inputs)).reshape(NUM_ACTIONS, -1)

    def __call__(self, obs: Array, action: Array, place: Place) -> Array:
        """What it says of one action, [cells]."""
        return dense(self.last, self.hidden(obs, place)[action])


class Forecast(NamedTuple):
    """φ: in which cell a step will end."""

    net: CellNet
    place: Place

    def features(self, obs: Array, action: Array) -> Array:
        """The chance of each cell, [cells]."""
        return jax.nn.softmax(self.net(obs, action, self.place))


class PlusPolicy(NamedTuple):
    """What acting and adapting need."""

    phi: Forecast
    successor: CellNet  # M
    weights: Weights


class PlusState(NamedTuple):
    """The networks, the target and the optimiser."""

    place: Place
    phi: CellNet
    successor: CellNet
    target: CellNet
    weights: Weights
    phi_optimizer: PyTree
    successor_optimizer: PyTree


def init(key: Array, layout: Layout, config: SafeDsrPlusConfig) -> PlusState:
    """M expects nothing, φ knows nothing."""
    cells = layout.walls.size
    phi_key, successor_key = jax.random.split(key)
    phi, successor = (CellNet(cells, config, key=k) for k in (phi_key, successor_key))
    return PlusState(
        place=place_of(layout),
        phi=phi,
        successor=successor,
        target=successor,
        weights=Weights(jnp.zeros(cells), jnp.zeros((len(layout.costs), cells))),
        phi_optimizer=adam(config).init(phi),
        successor_optimizer=adam(config).init(successor),
    )


def go_on(policy: PlusPolicy, optimizer: Any, config: SafeDsrPlusConfig) -> PlusState:
    """A learner that goes on from a policy, its optimisers anew."""
    (net, place), successor, weights = policy
    return PlusState(place, net, successor, successor, weights, adam(config).init(net), optimizer.init(successor))


def crop(policy: PlusPolicy, layout: Layout) -> PlusPolicy:
    """The policy for its own map alone, without the cells by which that was padded beside larger ones."""
    (net, place), successor, weights = policy
    rows, columns = layout.walls.shape
    keep = np.arange(len(weights.w_r)).reshape(-1, int(place.columns))[:rows, :columns].ravel()

    def of(net: CellNet) -> CellNet:
        return eqx.tree_at(lambda n: n.last, net, jax.tree.map(lambda x: x[keep], net.last))

    weights = Weights(weights.w_r[keep], weights.w_c[:, keep])
    return PlusPolicy(Forecast(of(net), place_of(layout)), of(successor), weights)


def adam(config: SafeDsrPlusConfig) -> Any:  # optax does not know modules as parameters
    """The optimiser of φ and M."""
    return optax.adam(config.learning_rate)


def next_cell(t: Transition, place: Place) -> Array:
    """The number of the cell in which a step ended, by rows."""
    column, row = cell_of(t.next_obs * place.scale)
    return row * place.columns + column


def cell_means(reservoir: replay.Reservoir) -> Weights:
    """The mean reward and costs of what is remembered of each cell; 0 where nothing is."""
    rows, seen = reservoir.rows[0], reservoir.seen[0]
    t = replay.unpack(rows.sum(1) / jnp.maximum(jnp.minimum(seen, rows.shape[1]), 1)[:, None])
    return Weights(t.reward, t.cost.T)


def scores(successor: CellNet, weights: Weights, hidden: Array, lam: Array) -> Array:
    """Q - λ·K [A], Eq. (15), from what M's last layer sees; that layer is folded with the weights into one vector."""
    direction = weights.direction(lam)
    return hidden @ (direction @ successor.last.weight) + direction @ successor.last.bias  # type: ignore[operator]


def successor_target(s: PlusState, t: Transition, lam: Array, config: SafeDsrPlusConfig) -> Array:
    """The cell that was entered, and what follows if some of the later actions are random."""
    hidden = s.target.hidden(t.next_obs, s.place)
    best = jax.nn.one_hot(jnp.argmax(scores(s.target, s.weights, hidden, lam)), NUM_ACTIONS)
    chances = (1 - config.plan_epsilon) * best + config.plan_epsilon / NUM_ACTIONS
    entered = jax.nn.one_hot(next_cell(t, s.place), len(s.weights.w_r))
    return entered + config.gamma * (1 - t.terminated) * dense(s.target.last, chances @ hidden)


def successor_loss(successor: CellNet, s: PlusState, t: Transition, goal: Array, config: SafeDsrPlusConfig) -> Array:
    """What M's error is worth in reward and in costs, and a little of the error itself."""
    error = goal - successor(t.obs, t.action, s.place)
    reward, cost = error @ s.weights.w_r, s.weights.w_c @ error
    return config.beta_r * reward**2 + config.beta_c * cost @ cost + config.beta_m * error @ error


def learn_successor(
    s: PlusState, batch: Transition, lam: Array, optimizer: Any, config: SafeDsrPlusConfig
) -> tuple[PlusState, Array]:
    """One step for M."""
    goals = jax.vmap(successor_target, (None, 0, None, None))(s, batch, lam, config)

    def loss(successor: CellNet) -> Array:
        return jax.vmap(successor_loss, (None, None, 0, 0, None))(successor, s, batch, goals, config).mean()

    value, slope = jax.value_and_grad(loss)(s.successor)
    successor, moments = descend(optimizer, slope, s.successor, s.successor_optimizer)
    return s._replace(successor=successor, successor_optimizer=moments), value


def learn_phi(s: PlusState, batch: Transition, config: SafeDsrPlusConfig) -> tuple[PlusState, Array]:
    """One step of cross-entropy for φ."""

    def loss(phi: CellNet) -> Array:
        logits = jax.vmap(phi, (0, 0, None))(batch.obs, batch.action, s.place)
        cells = jax.vmap(next_cell, (0, None))(batch, s.place)
        return optax.softmax_cross_entropy_with_integer_labels(logits, cells).mean()

    value, slope = jax.value_and_grad(loss)(s.phi)
    phi, optimizer = descend(adam(config), slope, s.phi, s.phi_optimizer)
    return s._replace(phi=phi, phi_optimizer=optimizer), value


def learn(
    s: PlusState, memory: Memory, lam: Array, key: Array, phase: str, config: SafeDsrPlusConfig
) -> tuple[PlusState, dict[str, Array]]:
    """All updates of one training; the weights are those of what is remembered."""
    del phase  # there is only one
    assert memory.reservoir is not None
    batches = replay.choose_biased(
        key, memory.reservoir, memory.filled, config.update_steps, config.batch_size, share=config.even_share
    )

    def update(s: PlusState, batch: Transition) -> tuple[PlusState, tuple[Array, Array]]:
        # The evenly drawn ones come last.
        s, phi_value = learn_phi(s, jax.tree.map(lambda x: x[-config.phi_batch :], batch), config)
        s, value = learn_successor(s, batch, lam, adam(config), config)
        return s, (phi_value, value)

    s = s._replace(weights=cell_means(memory.reservoir))
    s, (phi_values, values) = jax.lax.scan(update, s, replay.unpack(batches.rows(memory.ring)))
    return s, {"phi_loss": phi_values.mean(), "successor_loss": values.mean()}


def values(policy: PlusPolicy, obs: Array, lam: Array) -> Values:
    """Q, K and M of every action; who wants the score alone pays for nothing else."""
    hidden = policy.successor.hidden(obs, policy.phi.place)
    m = jax.vmap(partial(dense, policy.successor.last))(hidden)  # [A, cells]
    score = scores(policy.successor, policy.weights, hidden, lam)
    return Values(q=m @ policy.weights.w_r, k=m @ policy.weights.w_c.T, m=m, score=score)


def bins_of(rows: Array, layout: Layout) -> Array:
    """The cell [1, n] in which each remembered step ended."""
    return jax.vmap(next_cell, (0, None))(replay.unpack(rows), place_of(layout))[None]


def kept_rows(state: State) -> Array:
    """What is remembered of every cell; slots that were never filled are zero."""
    assert state.reservoir is not None
    return state.reservoir.rows.reshape(-1, state.ring.shape[1])


def make_plus(config: SafeDsrPlusConfig, grid_config: GridConfig) -> Trainer:
    """The trainer of SafeDSR-plus."""
    learner = Learner(
        init=partial(init, config=config),
        scores=lambda s, obs, lam: scores(s.successor, s.weights, s.successor.hidden(obs, s.place), lam),
        learn=partial(learn, config=config),
        sync=lambda s: s._replace(target=s.successor),
        policy=lambda s: PlusPolicy(Forecast(s.phi, s.place), s.successor, s.weights),
        values=values,
        phases=(("collect", config.train_start), ("learn", None)),
        losses=("phi_loss", "successor_loss"),
        reservoir=lambda layout: replay.init_reservoir(len(layout.costs), layout.walls.size, config.kept, signals=1),
        bins=bins_of,
        memory=kept_rows,
        crop=crop,
    )
    return make_trainer(learner, config, grid_config)
