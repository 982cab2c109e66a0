"""The table: eleven constrained algorithms and the four they are built on, a row each."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.onpolicy import learner
from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.agents.onpolicy.controllers import Controller, barrier, hinge, ignore, lagrangian, pid, switch
from safedsr.agents.onpolicy.learner import Learner
from safedsr.agents.onpolicy.problem import Pressure
from safedsr.agents.onpolicy.rollout import Scales, Window, init_scales, init_window, make_batch, mean_cost, rollout
from safedsr.agents.onpolicy.steps import PolicyStep, constrained, natural, projected, trust_region
from safedsr.agents.onpolicy.surrogates import Surrogate, clipped, plain
from safedsr.core import normalizer
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.layout import Layout
from safedsr.errors import UserError
from safedsr.types import PyTree, Trainer, Values


class Baseline(NamedTuple):
    """Where λ comes from, and what is climbed by gradient or how by one step over all samples."""

    controller: Callable[[OnPolicyConfig], Controller]
    surrogate: Surrogate | None = None
    step: PolicyStep | None = None
    one_cost: bool = False


BASELINES = {
    "pdo": Baseline(lagrangian, surrogate=plain),
    "ppo-lag": Baseline(lagrangian, surrogate=clipped),
    "cppo-pid": Baseline(pid, surrogate=clipped),
    "ipo": Baseline(barrier, surrogate=clipped),
    "p3o": Baseline(hinge, surrogate=clipped),
    "rcpo": Baseline(lagrangian, step=natural),
    "trpo-lag": Baseline(lagrangian, step=trust_region),
    "trpo-pid": Baseline(pid, step=trust_region),
    "oncrpo": Baseline(switch, step=trust_region),
    "cpo": Baseline(ignore, step=constrained, one_cost=True),
    "pcpo": Baseline(ignore, step=projected, one_cost=True),
    "pg": Baseline(ignore, surrogate=plain),
    "ppo": Baseline(ignore, surrogate=clipped),
    "npg": Baseline(ignore, step=natural),
    "trpo": Baseline(ignore, step=trust_region),
}


class State(NamedTuple):
    """Everything one seed is at one moment."""

    key: Array
    learner: Learner
    scales: Scales
    window: Window
    controller: PyTree


class Policy(NamedTuple):
    """What acting needs."""

    actor: PyTree
    obs_scale: normalizer.Running


def make_baseline(config: OnPolicyConfig, grid_config: GridConfig, name: str) -> Trainer:
    """The trainer of a row."""
    row = BASELINES[name]
    controller = row.controller(config)

    def init(key: Array, layout: Layout) -> State:
        num_costs = len(layout.costs)
        if not num_costs:
            raise UserError(f"{name} needs a cost and this environment has none; give it an empty one ('none')")
        if row.one_cost and num_costs != 1:
            raise UserError(f"{name} takes one cost and this environment has {num_costs}; give one, or use 'trpo-lag'")
        seed = jax.random.key_data(key)[-1]
        key, learner_key = jax.random.split(key)
        return State(
            key=key,
            learner=learner.init(learner_key, seed, num_costs, config),
            scales=init_scales(num_costs),
            window=init_window(num_costs, config),
            controller=controller.init(num_costs),
        )

    def epoch(state: State, layout: Layout, budget: Array, step: Array):
        key, walk_key, learn_key = jax.random.split(state.key, 3)
        actor = state.learner.nets.actor
        scales, window, samples, records = rollout(
            walk_key, actor, state.scales, state.window, layout, config, grid_config
        )
        batch = make_batch(samples, state.learner.nets.reward_critic, state.learner.nets.cost_critics, config)
        j_c = mean_cost(window, budget)
        tuned = controller.update(state.controller, j_c, budget)
        late = step + config.steps_per_epoch > config.penalty_start
        tuned = jax.tree.map(lambda new, old: jnp.where(late, new, old), tuned, state.controller)
        share = controller.share(controller.lam(tuned))
        pressure = Pressure(share, jnp.float32(controller.hinge), j_c - budget)
        if row.surrogate:
            share_left = jnp.clip(1 - step / config.decay_steps, 0, 1) if config.decay_steps else jnp.ones(())
            rate = config.actor_lr * share_left
            learnt = learner.learn_together(learn_key, state.learner, batch, pressure, row.surrogate, rate, config)
        else:
            assert row.step
            learnt = learner.learn_apart(learn_key, state.learner, batch, pressure, row.step, config)
        return State(key, learnt, scales, window, tuned), (records, {"mean_cost": j_c.sum()})

    def advance(state: State, layout: Layout, aim: Array, step: Array, *, phase: str, periods: int):
        steps = step + config.steps_per_epoch * jnp.arange(periods)
        state, (records, logs) = jax.lax.scan(lambda s, step: epoch(s, layout, aim, step), state, steps)
        records = jax.tree.map(lambda x: x.reshape(periods * config.steps_per_epoch, *x.shape[2:]), records)
        return state, records, jax.tree.map(jnp.mean, logs)

    def values(policy: Policy, obs: Array) -> Values:
        seen = normalizer.apply(policy.obs_scale, obs) if config.normalize_obs else obs
        scores = jax.nn.log_softmax(policy.actor(seen))
        return Values(q=scores, k=None, m=None, score=scores)

    return Trainer(
        init=init,
        advance=advance,
        phase_at=lambda step: ("learn", None),
        period=config.steps_per_epoch,
        policy=lambda state: Policy(state.learner.nets.actor, state.scales.obs),
        values=values,
        multipliers=lambda state: controller.lam(state.controller),
    )
