"""Level "penalty": λ for new costs, by a search over simulated episodes or learnt on-policy as in the paper."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from safedsr.adapt.config import Tell, silent
from safedsr.adapt.costs import units_of
from safedsr.core import multiplier
from safedsr.core.config import MultiplierConfig
from safedsr.core.exploration import epsilon_greedy
from safedsr.core.multiplier import Ended, Multiplier
from safedsr.core.units import Units
from safedsr.engine.evaluate import Outcome, accelerated, run_keys
from safedsr.envs import episode as episodes
from safedsr.envs.environment import Environment, Task
from safedsr.envs.episode import Episode
from safedsr.envs.memory import Remembered
from safedsr.runs.config import Terms
from safedsr.runs.job import aim_of
from safedsr.runs.metrics import excess, within
from safedsr.runs.policy import AnyPolicy, TrainedPolicy, with_costs
from safedsr.types import PyTree

LADDER = (0.0, *(0.05 * 2.0**k for k in range(11)))  # λ to try, in its unit: from reward only to almost costs only
LARGEST = 1024.0  # if the largest λ of the ladder is the best one, larger ones are tried up to this one
FINER = (2.0**0.5, 2.0**0.25)  # then factors around the best λ
# Without goals, costs jump from far above a budget to far below it within a factor of 2: half steps, then finer ones.
HALF_STEPS, FINEST = (0.0, *(0.05 * 2.0 ** (k / 2) for k in range(21))), (2.0**0.25, 2.0**0.125)
BATCH = 64  # episodes per compiled call
HOST_BATCH = 16  # in environments on the host, which are slower
FINALISTS, FINAL_BATCHES = 3, 4


class Score(NamedTuple):
    """Results of a policy in simulated episodes, compared field by field; larger is better.

    Where safe goals do not count, more safety than required is worth nothing, so that the return decides: `safe` is the
    share of safe episodes up to what is required, or 1 if all mean costs are within their budgets and else 0; `spared`
    is 0 if enough is safe.
    """

    safe: float  # share that reached the goal within the budget
    goal: float  # share that reached the goal; 1 where safe goals do not count
    spared: float  # minus the mean cost above the budget, summed over costs
    reward: float  # mean


def with_lam(agent: AnyPolicy, lam: Any) -> AnyPolicy:
    """The agent with other multipliers."""
    return agent.with_policy(agent.policy._replace(lam=jnp.asarray(lam, jnp.float32)))


def score(
    agent: TrainedPolicy, task: Task, epsilon: float, batches: int = 1, seed: int = 0, required: float = 1.0
) -> Score:
    """Score of `batches` × `BATCH` simulated episodes; `required` is the share that has to be safe."""
    return judge(outcome_of(agent, task, epsilon, batches, seed), task, agent.job.terms, required)


def outcome_of(agent: TrainedPolicy, task: Task, epsilon: float, batches: int = 1, seed: int = 0) -> Outcome:
    """The outcome of `batches` × `BATCH` simulated episodes."""
    slow = agent.job.environment.host and not isinstance(task.params, Remembered)
    size = HOST_BATCH if slow else BATCH
    keys = jax.random.split(jax.random.key(seed), FINAL_BATCHES * size).reshape(FINAL_BATCHES, size)
    found = [run_keys(agent, task, keys[n], epsilon) for n in range(batches)]
    return Outcome(*(np.concatenate(field) for field in zip(*found, strict=True)))


def scores(
    agent: TrainedPolicy, lams: np.ndarray, task: Task, epsilon: float, batches: int = 1, required: float = 1.0
) -> list[Score]:
    """The score of each λ [L, J]. An accelerator runs the episodes of all λ together, which is faster there."""
    if agent.job.environment.host or not accelerated():
        how = {"task": task, "epsilon": epsilon, "batches": batches, "required": required}
        return [score(with_lam(agent, lam), **how) for lam in lams]
    keys = jax.random.split(jax.random.key(0), FINAL_BATCHES * BATCH)[: batches * BATCH]
    own = jnp.repeat(jnp.asarray(lams, jnp.float32), len(keys), axis=0)
    every = run_keys(agent, task, keys[np.arange(len(own)) % len(keys)], epsilon, own)
    each = [slice(n * len(keys), (n + 1) * len(keys)) for n in range(len(lams))]
    return [judge(Outcome(*(x[one] for x in every)), task, agent.job.terms, required) for one in each]


def judge(o: Outcome, task: Task, terms: Terms, required: float) -> Score:
    """The score of these episodes."""
    over = float(np.maximum(o.cost - np.asarray(task.budgets, np.float32), 0).mean(0).sum())
    safe, reward = float((o.success & within(o.cost, task.budgets)).mean()), float(o.ret.mean())
    if terms.goals:
        return Score(safe, float(o.success.mean()), -over, reward)
    if terms.on_mean:
        # One standard error more than the mean, so that other episodes confirm it.
        cost = o.cost.astype(np.float64)
        over = excess(cost.mean(0) + cost.std(0) / len(cost) ** 0.5, task.budgets)
        return Score(float(over == 0), 1.0, -over, reward)
    return Score(min(safe, required), 1.0, 0.0 if safe >= required else -over, reward)


def search_penalty(
    agent: AnyPolicy, task: Task, epsilon: float = 0.0, required: float = 1.0, tell: Tell = silent
) -> tuple[AnyPolicy, Score]:
    """The agent with the λ of the best score; with several costs, each λ_j is searched in turn, twice."""
    lam = np.asarray(agent.policy.lam, np.float32)
    agent = with_lam(agent, lam)  # one λ, also if it was a mixture
    judged = partial(scores, agent, task=task, epsilon=epsilon, required=required)
    ladder = np.asarray(steps_of(agent.job.terms)[0], np.float32)[:, None] * lam_unit(agent, task)
    best = judged(lam[None], batches=FINAL_BATCHES)[0]
    turns = [*range(len(lam))] * (2 if len(lam) > 1 else 1)
    for n, j in enumerate(turns):

        def told(share: float, n: int = n) -> None:
            tell("searching λ in simulated episodes", (n + share) / len(turns))

        lam, best = _search_one(agent, judged, ladder[:, j], lam, best, j, told, required)
    return with_lam(agent, lam), best


def steps_of(terms: Terms) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The λ to try, in its unit, and the factors around the best of them."""
    return (LADDER, FINER) if terms.goals else (HALF_STEPS, FINEST)


