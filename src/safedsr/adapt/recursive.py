"""Cost weights that follow costs which drift while acting: recursive least squares with forgetting."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from safedsr.adapt.costs import Samples, check_samples, experience_of, learner_of
from safedsr.adapt.refit import regular
from safedsr.envs.grid.environment import scene_of
from safedsr.runs.policy import AnyPolicy, TrainedPolicy
from safedsr.validation import require


class Recursion(NamedTuple):
    """What recursive least squares remembers, as changes to the weights that it started from."""

    gram: np.ndarray  # [d, d] of all steps so far, older ones counting less
    moment: np.ndarray  # [J, d] Σ error·φ
    start: np.ndarray  # [J, d] w_c


def update(agent: AnyPolicy, obs: Any, action: Any, cost: Any, forgetting: float = 0.999) -> AnyPolicy:
    """The agent after one more labelled step, or n of them in the order in which they came.

    Minimises the squared errors, each weighed by forgetting^age, with the refit set as the oldest evidence for the
    weights so far. The ridge is never forgotten, so that directions that are not seen any more stay as they are.
    """
    require(0 < forgetting <= 1, "forgetting", forgetting, "give a share above 0, and 1 to forget nothing")
    experience, learner = experience_of(agent), learner_of(agent)
    obs, count = np.atleast_2d(np.asarray(obs, np.float32)), len(agent.task.budgets)
    labels = np.asarray(cost, np.float64)
    require(labels.size == len(obs) * count, "cost", cost, f"give {count} a step, for {len(obs)} steps")
    samples = check_samples(Samples(obs, np.atleast_1d(action), labels.reshape(len(obs), count)), scene_of(agent.task))
    r = agent.recursion or _begin(agent)
    phi = agent.features(samples.obs, samples.action)
    r = learn_steps(r, phi, samples.cost, forgetting)
    w_c = r.start + np.linalg.solve(regular(r.gram, experience.fitted), r.moment.T).T
    weights = learner.weights._replace(w_c=jnp.asarray(w_c, jnp.float32))
    return agent.changed(policy=agent.policy._replace(learner=learner._replace(weights=weights)), recursion=r)


def _begin(agent: TrainedPolicy) -> Recursion:
    start = np.asarray(learner_of(agent).weights.w_c, np.float64)
    return Recursion(experience_of(agent).gram, np.zeros_like(start), start)


def learn_steps(r: Recursion, phi: np.ndarray, cost: np.ndarray, forgetting: float) -> Recursion:
    """Evidence of n more steps, the last of which is the newest."""
    weight = forgetting ** np.arange(len(phi))[::-1, None]
    old = forgetting ** len(phi)
    errors = cost - phi @ r.start.T
    return Recursion(old * r.gram + phi.T @ (weight * phi), old * r.moment + errors.T @ (weight * phi), r.start)
