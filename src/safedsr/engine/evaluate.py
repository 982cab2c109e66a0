"""Evaluation of a policy over episodes in its environment; each number has a 95 % interval."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.core.capacity import fitting, free_memory, require_room
from safedsr.core.exploration import epsilon_greedy
from safedsr.engine.outcome import Outcome, endless, most_steps
from safedsr.envs import episode as episodes_of
from safedsr.envs.environment import Environment, Task
from safedsr.envs.episode import Episode
from safedsr.envs.memory import Remembered, memory_environment
from safedsr.runs.config import Terms
from safedsr.runs.metrics import within
from safedsr.runs.policy import TrainedPolicy, with_costs
from safedsr.types import PyTree
from safedsr.validation import MOST, check_epsilon, require

EPISODE_BYTES = 64  # of the key and the results of an episode, on the device and on the host
WALKED = {"simulated_steps": 0, "memory_steps": 0}  # of all episodes that this process has run, for accounts
DRAW = 2**31 - 1  # of an episode's key, for the draw of λ; steps use their number
WALKERS = 64  # parallel episodes on a CPU: efficient matrix products, and few idle places at the end
MANY = 768  # on an accelerator, where more episodes take hardly longer


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} … {self.high:.3f})"


def walked() -> int:
    """Steps of all simulated episodes and walks through memory that this process has run so far."""
    return sum(WALKED.values())


class Evaluation(NamedTuple):
    """Results of a policy over `episodes` episodes."""

    episodes: int
    goal_rate: Estimate
    safe_goal_rate: Estimate
    reward: Estimate
    cost: tuple[Estimate, ...]  # one per cost; discounted if budgets are for means
    length: Estimate
    terms: Terms = Terms()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        named = {name: getattr(self, name)._asdict() for name in ("goal_rate", "safe_goal_rate", "reward", "length")}
        if not self.terms.success:
            named = {"safe_episode_rate": named["safe_goal_rate"], "reward": named["reward"], "length": named["length"]}
        kind = {"budget_kind": self.terms.budget_kind} if self.terms.on_mean else {}
        return {"episodes": self.episodes, **named, "cost": [cost._asdict() for cost in self.cost], **kind}


def evaluate(
    agent: TrainedPolicy, task: Task | None = None, episodes: int = 1000, epsilon: float = 0.0, seed: int = 0
) -> Evaluation:
    """Run episodes of the agent's ε-greedy policy in its own task or in another one."""
    task = task or agent.task
    outcome = run_episodes(agent, task, episodes, epsilon, seed)
    safe = outcome.success & within(outcome.cost, task.budgets)
    return Evaluation(
        episodes=episodes,
        goal_rate=_share(outcome.success),
        safe_goal_rate=_share(safe),
        reward=_mean(outcome.ret),
        cost=tuple(_mean(column) for column in outcome.cost.T),
        length=_mean(outcome.length),
        terms=agent.job.terms,
    )


def run_episodes(agent: TrainedPolicy, task: Task, episodes: int, epsilon: float = 0.0, seed: int = 0) -> Outcome:
    """Run whole episodes; each has its own random key, so its outcome does not depend on the other episodes."""
    check_epsilon(epsilon)
    return run_keys(agent, task, episode_keys(seed, episodes, len(task.budgets)), epsilon)


def episode_keys(seed: int, episodes: int, costs: int) -> Array:
    """A random key for each episode, if the results of so many episodes fit into memory."""
    require(episodes >= 2, "episodes", episodes, "give at least 2, for an interval")
    need, free = episodes * (EPISODE_BYTES + 16 * costs), free_memory()
    require_room(f"{episodes} episodes", need, free, f"simulate at most about {fitting(episodes, need, free)}")
    require(episodes <= MOST, "episodes", episodes, f"give at most {MOST}")
    return jax.random.split(jax.random.key(seed), episodes)


