"""SafeDSR-plus as a trainer: phases, memory, and functions for adaptation."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from safedsr.agents.plus import learner as plus
from safedsr.agents.plus.config import SafeDsrPlusConfig
from safedsr.agents.plus.groups import groups_of
from safedsr.agents.plus.learner import Forecast, Kit, PlusPolicy, PlusState
from safedsr.agents.plus.rehearsal import rehearse
from safedsr.agents.value_based.trainer import Learner, make_trainer, reservoir_rows
from safedsr.core import replay
from safedsr.core.replay import Reservoir
from safedsr.envs.environment import Environment
from safedsr.types import Adaptable, PyTree, Trainer, Transition


def offer(
    key: Array, s: PlusState, reservoir: Reservoir, rows: Array, steps: Transition, params: PyTree, kit: Kit
) -> tuple[PlusState, Reservoir]:
    """The reservoir after these rows, each in the bin of the code of its s′; codes may be learnt from them first."""
    del params  # the state has the codes
    if kit.groups.grow:
        frame, new = kit.groups.grow(s.frame, steps.next_obs)
        s = s._replace(frame=frame)
        reservoir = reservoir._replace(seen=jnp.where(new[None], 0, reservoir.seen))
    entered = jax.vmap(kit.groups.index, (None, 0))(s.frame, steps.next_obs)
    return s, replay.store(key, reservoir, rows, entered[None])


def make_plus(config: SafeDsrPlusConfig, environment: Environment) -> Trainer:
    """The trainer of SafeDSR-plus."""
    spec, groups = environment.spec, groups_of(environment, config)
    kit, width = Kit(config, groups, spec), spec.codec.width
    learner = Learner(
        init=partial(plus.init, kit=kit),
        scores=lambda s, obs, lam: plus.scores(s.successor, s.successor.hidden(obs, s.frame, groups), s.direction(lam)),
        learn=partial(plus.learn, kit=kit),
        sync=lambda s: s._replace(target=s.successor),
        policy=lambda s: PlusPolicy(Forecast(s.phi, s.frame), s.successor, s.weights),
        values=partial(plus.values, groups=groups),
        phases=(("collect", config.train_start), ("learn", None)),
        losses=("phi_loss", "successor_loss"),
        reservoir=lambda params: replay.init_reservoir(1, groups.count(params), config.kept, width),
        offer=partial(offer, kit=kit),
        memory=reservoir_rows,
        crop=partial(plus.crop, kit=kit),
        in_units=config.outcomes,
        adaptable=Adaptable(
            features=lambda policy, obs, action: plus.features(policy.phi, obs, action, groups),
            learner=lambda policy, key, units: plus.go_on(policy, plus.adam(config), units, kit),
            rehearse=partial(rehearse, kit=kit),
            with_rows=partial(plus.with_rows, kit=kit),
            settled=config.settled,
            settings=config,
        ),
    )
    return make_trainer(learner, config, spec)