def lam_unit(agent: TrainedPolicy, task: Task) -> np.ndarray:
    """The unit of λ [J]: 1 for agents that do not use units."""
    units = units_of(agent, task)
    return np.ones(len(task.budgets), np.float32) if units is None else np.asarray(units.lam)


def _search_one(
    agent: TrainedPolicy,
    judged: Callable[..., list[Score]],
    ladder: np.ndarray,
    lam: np.ndarray,
    best: Score,
    j: int,
    told: Callable[[float], None],
    enough: float,
) -> tuple[np.ndarray, Score]:
    """Try all values of `ladder` for λ_j and some around the best, then the best `FINALISTS` with more episodes.

    No others are tried if safe goals count and a share `enough` of the episodes has one.
    """
    tried: dict[float, Score] = {}

    def choice(value: float) -> np.ndarray:
        return np.where(np.arange(len(lam)) == j, np.float32(value), lam)

    def judge_all(values: Sequence[float], batches: int = 1) -> list[Score]:
        return judged(np.stack([choice(value) for value in values]), batches=batches)

    def look(*values: float) -> None:
        for some in [values] if accelerated() else [[value] for value in values]:
            told(min(len(tried) / (len(ladder) + 2 * len(FINER) + FINALISTS), 1.0))
            tried.update(zip(some, judge_all(some), strict=True))

    def top() -> float:
        return max(tried, key=tried.__getitem__)

    look(*map(float, ladder))
    most = float(ladder[-1])
    while top() == most < LARGEST / LADDER[-1] * float(ladder[-1]) and tried[most].safe < enough:
        most *= 2
        look(most)
    for factor in steps_of(agent.job.terms)[1]:
        middle = top()
        if middle == 0 or (agent.job.terms.goals and tried[middle].safe >= enough):
            break
        look(middle / factor, middle * factor)
    finalists = sorted(tried, key=tried.__getitem__, reverse=True)[:FINALISTS]
    for value, found in zip(finalists, judge_all(finalists, FINAL_BATCHES), strict=True):
        if found > best:
            lam, best = choice(value), found
    return lam, best


