"""SafeDSR (Alg. 2) as a trainer: phases, memory, and functions for adaptation."""

from dataclasses import replace
from functools import partial

from jax import Array

from safedsr.agents.safedsr.config import SafeDsrConfig
from safedsr.agents.safedsr.equations import DsrPolicy, all_features, both_features, scores, values
from safedsr.agents.safedsr.learner import DsrState, go_on, init, learn, learn_features
from safedsr.agents.safedsr.pretrain import pretrain
from safedsr.agents.safedsr.rehearsal import rehearse
from safedsr.agents.value_based.trainer import Learner, all_rows, make_trainer
from safedsr.core import replay
from safedsr.core.replay import Reservoir
from safedsr.envs.environment import Environment, need
from safedsr.types import Adaptable, PyTree, Trainer, Transition


def known_features(s: DsrState, t: Transition) -> Array:
    """The features of a transition, constant once φ is frozen: φ(s, a) and φ(s′, ·) [d + A·k]."""
    return both_features(s.encoder.phi, t)


def offer(
    key: Array,
    s: PyTree,
    reservoir: Reservoir,
    rows: Array,
    steps: Transition,
    params: PyTree,
    environment: Environment,
    config: SafeDsrConfig,
) -> tuple[PyTree, Reservoir]:
    """The reservoir after these rows, each in the bin of its reward and in the bin of each cost.

    If the environment does not give the ranges of reward and costs, the bins cover the values so far.
    """
    signals = replay.signals_of(steps)
    known = environment.signal_ranges(params)
    if known is None:
        assert reservoir.ranges is not None
        reservoir = reservoir._replace(ranges=replay.widen(reservoir.ranges, signals))
    low, high = known or reservoir.ranges  # type: ignore[misc]
    return s, replay.store(key, reservoir, rows, replay.value_bins(signals, low, high, config.value_bins))


def make_safedsr(config: SafeDsrConfig, environment: Environment) -> Trainer:
    """The trainer of Alg. 2."""
    spec = environment.spec

    def reservoir(params: PyTree) -> Reservoir:
        ranged = environment.signal_ranges(params) is None
        return replay.init_reservoir(
            1 + spec.costs, config.value_bins, config.reservoir_size, spec.codec.width, ranged=ranged
        )

    prepare = None
    if config.pretrain:
        random_steps = need(environment.random_steps, "random_steps", environment, "pretraining")
        labels = config if config.pretrain_labels else replace(config, beta_r=0.0, beta_c=0.0)
        prepare = partial(pretrain, partial(learn_features, config=labels), random_steps, config)
    learner = Learner(
        init=lambda key, params: init(key, spec, spec.costs, config),
        scores=lambda s, obs, lam: scores(s.successor, s.weights, all_features(s.encoder.phi, obs), lam),
        learn=partial(learn, config=config),
        cache={"frozen": known_features},
        sync=lambda s: s._replace(target_phi=s.encoder.phi, target_successor=s.successor),
        policy=lambda s: DsrPolicy(s.encoder.phi, s.successor, s.weights),
        values=values,
        phases=(("collect", config.train_start), ("features", config.freeze), ("frozen", None)),
        losses=("feature_loss", "successor_loss"),
        reservoir=reservoir,
        offer=partial(offer, environment=environment, config=config),
        memory=all_rows,
        restart=config.terminal in ("restart", "restart-goal"),
        limit_restarts=config.terminal == "restart",
        limit_ends=config.terminal == "cut-all",
        prepare=prepare,
        adaptable=Adaptable(
            features=lambda policy, obs, action: policy.phi.features(obs, action),
            learner=lambda policy, key, units: go_on(policy, key, spec, config),
            rehearse=partial(rehearse, spec=spec, config=config),
            settled=max(config.freeze, config.settled),
            settings=replace(config, pretrain=0),  # φ is trained already
        ),
    )
    return make_trainer(learner, config, spec)
