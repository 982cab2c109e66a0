"""Recursive least squares with forgetting: cost weights that follow costs which change while the agent acts."""

from typing import Any, NamedTuple

import numpy as np

from safedsr.adapt.closed import RIDGE, regular, ridge
from safedsr.adapt.costs import Samples, as_array, check_samples, experience_of, fit_set, learner_of
from safedsr.adapt.refit import filled_up
from safedsr.runs.policy import AnyPolicy, TrainedPolicy
from safedsr.validation import require


class Recursion(NamedTuple):
    """State of recursive least squares, relative to the weights at its start."""

    gram: np.ndarray  # [d, d] of all steps so far; older steps have less weight
    moment: np.ndarray  # [J, d] Σ error·φ
    start: np.ndarray  # [J, d] w_c


def update(agent: AnyPolicy, obs: Any, action: Any, cost: Any, forgetting: float = 0.999) -> AnyPolicy:
    """The agent after one more labelled step, or n steps in the order of time.

    Minimises the squared errors, each weighted by forgetting^age. The steps that weights are fitted on count as the
    oldest data, labelled by the weights at the start. The ridge is not forgotten, so directions of φ without new steps
    keep these weights.
    """
    require(0 < forgetting <= 1, "forgetting", forgetting, "give a share above 0 and at most 1; 1 forgets nothing")
    experience, learner = experience_of(agent), learner_of(agent)
    obs, count = np.atleast_2d(as_array(obs, "obs")), len(agent.task.budgets)
    labels = as_array(cost, "cost")
    require(labels.size == len(obs) * count, "cost", cost, f"give {count} per step, for {len(obs)} steps")
    samples = check_samples(Samples(obs, np.atleast_1d(action), labels.reshape(len(obs), count)), agent)
    r = agent.recursion or _begin(agent)
    phi = agent.features(samples.obs, samples.action)
    r = learn_steps(r, phi, samples.cost, forgetting)
    w_c = r.start + np.linalg.solve(regular(r.gram, experience.fitted), r.moment.T).T
    weights = learner.weights._replace(w_c=filled_up(w_c, len(learner.weights.w_r)))
    return agent.changed(policy=agent.policy._replace(learner=learner._replace(weights=weights)), recursion=r)


def _begin(agent: TrainedPolicy) -> Recursion:
    gram = experience_of(agent).gram
    start = np.asarray(learner_of(agent).weights.w_c, np.float64)
    if start[:, len(gram) :].any():  # the costs are features of M, which φ does not predict
        start = ridge(*fit_set(agent, agent.task), RIDGE)
    start = start[:, : len(gram)]
    return Recursion(gram, np.zeros_like(start), start)


def learn_steps(r: Recursion, phi: np.ndarray, cost: np.ndarray, forgetting: float) -> Recursion:
    """Add n steps, in the order of time, to the state."""
    weight = forgetting ** np.arange(len(phi))[::-1, None]
    old = forgetting ** len(phi)
    errors = cost - phi @ r.start.T
    return Recursion(old * r.gram + phi.T @ (weight * phi), old * r.moment + errors.T @ (weight * phi), r.start)