def learn_penalty(agent: AnyPolicy, task: Task, steps: int = 100_000, seed: int = 0) -> AnyPolicy:
    """Update λ by the agent's own rule after each episode of its ε-greedy policy; all else is fixed (Sec. 5.4)."""
    config = agent.job.agent.multiplier
    aim = jnp.asarray(aim_of(agent.job.agent, task.budgets), jnp.float32)
    if agent.job.environment.host:
        return with_lam(agent, _tune_on_host(agent, task, aim, steps, seed).lam)
    tuned = _tune(
        agent.values_of,
        with_costs(agent.job.environment, len(task.budgets)),
        config,
        agent.policy,
        task.params,
        aim,
        jnp.float32(agent.job.agent.epsilon.epsilon_end),
        multiplier.at(agent.policy.lam),
        units_of(agent, task),
        jax.random.split(jax.random.key(seed), steps),
        discount=agent.job.discount,
    )
    return with_lam(agent, tuned.lam)


def _tune_on_host(agent: TrainedPolicy, task: Task, aim: Array, steps: int, seed: int) -> Multiplier:
    """The multiplier after the episodes that `steps` steps hold; it is updated between episodes."""
    config, tuned = agent.job.agent.multiplier, multiplier.at(agent.policy.lam)
    units = units_of(agent, task)
    tune = jax.jit(lambda m, ended: multiplier.after_episode(m, ended, config, units))
    keys, taken = jax.random.split(jax.random.key(seed), steps), 0
    for key in keys:
        moved = with_lam(agent, multiplier.acting(tuned, config, goals=agent.job.terms.success))
        outcome = run_keys(moved, task, key[None], agent.job.agent.epsilon.epsilon_end)
        taken += int(outcome.length[0])
        if taken > steps:
            break
        how = jnp.asarray(outcome.success[0]), jnp.float32(outcome.length[0])
        tuned = tune(tuned, Ended(jnp.asarray(outcome.cost[0]), aim, agent.job.terms.success, *how))
    return tuned


@partial(jax.jit, static_argnames=("values", "environment", "config", "discount"))
def _tune(
    values: Any,
    environment: Environment,
    config: MultiplierConfig,
    policy: PyTree,
    params: PyTree,
    aim: Array,
    epsilon: Array,
    start: Multiplier,
    units: Units | None,
    keys: Array,
    discount: float,
) -> Multiplier:
    def step(carry: tuple[Episode, Multiplier], key: Array) -> tuple[tuple[Episode, Multiplier], None]:
        episode, m = carry
        luck_key, step_key = jax.random.split(key)
        lam = multiplier.acting(m, config, goals=environment.spec.success)
        best = jnp.argmax(values(policy._replace(lam=lam), episode.obs).score)
        action = epsilon_greedy(jax.random.uniform(luck_key, (2,)), best, epsilon, environment.spec.actions)
        episode, moment = episodes.step_or_restart(environment, step_key, episode, action, params, discount=discount)
        steps = moment.time.astype(jnp.float32)
        ended = Ended(moment.cost, aim, environment.spec.success, moment.step.success, steps)
        m = jax.tree.map(partial(jnp.where, moment.done), multiplier.after_episode(m, ended, config, units), m)
        return (episode, m), None

    first = episodes.start(environment, keys[0], params)
    return jax.lax.scan(step, (first, start), keys)[0][1]