def run_keys(agent: TrainedPolicy, task: Task, keys: Array, epsilon: float = 0.0, lams: Array | None = None) -> Outcome:
    """Run one episode for each random key [n]; walks through memory, if the task is made of remembered transitions.

    With `lams` [n, J], each episode has a λ of its own; only compiled environments take them.
    """
    if agent.mixture:
        return _run_mixture(agent, task, keys, epsilon)
    environment = with_costs(agent.job.environment, len(task.budgets))
    if isinstance(task.params, Remembered):
        longest = agent.experience.longest if agent.experience and not environment.spec.time_limit else 0
        environment = memory_environment(environment.spec, longest)
    if environment.host:
        from safedsr.engine.host_episodes import run_on_host

        job = agent.job
        how = epsilon, job.discount, job.train.processes
        return run_on_host(agent.values_of, environment, agent.policy, task.params, keys, *how)
    where, count = (environment, agent.policy, task.params), len(keys)
    if many := accelerated():  # one program for any number of episodes
        places = np.arange(-(-count // MANY) * MANY) % count
        keys, lams = keys[places], None if lams is None else lams[places]
    how = jnp.int32(count), jnp.float32(epsilon), lams
    outcome, ended = jax.device_get(
        _run(agent.values_of, *where, keys, *how, discount=agent.job.discount, walkers=MANY if many else WALKERS)
    )
    if not ended:
        raise endless(environment)
    outcome = Outcome(*(field[:count] for field in outcome))
    WALKED["memory_steps" if isinstance(task.params, Remembered) else "simulated_steps"] += int(outcome.length.sum())
    return outcome


def accelerated() -> bool:
    """Whether JAX computes on a GPU or TPU."""
    return jax.default_backend() != "cpu"


def draws(keys: Array, share: float) -> np.ndarray:
    """Which of the two λ of a mixture each episode draws [n]: 0, or 1 with the probability `share`."""
    luck = jax.vmap(lambda key: jax.random.uniform(jax.random.fold_in(key, DRAW)))(keys)
    return np.asarray(luck < share, np.int32)


def _run_mixture(agent: TrainedPolicy, task: Task, keys: Array, epsilon: float) -> Outcome:
    """Run the episodes of each λ, in their order.

    A compiled program runs all of them with both λ, because it is compiled for a number of episodes.
    """
    assert agent.mixture
    chosen, count = draws(keys, agent.mixture.share), len(keys)
    wasteful = not agent.job.environment.host or isinstance(task.params, Remembered)
    places = [np.arange(count) if wasteful else np.flatnonzero(chosen == n) for n in range(2)]
    found = [
        run_keys(part, task, keys[place], epsilon) if len(place) else None
        for part, place in zip(agent.parts, places, strict=True)
    ]
    kept = [np.flatnonzero(chosen[place] == n) for n, place in enumerate(places)]
    order = np.argsort(np.concatenate([place[own] for place, own in zip(places, kept, strict=True)]))
    rows = [jax.tree.map(lambda x, own=own: x[own], o) for o, own in zip(found, kept, strict=True) if o is not None]
    return Outcome(*(np.concatenate(field)[order] for field in zip(*rows, strict=True)))


@partial(jax.jit, static_argnames=("values", "environment", "discount", "walkers"))
def _run(
    values: Any,
    environment: Environment,
    policy: PyTree,
    params: PyTree,
    keys: Array,
    count: Array,
    epsilon: Array,
    lams: Array | None,
    discount: float,
    walkers: int,
) -> tuple[Outcome, Array]:
    """Run the first `count` episodes, `walkers` of them in parallel; when one ends, the next episode takes its place.

    Also returned: whether all of them have ended, as none may take longer than `most_steps`.
    """
    size, walkers = len(keys), min(walkers, len(keys))

    def step(number: Array, before: Episode) -> tuple[Episode, Outcome, Array]:
        luck_key, step_key = jax.random.split(jax.random.fold_in(keys[number], before.time))
        own = policy if lams is None else policy._replace(lam=lams[number])
        best = jnp.argmax(values(own, before.obs).score)
        luck = jax.random.uniform(luck_key, (2,))
        action = epsilon_greedy(luck, best, epsilon, environment.spec.actions)
        after, moment = episodes_of.step(environment, step_key, before, action, params, discount=discount)
        return after, Outcome(moment.step.success, moment.time, moment.ret, moment.cost), moment.done

    def begin(episode: Array) -> Episode:
        return jax.vmap(partial(episodes_of.start, environment), (0, None))(keys[episode], params)

    def advance(walk: Walk) -> Walk:
        running, so_far, done = jax.vmap(step)(walk.episode, walk.running)
        done &= walk.episode < count
        place = jnp.where(done, walk.episode, size)  # out of range, so not stored, while an episode runs
        outcome = jax.tree.map(lambda kept, new: kept.at[place].set(new, mode="drop"), walk.outcome, so_far)
        episode = jnp.where(done, walk.begun + jnp.cumsum(done) - 1, walk.episode)
        return Walk(episode, walk.begun + done.sum(), _where(done, begin(episode), running), outcome)

    first = jnp.arange(walkers)
    start = Walk(first, jnp.int32(walkers), begin(first), _nothing(size, environment.spec.costs))

    def go_on(walk: Walk) -> Array:
        runs = walk.episode < count
        return runs.any() & ~(runs & (walk.running.time >= most_steps(environment))).any()

    last = jax.lax.while_loop(go_on, advance, start)
    return last.outcome, (last.episode >= count).all()


class Walk(NamedTuple):
    """State of the parallel episodes; an episode number past the last one means that this place is idle."""

    episode: Array  # [walkers] number of the episode
    begun: Array  # [] number of episodes started so far
    running: Episode
    outcome: Outcome  # of all episodes


def _nothing(count: int, num_costs: int) -> Outcome:
    return Outcome(jnp.zeros(count, bool), jnp.zeros(count, jnp.int32), jnp.zeros(count), jnp.zeros((count, num_costs)))


def _where(chosen: Array, one: PyTree, other: PyTree) -> PyTree:
    """Rows of `one` where chosen, of `other` elsewhere."""
    pick = jax.vmap(lambda chosen, x, y: jax.tree.map(partial(jnp.where, chosen), x, y))
    return pick(chosen, one, other)


def _share(hits: np.ndarray) -> Estimate:
    from scipy.stats import binomtest

    found = binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, method="exact")  # Clopper-Pearson
    return Estimate(float(hits.mean()), float(found.low), float(found.high))


def _mean(values: np.ndarray) -> Estimate:
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
    mean = float(values.mean())
    return Estimate(mean, mean - half, mean + half)
