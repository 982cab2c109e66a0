"""Single episodes of a policy, step by step, for films."""

import copy
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from safedsr.core.exploration import epsilon_greedy
from safedsr.engine.host_episodes import choose_actions
from safedsr.engine.host_parts import Tally
from safedsr.envs import episode as episodes_of
from safedsr.envs.copies import Copies
from safedsr.envs.environment import Environment, Task, need
from safedsr.errors import UserError
from safedsr.runs.policy import TrainedPolicy, with_costs

MOST_STEPS = 10_000  # of an episode without a time limit


class Recorded(NamedTuple):
    """One episode; the first of T + 1 entries is its start."""

    ret: np.ndarray  # [T + 1] return so far
    cost: np.ndarray  # [T + 1, J] costs so far; discounted if budgets are for means
    success: bool
    positions: np.ndarray | None  # [T + 1, 2] on a map
    pictures: list[np.ndarray]  # [T + 1] images [H, W, 3] of an environment that draws itself


def record(agent: TrainedPolicy, task: Task, epsilon: float = 0.0, seed: int = 0) -> Recorded:
    """Run one episode; agents with the same seed meet the same random numbers. Of a mixture, one λ is drawn."""
    agent = agent.drawn(np.random.default_rng(seed))
    environment = with_costs(agent.job.environment, len(task.budgets))
    key = jax.random.key(seed)
    if environment.host:
        return _on_host(agent, environment, task, key, epsilon)
    position = need(environment.position, "position", environment, "a film")
    one_step = jax.jit(partial(_step, agent.values_of, environment, agent.job.discount))
    episode, done, success = episodes_of.start(environment, key, task.params), False, False
    seen = [episode]
    while not done and len(seen) <= MOST_STEPS:
        episode, moment = one_step(agent.policy, task.params, key, episode, jnp.float32(epsilon))
        seen.append(episode)
        done, success = bool(moment.done), bool(moment.step.success)
    return Recorded(
        ret=np.array([float(one.ret) for one in seen]),
        cost=np.stack([np.asarray(one.cost) for one in seen]),
        success=success,
        positions=np.stack([np.asarray(position(one.obs, task.params)) for one in seen]),
        pictures=[],
    )


def _step(
    values: Any,
    environment: Environment,
    discount: float,
    policy: Any,
    params: Any,
    key: Any,
    before: Any,
    epsilon: Any,
) -> Any:
    luck_key, step_key = jax.random.split(jax.random.fold_in(key, before.time))
    best = jnp.argmax(values(policy, before.obs).score)
    action = epsilon_greedy(jax.random.uniform(luck_key, (2,)), best, epsilon, environment.spec.actions)
    return episodes_of.step(environment, step_key, before, action, params, discount=discount)


class _Camera(gymnasium.Wrapper):
    """Keeps a picture of every state, a list for each episode."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.episodes: list[list[np.ndarray]] = []

    def reset(self, **options: Any) -> Any:
        found = self.env.reset(**options)
        self.episodes.append([self._picture()])
        return found

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        self.episodes[-1].append(self._picture())
        return found

    def _picture(self) -> np.ndarray:
        picture = self.env.render()
        if not isinstance(picture, np.ndarray) or picture.ndim != 3:
            raise UserError("its render() returns no picture with render_mode='rgb_array'")
        return picture[..., :3].copy()


def _on_host(agent: TrainedPolicy, environment: Environment, task: Task, key: Any, epsilon: float) -> Recorded:
    cameras: list[_Camera] = []

    def make() -> gymnasium.Env:
        cameras.append(_Camera(environment.host.make(render_mode="rgb_array")))
        return cameras[0]

    host = copy.copy(environment.host)
    host.make = make
    tally, done, success = Tally(1, environment.spec.costs, agent.job.discount), False, False
    numbers = np.asarray(jax.random.key_data(key))[None]
    ret, cost = [0.0], [np.zeros(environment.spec.costs)]
    with Copies(host, [task.params]) as envs:
        obs = envs.reset(np.asarray(jax.random.bits(key) >> 1, np.int64).reshape(1, 1))
        while not done and len(ret) <= MOST_STEPS:
            actions = choose_actions(
                agent.values_of, environment.spec.actions, agent.policy, obs, numbers, tally.time, np.float32(epsilon)
            )
            envs.begin_step(np.asarray(actions))
            rows = envs.end_step()
            done, success = bool(tally.add(rows)[0]), bool(rows.success[0])
            ret.append(float(tally.ret[0]))
            cost.append(tally.cost[0].copy())
            obs = rows.start.copy()
    return Recorded(np.array(ret), np.stack(cost), success, None, cameras[0].episodes[0])
