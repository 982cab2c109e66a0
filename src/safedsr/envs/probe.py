"""The first steps of a Gymnasium environment: what its spaces, rewards and `info` are, and whether it can be used."""

import time
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from safedsr.envs.batch import MakeEnv
from safedsr.envs.environment import MOST_OBSERVATIONS
from safedsr.errors import UserError

PROBE_STEPS, PROBE_SECONDS = 200, 1.0  # of random actions, to see what `info` holds and how long a step takes


class Probe(NamedTuple):
    """What some steps of random actions showed."""

    observation_space: spaces.Space
    actions: int
    first: int  # number of the first action
    reward: Any  # of the first step
    infos: dict[str, Any]  # every key of `info`, with its first value
    step: tuple[Any, Any, Any, Any, Any]  # the arguments of cost functions in the first step
    seconds: float  # of one step
    in_place: bool  # the environment changes the observation that it returned before
    limit: int | None  # steps after which Gymnasium truncates an episode


def probe(make: MakeEnv, name: str) -> Probe:
    """Take some steps; raises in one line if the environment cannot be used."""
    env = make()
    try:
        actions = _require_discrete(env, name)
        observation_space = _require_flat(env.observation_space, name)
        rng, first = np.random.default_rng(0), int(getattr(env.action_space, "start", 0))
        before, info = env.reset(seed=0)
        infos, step, reward, in_place = dict(info), None, 0.0, False
        taken, began = 0, time.perf_counter()
        while taken < PROBE_STEPS and time.perf_counter() - began < PROBE_SECONDS:
            action = int(rng.integers(actions)) + first
            kept = deepcopy(before)
            obs, reward, terminated, truncated, info = env.step(action)
            in_place = in_place or _shared(obs, before)
            _require_numbers(obs, reward, observation_space, name)
            step = step or (kept, action, obs, reward, info)
            infos, taken, before = {**info, **infos}, taken + 1, obs
            if terminated or truncated:
                before, _ = env.reset()
        assert step
        limit = env.spec.max_episode_steps if env.spec else None
        seconds = (time.perf_counter() - began) / taken
        return Probe(observation_space, actions, first, step[3], infos, step, seconds, in_place, limit)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the environment '{name}' cannot be used: its first steps raised {type(error).__name__}: {error}"
        ) from error
    finally:
        env.close()


def _require_numbers(obs: Any, reward: Any, space: spaces.Space, name: str) -> None:
    """Raise unless an observation fits its space and is finite, as the reward."""
    if isinstance(space, spaces.Box) and np.shape(obs) != space.shape:
        raise UserError(
            f"the environment '{name}' returned an observation of shape {np.shape(obs)}; its observation_space has "
            f"{space.shape}: correct one of them"
        )
    for what, value in (("an observation", spaces.flatten(space, obs)), ("a reward", reward)):
        if not np.isfinite(np.asarray(value, np.float64)).all():
            raise UserError(f"the environment '{name}' returned {what} that is not finite in its first steps")


def _shared(obs: Any, before: Any) -> bool:
    """Whether a part of an observation is in the same memory as that of the one before."""
    if isinstance(obs, Mapping) and isinstance(before, Mapping):
        return any(_shared(part, before.get(name)) for name, part in obs.items())
    if isinstance(obs, tuple | list) and isinstance(before, tuple | list):
        return obs is before or any(map(_shared, obs, before))
    arrays = isinstance(obs, np.ndarray) and isinstance(before, np.ndarray)
    return np.may_share_memory(obs, before) if arrays else False


def _require_discrete(env: gymnasium.Env, name: str) -> int:
    space = env.action_space
    if not isinstance(space, spaces.Discrete):
        raise UserError(
            f"the environment '{name}' has {type(space).__name__} actions; possible are Discrete actions: wrap the "
            "environment so that it offers a list of actions, and pass a function that makes it"
        )
    return int(space.n)


def _require_flat(space: spaces.Space, name: str) -> spaces.Space:
    if odd := _not_flat(space):
        raise UserError(
            f"the environment '{name}' has {odd} observations; possible are Box, Discrete, MultiBinary, MultiDiscrete, "
            "and Dict and Tuple of these: drop the others by a wrapper (MiniGrid: ImgObsWrapper), and pass a function "
            "that makes the environment (--env FILE.py:NAME)"
        )
    size = spaces.flatdim(space)
    if not 1 <= size <= MOST_OBSERVATIONS:
        raise UserError(
            f"the environment '{name}' has observations of {size} numbers; possible are 1 to {MOST_OBSERVATIONS}: "
            "reduce them by a wrapper (a smaller or grey picture, features)"
        )
    return space


def _not_flat(space: spaces.Space) -> str | None:
    """The kind of the first part of a space that cannot be flattened into an array."""
    if isinstance(space, spaces.Text | spaces.OneOf):
        return type(space).__name__
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.values() if isinstance(space, spaces.Dict) else space
        return next(filter(None, map(_not_flat, parts)), None)
    try:
        flat = space.is_np_flattenable
    except NotImplementedError:  # a space of the environment's own
        flat = False
    return None if flat else type(space).__name__
