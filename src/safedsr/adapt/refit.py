"""Level "cost": cost weights for new costs, in closed form; M and λ stay."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from safedsr.adapt.closed import RIDGE, rank, ridge
from safedsr.adapt.combination import beside_known, combination
from safedsr.adapt.costs import Costs, FitSet, Samples, experience_of, fit_set, learner_of, task_of, units_of
from safedsr.core.units import Units
from safedsr.errors import UserError
from safedsr.runs.experience import FIT_STEPS
from safedsr.runs.policy import AnyPolicy, TrainedPolicy
from safedsr.validation import require

FIRST_LAM = 1.0  # λ of an agent that had no costs before, in its unit


def refit(agent: AnyPolicy, costs: Costs, rewards: bool = False, strength: float = RIDGE) -> AnyPolicy:
    """The agent with cost weights fitted to other costs, and with these costs in its task; M and λ stay.

    With labelled steps the agent keeps its task, because they do not give the costs of the whole map. As the ridge
    goes to 0, the weights go to the limit of gradient descent on the cost term of Eq. (14). Costs that are combinations
    of costs with rows in M need no fit.
    """
    require(strength > 0, "strength", strength, "give a value above 0; 1e-9 is almost no ridge")
    fit, factors = fit_set(agent, costs), None
    if isinstance(costs, Samples):
        require_rank(fit, agent)
        task = agent.task
        count = len(task.budgets)
        require(fit.cost.shape[1] == count, "costs", fit.cost.shape[1], f"label each of the agent's {count} costs")
    else:
        task = task_of(agent, costs)
        factors = combination(agent, task)
    old = learner_of(agent).weights
    w_c = _fitted(agent, costs, fit, strength) if factors is None else jnp.asarray(factors @ old.w_c)
    weights = old._replace(w_c=w_c.astype(jnp.float32))
    if rewards:
        weights = weights._replace(w_r=filled_up(reward_weights(agent, strength), len(old.w_r))[0])
    policy = agent.policy._replace(learner=learner_of(agent)._replace(weights=weights))
    if policy.signals is not None:
        policy = policy._replace(signals=policy.signals._replace(cost=jnp.asarray(fit.cost.max(0), jnp.float32)))
    new = agent.changed(policy=policy, task=task, recursion=None, knows_costs=True)
    if len(weights.w_c) == len(old.w_c):
        return new
    assert agent.trainer.adaptable
    units = units_of(new, task)
    learner = agent.trainer.adaptable.with_rows(policy.learner, units)
    return new.with_policy(policy._replace(learner=learner, lam=_lam_for(agent, units, len(task.budgets))))


def _fitted(agent: TrainedPolicy, costs: Costs, fit: FitSet, strength: float) -> Any:
    """Weights [J, features of M] of a fit on φ, and on known costs where they help."""
    old, size = learner_of(agent).weights, fit.phi.shape[1]
    helped = beside_known(agent, costs, fit)
    if helped is None:
        return filled_up(ridge(*fit, strength), len(old.w_r))
    weights = ridge(*helped.fit, strength)
    return filled_up(weights[:, :size], len(old.w_r)) + jnp.asarray(weights[:, size:] / helped.spread @ old.w_c)


def require_rank(fit: FitSet, agent: TrainedPolicy) -> None:
    """Raise unless the labels determine at least half as many directions of φ as the agent's replay memory."""
    experience = experience_of(agent)
    have, usual = rank(fit.gram, len(fit.phi)), rank(experience.gram, experience.fitted)
    if 2 * have < usual:
        raise UserError(
            f"{len(fit.phi)} labelled steps determine {have} of the {usual} directions of φ in the replay memory; "
            "label more steps, at more positions and with every action"
        )


def reward_weights(agent: TrainedPolicy, strength: float = RIDGE) -> np.ndarray:
    """Weights [1, d] that fit the rewards of the replay memory to φ."""
    experience = experience_of(agent)
    steps = experience.steps
    known = agent.features(steps.obs[:FIT_STEPS], steps.action[:FIT_STEPS])
    reward = np.asarray(steps.reward[:FIT_STEPS], np.float64)
    return ridge(known, experience.gram, reward[:, None], strength)


def filled_up(weights: np.ndarray, count: int) -> Any:
    """Weights [J, d] with zeros for the features of M that φ does not predict."""
    return jnp.asarray(np.pad(weights, ((0, 0), (0, count - weights.shape[1]))), jnp.float32)


def _lam_for(agent: TrainedPolicy, units: Units | None, count: int) -> Any:
    """λ for another number of costs: for each of them the agent's largest λ, in its unit."""
    lam, old = np.asarray(agent.policy.lam), units_of(agent, agent.task)
    pure = lam if old is None else lam / np.asarray(old.lam)
    value = pure.max() if len(lam) else FIRST_LAM
    return jnp.full(count, value, jnp.float32) * (1.0 if units is None else units.lam)
