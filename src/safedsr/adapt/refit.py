"""Rung 1: cost weights for new costs, in closed form; M and λ stay."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from safedsr.adapt.costs import Costs, FitSet, Samples, experience_of, fit_set, learner_of, task_of
from safedsr.envs.environment import Task
from safedsr.errors import UserError
from safedsr.runs.experience import FIT_STEPS
from safedsr.runs.policy import AnyPolicy, TrainedPolicy
from safedsr.validation import require

# A step, whose features have length 1. Directions of φ that hardly occur are worth little to the fit, but large weights
# on them would multiply the errors of M: with a ridge of 1e-6 agents act worse on new costs than with this one.
RIDGE = 1e-4
FIRST_LAM = 1.0  # where there was no cost before


def refit(agent: AnyPolicy, costs: Costs, rewards: bool = False, strength: float = RIDGE) -> AnyPolicy:
    """The agent with cost weights for other costs, in the task that has them; M and λ stay.

    Labelled steps do not say what the map costs: with them the agent keeps its task. With a ridge of
    vanishing strength it is where gradient descent on the cost term of Eq. (14) ends.
    """
    require(strength > 0, "strength", strength, "give a ridge above 0; 1e-9 is next to none")
    fit = fit_set(agent, costs)
    if isinstance(costs, Samples):
        require_rank(fit, agent)
        task = agent.task
        count = len(task.budgets)
        require(fit.cost.shape[1] == count, "costs", fit.cost.shape[1], f"label each of the agent's {count} costs")
    else:
        task = task_of(agent, costs)
    weights = learner_of(agent).weights._replace(w_c=jnp.asarray(ridge(*fit, strength), jnp.float32))
    if rewards:
        weights = weights._replace(w_r=_reward_weights(agent, strength))
    policy = agent.policy._replace(learner=learner_of(agent)._replace(weights=weights), lam=_lam_for(agent, task))
    return agent.changed(policy=policy, task=task, recursion=None)


def ridge(phi: np.ndarray, gram: np.ndarray, targets: np.ndarray, strength: float) -> np.ndarray:
    """Weights [J, d] that minimise |targets - Φ·wᵀ|² + strength·n·|w|²; all J share one Cholesky factor."""
    inverse = _inverse_factor(gram.tobytes(), len(gram), len(phi), strength)
    # Not by BLAS, which wakes its threads for each of these small products: on a busy machine that takes longer.
    moments = np.einsum("nd,nj->jd", phi, targets)
    return np.einsum("id,ji->jd", inverse, np.einsum("id,jd->ji", inverse, moments))


@functools.lru_cache(maxsize=16)
def _inverse_factor(gram: bytes, size: int, count: int, strength: float) -> np.ndarray:
    """L⁻¹, where L·Lᵀ is the Gram matrix with its ridge; a policy that adapts again and again needs it once."""
    matrix = np.frombuffer(gram).reshape(size, size)
    return np.linalg.inv(np.linalg.cholesky(regular(matrix, count, strength)))


def regular(gram: np.ndarray, count: int, strength: float = RIDGE) -> np.ndarray:
    """The Gram matrix of `count` steps with the ridge on its diagonal."""
    return gram + strength * count * np.eye(len(gram))


def rank(gram: np.ndarray, count: int) -> int:
    """In how many directions the steps outweigh the ridge."""
    return int((np.linalg.eigvalsh(gram) > RIDGE * count).sum())


def require_rank(fit: FitSet, agent: TrainedPolicy) -> None:
    """Raise unless the labels determine at least half of the directions that φ takes on what the agent remembers."""
    experience = experience_of(agent)
    have, usual = rank(fit.gram, len(fit.phi)), rank(experience.gram, experience.fitted)
    if 2 * have < usual:
        raise UserError(
            f"{len(fit.phi)} labelled steps determine {have} of the {usual} directions of φ that the agent has seen; "
            "label more steps, from more places and with every action"
        )


def _reward_weights(agent: TrainedPolicy, strength: float) -> Any:
    experience = experience_of(agent)
    steps = experience.steps
    known = agent.features(steps.obs[:FIT_STEPS], steps.action[:FIT_STEPS])
    reward = np.asarray(steps.reward[:FIT_STEPS], np.float64)
    return jnp.asarray(ridge(known, experience.gram, reward[:, None], strength)[0], jnp.float32)


def _lam_for(agent: TrainedPolicy, task: Task) -> Any:
    """λ as it is, or for another number of costs the largest one for each."""
    lam, count = np.asarray(agent.policy.lam), len(task.budgets)
    if len(lam) == count:
        return agent.policy.lam
    return jnp.full(count, lam.max() if len(lam) else FIRST_LAM, jnp.float32)
