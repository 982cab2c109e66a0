"""The table of on-policy algorithms: eleven constrained ones, and the four unconstrained ones they are based on."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.onpolicy import learner, rollout
from safedsr.agents.onpolicy.config import OnPolicyConfig
from safedsr.agents.onpolicy.controllers import Controller, barrier, hinge, ignore, lagrangian, pid, switch
from safedsr.agents.onpolicy.learner import ActorCritic
from safedsr.agents.onpolicy.problem import Pressure
from safedsr.agents.onpolicy.rollout import Walk, init_walk, make_batch, mean_cost
from safedsr.agents.onpolicy.steps import PolicyStep, constrained, natural, projected, trust_region
from safedsr.agents.onpolicy.surrogates import Surrogate, clipped, plain
from safedsr.core import normalizer
from safedsr.envs.environment import Environment
from safedsr.errors import UserError
from safedsr.types import Choice, Draws, PyTree, Seen, Trainer, Values


class Baseline(NamedTuple):
    """A controller of the cost weights, and either a surrogate loss for minibatches or a policy step on all samples."""

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
    """The training state of one seed."""

    key: Array
    learn_key: Array  # drawn at the start of an epoch, used at its end
    learner: ActorCritic
    walk: Walk
    controller: PyTree


class Policy(NamedTuple):
    """The actor, and the statistics that normalise its observations."""

    actor: PyTree
    obs_scale: normalizer.Running


def make_baseline(config: OnPolicyConfig, environment: Environment, name: str) -> Trainer:
    """The trainer of an algorithm of the table."""
    row, spec = BASELINES[name], environment.spec
    if not spec.costs:
        raise UserError(
            f"{name} needs a cost and this environment has none; give one (on a map: 'none' is "
            "empty; elsewhere: --cost-fn FILE.py:NAME, --cost-entries, or cost= in Python)"
        )
    if row.one_cost and spec.costs != 1:
        raise UserError(f"{name} takes one cost and this environment has {spec.costs}; give one, or use 'trpo-lag'")
    controller = row.controller(config)

    def init(key: Array, seed: Array, params: PyTree) -> tuple[State, Array]:
        del params
        key, learner_key = jax.random.split(key)
        first = learner.init(learner_key, seed, spec, config)
        state = State(key, key, first, init_walk(spec, config), controller.init(spec.costs))
        return state, key  # every epoch begins with a reset of its own

    def draw(state: State) -> tuple[State, Draws]:
        key, walk_key, learn_key = jax.random.split(state.key, 3)
        reset_key, walk_key = jax.random.split(walk_key)
        pairs = jax.vmap(jax.random.split)(jax.random.split(walk_key, config.steps_per_epoch))
        return state._replace(key=key, learn_key=learn_key), Draws(pairs[:, 0], pairs[:, 1], reset_key)

    def choose(state: State, obs: Array, key: Array, now: Array) -> Choice:
        del now
        looked = rollout.look(state.walk.scales.obs, obs, config)
        log_probs = jax.nn.log_softmax(state.learner.nets.actor(looked))
        action = jax.random.categorical(key, log_probs)
        return Choice(action, about=(log_probs[action], looked))

    def observe(state: State, choice: Choice, seen: Seen, aim: Array, now: Array, phase: str) -> tuple[State, Array]:
        del aim, now, phase
        log_prob, looked = choice.about
        walk, sample = rollout.observe(state.walk, choice.action, log_prob, looked, seen, config)
        return state._replace(walk=walk), rollout.pack(sample)

    def digest(state: State, cache: None, rows: Array, params: PyTree, aim: Array, now: Array, phase: str):
        del params, phase
        nets = state.learner.nets
        batch = make_batch(rollout.unpack(rows, spec), nets.reward_critic, nets.cost_critics, config)
        j_c = mean_cost(state.walk.window, aim)
        tuned = controller.update(state.controller, j_c, aim)
        late = now + config.steps_per_epoch > config.penalty_start
        tuned = jax.tree.map(lambda new, old: jnp.where(late, new, old), tuned, state.controller)
        share = controller.share(controller.lam(tuned))
        pressure = Pressure(share, jnp.float32(controller.hinge), j_c - aim)
        if row.surrogate:
            share_left = jnp.clip(1 - now / config.decay_steps, 0, 1) if config.decay_steps else jnp.ones(())
            rate = config.actor_lr * share_left
            learnt = learner.learn_together(
                state.learn_key, state.learner, batch, pressure, row.surrogate, rate, config
            )
        else:
            assert row.step
            learnt = learner.learn_apart(state.learn_key, state.learner, batch, pressure, row.step, config)
        return state._replace(learner=learnt, controller=tuned), cache, {"mean_cost": j_c.sum()}

    def values(policy: Policy, obs: Array) -> Values:
        scores = jax.nn.log_softmax(policy.actor(rollout.look(policy.obs_scale, obs, config)))
        return Values(q=scores, k=None, m=None, score=scores)

    return Trainer(
        init=init,
        draw=draw,
        begin=lambda state, obs: state._replace(walk=rollout.begin(state.walk, obs, config)),
        choose=choose,
        observe=observe,
        digest=digest,
        sync=lambda state: state,
        cache=lambda state, phase: None,
        phase_at=lambda step: ("learn", None),
        last_phase="learn",
        block=config.steps_per_epoch,
        period=config.steps_per_epoch,
        policy=lambda state: Policy(state.learner.nets.actor, state.walk.scales.obs),
        values=values,
        multipliers=lambda state: controller.lam(state.controller),
    )
