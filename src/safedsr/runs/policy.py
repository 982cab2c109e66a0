"""Trained policies: saving, loading and acting."""

import copy
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from safedsr.agents.registry import find_algorithm, make_trainer
from safedsr.agents.value_based.config import ValueBasedSettings
from safedsr.core.precision import with_precision
from safedsr.envs.environment import Environment, Task
from safedsr.envs.grid.config import GRID
from safedsr.envs.registry import environment_to_dict, find_environment
from safedsr.errors import UserError
from safedsr.runs import experience, storage
from safedsr.runs.about import ABOUT
from safedsr.runs.experience import Experience, padded
from safedsr.runs.folder import Run, is_file
from safedsr.runs.job import Job
from safedsr.runs.metrics import best_place
from safedsr.runs.policy_files import Mixture, read_policies, write_policies
from safedsr.runs.schema import MANIFEST
from safedsr.types import PyTree, Trainer, Values
from safedsr.validation import check_epsilon, require


class TrainedPolicy:
    """One trained policy: `act` chooses actions, `values` gives their values. Changes return a new policy."""

    def __init__(self, job: Job, policy: PyTree, task: int, seed: int, experience: Experience | None = None) -> None:
        self.job = job
        self.policy = policy
        self.task: Task = job.tasks[task]
        self.seed = seed
        self.experience = experience
        self.rng = np.random.default_rng(seed)  # of random actions in `predict`
        self.recursion: Any = None  # state of recursive least squares, see adapt/recursive.py
        self.mixture: Mixture | None = None
        self.knows_costs = True  # whether its weights and K are of the costs of its task
        self.fallbacks = 0  # how often `act` has returned the action `fallback`
        self.trainer = make_trainer(job.algorithm, job.agent, job.environment)
        self.values_of = with_precision(self.trainer.values, job.train.matmul)
        self._values = jax.jit(self.values_of)
        self._many_values = jax.jit(jax.vmap(self.values_of, (None, 0)))
        self._features = _many_features(self.trainer) if self.trainer.adaptable else None

    def with_policy(self, policy: PyTree) -> Self:
        """The same agent with other policy parameters, and one λ; compiled functions are kept."""
        return self.changed(policy=policy, recursion=None, mixture=None)

    def changed(self, **attributes: Any) -> Self:
        """The same agent with other attributes."""
        other = copy.copy(self)
        for name, value in attributes.items():
            setattr(other, name, value)
        return other

    @property
    def parts(self) -> tuple[Self, ...]:
        """Agents with one λ each: this one, or the two of its mixture."""
        if self.mixture is None:
            return (self,)
        other = self.policy._replace(lam=jnp.asarray(self.mixture.lam, jnp.float32))
        return self.with_policy(self.policy), self.with_policy(other)

    def drawn(self, rng: np.random.Generator | None = None) -> Self:
        """The agent for one episode: of a mixture, one of the two λ is drawn."""
        if self.mixture is None:
            return self
        return self.parts[int((rng or np.random.default_rng()).random() < self.mixture.share)]

    @property
    def environment(self) -> Environment:
        """The environment of the agent, with as many costs as its current task."""
        return with_costs(self.job.environment, len(self.task.budgets))

    def values(self, obs: Any) -> Values:
        """Values of each action, for one observation [observations] or for many [n, observations]."""
        obs = self._shaped(obs)
        for bad in np.argwhere(~np.isfinite(obs))[:1]:
            raise UserError(f"observation{bad.tolist()} is {obs[tuple(bad)]}; give finite numbers")
        return (self._values if obs.ndim == 1 else self._many_values)(self.policy, obs)

    def _shaped(self, obs: Any) -> np.ndarray:
        """One or several observations as an array."""
        size = self.job.environment.spec.observations
        try:
            with np.errstate(over="ignore"):  # too large a number is infinite, which is an error later
                found = np.asarray(obs, np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise UserError(f"observations are no array of numbers ({error}); give [{size}] or [n, {size}]") from None
        if found.ndim not in (1, 2) or found.shape[-1] != size:
            raise UserError(f"observations have shape {found.shape}; give [{size}] or [n, {size}]")
        return found

    def act(
        self, obs: Any, epsilon: float = 0.0, rng: np.random.Generator | None = None, *, fallback: int | None = None
    ) -> Any:
        """The best action (an int) for one observation, or actions [n] for many; a share ε of them is random.

        An observation that is not finite, has a wrong shape or is off the map is an error. With a `fallback`, this
        action is returned for it instead, and `fallbacks` counts how often.
        """
        if self.mixture:
            raise UserError(
                "this policy is a mixture: each episode draws one of two λ; call drawn() at the start of an episode "
                "and act with the agent that it returns"
            )
        epsilon, actions = check_epsilon(epsilon), self.job.environment.spec.actions
        known = fallback is None or (isinstance(fallback, int | np.integer) and 0 <= fallback < actions)
        require(known, "fallback", fallback, f"give an action from 0 to {actions - 1}")
        try:
            seen = self._shaped(obs)
        except UserError:
            if fallback is None:
                raise
            self.fallbacks += 1
            return int(fallback)
        best, usable = self._best(np.atleast_2d(seen), strict=fallback is None)
        if epsilon > 0:
            rng = rng or np.random.default_rng()
            explore = rng.random(seen.shape[:-1]) < epsilon
            best = np.where(explore, rng.integers(actions, size=seen.shape[:-1]), best)
        self.fallbacks += int((~usable).sum())
        chosen = best if fallback is None else np.where(usable, best, fallback)
        return int(chosen[0]) if seen.ndim == 1 else chosen

    def _best(self, obs: np.ndarray, *, strict: bool) -> tuple[np.ndarray, np.ndarray]:
        """The best action of observations [n, …], and for which of them there is one; `strict` raises if not all."""
        inside = self.job.environment.inside or (lambda obs, params: np.ones(len(obs), bool))
        finite = np.asarray(np.isfinite(obs).all(1))
        safe = np.where(finite[:, None], obs, 0)
        usable = finite & inside(safe, self.task.params)
        if strict and not usable.all():
            bad = obs[np.argmin(usable)].tolist()
            raise UserError(
                f"observation {bad} is not finite, off the map or in a wall; give one of '{self.task.name}'"
            )
        score = np.asarray(self.values(safe if len(safe) > 1 else safe[0]).score).reshape(len(safe), -1)
        numbers = ~np.isnan(score).any(1)
        if strict and not numbers.all():
            raise UserError("the policy gives values that are not numbers; train again, or use another policy")
        return np.argmax(score, -1), usable & numbers

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, None]:
        """Actions as the tools of Stable-Baselines3 expect them, such as `evaluate_policy`: (action, None).

        An observation, or several [n, …], may have the shape that its Gymnasium environment gives it; actions have the
        numbers of that environment. If not `deterministic`, on-policy agents sample actions by their probabilities, and
        value-based agents take random ones with the last ε of their training. `state` and `episode_start` are for
        recurrent policies, and not used.
        """
        del state, episode_start
        if isinstance(observation, Mapping):
            raise UserError("the observation is a dictionary; wrap its environment in Gymnasium's FlattenObservation")
        obs, size = np.asarray(observation, np.float32), self.job.environment.spec.observations
        many = obs.ndim > 1 and obs[0].size == size
        if not many and obs.size != size:
            raise UserError(f"observations have shape {obs.shape}; give {size} numbers, or [n, …] for several")
        obs, host = obs.reshape((len(obs), size) if many else size), self.job.environment.host
        if deterministic:
            action = self.act(obs)
        elif isinstance(self.job.agent, ValueBasedSettings):
            action = self.act(obs, self.job.agent.epsilon.epsilon_end, self.rng)
        else:
            log_probs = np.asarray(self.values(obs).q)
            action = np.argmax(log_probs + self.rng.gumbel(size=log_probs.shape), -1)
        return np.asarray(action + (host.first if host else 0)), None

    def features(self, obs: Any, action: Any) -> np.ndarray:
        """φ(s, a) [n, d] of n observations and actions, in full precision; only for agents with features φ."""
        if self._features is None:
            raise UserError(f"{self.job.algorithm} has no features φ; use a 'safedsr-plus' agent")
        return self._features(self.policy, obs, action)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Save this policy to a folder that `load` can read; another policy there is replaced only on request."""
        folder, job = Path(folder), own_job(self)
        if is_file(folder / MANIFEST):
            raise UserError(f"{folder} is a run folder; save the policy in another folder")
        if is_file(folder / ABOUT) and not overwrite:
            raise UserError(f"{folder} holds a policy already; choose another folder, or say overwrite=True")
        storage.make_folder(folder)
        with storage.disk(folder):
            (folder / ABOUT).unlink(missing_ok=True)  # until the new one is complete
            (folder / experience.FILE).unlink(missing_ok=True)
        if self.experience is not None:
            experience.write_experiences(folder, {(0, 0): self.experience})
        policy = jax.tree.map(lambda x: x[None, None], self.policy)
        write_policies(folder, policy, job, [self.seed], self.mixture, self.knows_costs)


AnyPolicy = TypeVar("AnyPolicy", bound=TrainedPolicy)


def _many_features(trainer: Trainer) -> Callable[[PyTree, Any, Any], np.ndarray]:
    """A compiled function for φ of many steps."""
    assert trainer.adaptable
    many = jax.jit(jax.vmap(trainer.adaptable.features, (None, 0, 0)))

    def features(learner: PyTree, obs: Any, action: Any) -> np.ndarray:
        with jax.default_matmul_precision("float32"):
            rows = jnp.asarray(padded(obs), jnp.float32), jnp.asarray(padded(action), jnp.int32)
            found = many(learner, *rows)[: len(obs)]
        return np.asarray(found, np.float64)

    return features


def with_costs(environment: Environment, count: int) -> Environment:
    """The environment with another number of costs, if it is part of safedsr."""
    if environment.spec.costs == count:
        return environment
    if environment.name != GRID:
        raise UserError(
            f"the environment '{environment.name}' has {environment.spec.costs} costs and the task has {count}; give "
            "equally many"
        )
    return find_environment(environment_to_dict(environment), count)


def own_job(agent: TrainedPolicy) -> Job:
    """A job of this agent alone, with its current task."""
    job, count = agent.job, len(agent.task.budgets)
    algorithm, config = job.algorithm, job.agent
    if count and find_algorithm(algorithm).costless:
        algorithm = f"safe{algorithm}"  # trained without costs, adapted to some
    if config.aim is not None and len(config.aim) not in (1, count):
        config = dataclasses.replace(config, multiplier=dataclasses.replace(config.multiplier, aim=None))
    return Job(algorithm, (agent.task,), (agent.seed,), config, agent.environment, job.train, job.budget_kind)


def save_policies(folder: Path, job: Job, trainer: Trainer, agents: PyTree, run: Run) -> None:
    """Save the policies of all tasks and seeds and the best seed of each task; `agents` are training states."""
    policies = trainer.policy(agents)
    episodes = [run.by_seed(index) for index in range(len(job.tasks))]
    if trainer.memory:
        found = _experiences(job, trainer, agents, policies)
        lengths = {(t, s): max(each[s].length, default=0) for t, each in enumerate(episodes) for s in range(len(each))}
        found = {key: one._replace(longest=int(lengths.get(key, 0))) for key, one in found.items()}
        experience.write_experiences(folder, found)
    best = []
    for task, each in zip(job.tasks, episodes, strict=True):
        best.append(job.seeds[best_place(each, task.budgets, job.terms) if each else 0])
    write_policies(folder, policies, job, best)


def _experiences(job: Job, trainer: Trainer, agents: PyTree, policies: PyTree) -> dict[tuple[int, int], Experience]:
    assert trainer.memory
    rows, filled = jax.device_get(jax.vmap(jax.vmap(trainer.memory))(agents))
    features, codec = _many_features(trainer), job.environment.spec.codec
    found = {}
    for index, task in enumerate(job.tasks):
        for seed in range(len(job.seeds)):
            own = trainer.crop(_pick(policies, index, seed), task.params)
            steps = experience.from_rows(rows[index, seed], filled[index, seed], codec)
            found[index, seed] = experience.make_experience(
                steps, lambda obs, action, own=own: features(own, obs, action), job.environment, task.params
            )
    return found


def load_policy(
    kind: type[AnyPolicy],
    path: str | Path,
    seed: int | None = None,
    task: int = 0,
    environment: Environment | None = None,
) -> AnyPolicy:
    """Load a policy from a run folder; the default seed is the best one in that task."""
    folder, job, policies, best, mixture, knows_costs = read_policies(path, environment)
    if not 0 <= task < len(job.tasks):
        raise UserError(f"task is {task}; give a number from 0 to {len(job.tasks) - 1}")
    chosen = best[task] if seed is None else seed
    if chosen not in job.seeds:
        raise UserError(f"seed is {chosen}; the run has {', '.join(map(str, job.seeds))}")
    index = job.seeds.index(chosen)
    kept = experience.read_experiences(folder, job.environment, job.tasks).get((task, index))
    agent = kind(job, _pick(policies, task, index), task, chosen, kept)
    agent = agent.with_policy(agent.trainer.crop(agent.policy, agent.task.params))
    return agent.changed(mixture=mixture, knows_costs=knows_costs)


def load_policies(
    kind: type[AnyPolicy], path: str | Path, environment: Environment | None = None
) -> dict[tuple[int, int], AnyPolicy]:
    """Load all policies of a run folder by (task, seed); they share compiled functions."""
    folder, job, policies, _, mixture, knows_costs = read_policies(path, environment)
    first, agents = kind(job, _pick(policies, 0, 0), 0, job.seeds[0]), {}
    kept = experience.read_experiences(folder, job.environment, job.tasks)
    for number, task in enumerate(job.tasks):
        for index, seed in enumerate(job.seeds):
            agents[number, seed] = first.changed(
                policy=first.trainer.crop(_pick(policies, number, index), task.params),
                task=task,
                seed=seed,
                experience=kept.get((number, index)),
                mixture=mixture,
                knows_costs=knows_costs,
            )
    return agents


def _pick(policies: PyTree, task: int, index: int) -> PyTree:
    return jax.tree.map(lambda x: x[task, index], policies)
