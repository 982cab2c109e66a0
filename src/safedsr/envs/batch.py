"""Several copies of a Gymnasium environment that step together in one process, and how their steps are labelled.

A step of a copy is one row of numbers: s′, its costs and further labels, and s of the next step. Observations are
flattened and are not scaled here.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from safedsr.envs.functions import Args, StepFunction, plain_args

MakeEnv = Callable[..., gymnasium.Env]
# For each cost function its name, itself, the place of its costs, and what reads them if they are several.
Bound = list[tuple[str, Callable[..., Any], int | slice, Callable[[Any], Any] | None]]


class Place(NamedTuple):
    """Where the costs of one function are among all costs."""

    at: int | slice  # a slice if the function returns several
    keys: tuple[str, ...] = ()  # their names, if the function returns them by name

    def several(self, costs: Any) -> Any:
        """Several costs as numbers in their order; raises if they are not those of the first steps."""
        assert isinstance(self.at, slice)
        if self.keys:
            if not isinstance(costs, Mapping) or not costs.keys() <= set(self.keys):
                raise ValueError(f"{costs!r} are not costs with the names {', '.join(self.keys)} of the first steps")
            return [float(costs.get(key, 0.0)) for key in self.keys]
        count = self.at.stop - self.at.start
        if np.shape(costs) != (count,):
            raise ValueError(f"{costs!r} are not {count} costs, as in the first steps")
        return costs


class WrongLabel(Exception):
    """A function of the user failed in a step."""


class Labelling(NamedTuple):
    """How reward, costs and success of a step are found."""

    reward: tuple[tuple[int, float], ...] | None  # entries of a vector reward and their signs, which are summed
    costs: tuple[StepFunction, ...]
    success: StepFunction | None
    extras: int  # entries of a vector reward
    places: tuple[Place, ...] = ()  # of each function's costs
    in_place: bool = False  # the environment changes the observation that it returned before

    def total(self, reward: Any) -> Any:
        """The reward as one number."""
        return reward if self.reward is None else sum(sign * reward[entry] for entry, sign in self.reward)

    def bound(self, args: dict[str, Any]) -> Bound:
        """The cost functions with these parameters."""
        return [
            (f.name, f.bound(args), place.at, place.several if isinstance(place.at, slice) else None)
            for f, place in zip(self.costs, self.places, strict=True)
        ]


class Columns(NamedTuple):
    """The places of the parts of a step in one row of numbers."""

    observations: int
    costs: int
    extras: int

    def split(self, rows: np.ndarray) -> "Rows":
        """The parts of rows [..., width]."""
        n, costs, extras = self
        last = n + costs + extras
        return Rows(
            next_obs=rows[..., :n],
            cost=rows[..., n : n + costs],
            extra=rows[..., n + costs : last],
            success=rows[..., last] > 0,
            reward=rows[..., last + 1],
            terminated=rows[..., last + 2] > 0,
            truncated=rows[..., last + 3] > 0,
            start=rows[..., last + 4 :],
        )

    @property
    def width(self) -> int:
        """Length of a row."""
        return 2 * self.observations + self.costs + self.extras + 4


class Rows(NamedTuple):
    """Steps of all copies; views of the rows."""

    next_obs: np.ndarray
    cost: np.ndarray
    extra: np.ndarray
    success: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    start: np.ndarray  # s of the next step: s′, or the start of a new episode


def _words(error: Exception) -> str:
    """What a user's function did wrong; NumPy's own words for several costs in the place of one say little."""
    if "setting an array element with a sequence" in str(error):
        return "returned several numbers, and one in the first steps"
    return f"raised {type(error).__name__}: {error}"


def _keeper(space: spaces.Space, in_place: bool) -> Callable[[Any], Any] | None:
    """A function that copies observations; None for environments that return a new one in each step."""
    if not in_place:
        return None
    return np.array if isinstance(space, spaces.Box) else deepcopy


def _flattener(space: spaces.Space) -> Callable[[Any], Any] | None:
    """A function that flattens observations; None for vectors, which are flat already."""
    if isinstance(space, spaces.Box):
        return np.ravel if len(space.shape) != 1 else None
    return partial(spaces.flatten, space)


class Batch(gymnasium.Env):
    """Several copies of an environment as one environment, whose observation is a row for each copy.

    An episode that ends is followed by the next one within the same step. `options["seeds"]` are the seeds [copies, n]
    of the first n episodes of each copy, of all batches; later episodes continue the copy's own random numbers. If a
    copy raises an error, `failure` says which, and the rows are not finite.
    """

    def __init__(self, make: MakeEnv, labelling: Labelling, columns: Columns, args: Sequence[Args], place: int) -> None:
        self.envs = [make() for _ in args]
        self.labelling, self.columns, self.place = labelling, columns, place
        self.args = args
        one = self.envs[0]
        self.observation_space = spaces.Box(-np.inf, np.inf, (len(args), columns.width), np.float32)
        self.action_space = spaces.MultiDiscrete([one.action_space.n] * len(args))  # type: ignore[attr-defined]
        self._first = int(getattr(one.action_space, "start", 0))  # number of the first action
        self._flatten = _flattener(one.observation_space)
        self._keep = _keeper(one.observation_space, labelling.in_place)
        self._rows = np.zeros((len(args), columns.width), np.float32)
        n = columns.observations
        self._next, self._labels, self._start = self._rows[:, :n], list(self._rows[:, n:-n]), self._rows[:, -n:]
        self._ends = list(self._rows[:, -n - 4 : -n].T)  # success, reward, terminated, truncated
        self._steps = [env.step for env in self.envs]
        self._obs: list[Any] = [None] * len(args)
        self._seeds, self._begun = np.zeros((len(args), 0), np.int64), [0] * len(args)
        self.failure: str | None = None

    @property
    def args(self) -> Sequence[Args]:
        """The parameters of each copy's cost functions."""
        return self._args

    @args.setter
    def args(self, args: Sequence[Args]) -> None:
        self._args = args
        success, plain = self.labelling.success, [plain_args(one) for one in args]
        self._costs = [self.labelling.bound(one) for one in plain]
        self._success = [success.bound(one) if success else None for one in plain]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """New episodes in all copies."""
        del seed  # each copy has its own
        count = len(self.envs)
        if options:
            self._seeds, self._begun = options["seeds"][self.place : self.place + count], [0] * count
        self._rows[:] = 0
        with self._watched():
            for copy in range(count):
                self._restart(copy)
        return self._rows, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """A step of each copy."""
        with self._watched():
            ended = self._step_all(action.tolist())
            self._start[:] = self._next
            for copy in ended:
                self._restart(copy)
        return self._rows, 0.0, False, False, {}

    def _step_all(self, actions: list[int]) -> list[int]:
        """A step of each copy; returns those whose episode is done. One loop, because calls are slow in Python."""
        labelling, first, keep, flatten, befores = self.labelling, self._first, self._keep, self._flatten, self._obs
        obs_of, plain, extras = self._next, labelling.reward is None, labelling.extras
        ended, place = [], self.columns.costs
        successes, rewards, terminations, truncations = ends = [], [], [], []
        for copy, (one, step, labels, costs, success) in enumerate(
            zip(actions, self._steps, self._labels, self._costs, self._success, strict=True)
        ):
            action, before = one + first, befores[copy]
            obs, reward, terminated, truncated, info = step(action)
            befores[copy] = keep(obs) if keep else obs
            obs_of[copy] = flatten(obs) if flatten else obs
            done = terminated or truncated
            if done:
                ended.append(copy)
            name, reached = "", done
            try:
                for name, function, at, several in costs:  # noqa: B007 (the error names it)
                    cost = function(before, action, obs, reward, info)
                    labels[at] = several(cost) if several else cost
                if success is not None:
                    name = labelling.success.name  # type: ignore[union-attr]
                    reached = success(before, action, obs, reward, info)
            except Exception as error:
                raise WrongLabel(f"cannot go on: its function '{name}' {_words(error)}") from error
            if extras:
                labels[place : place + extras] = reward
            successes.append(reached)
            rewards.append(reward if plain else labelling.total(reward))
            terminations.append(terminated)
            truncations.append(truncated)
        for column, values in zip(self._ends, ends, strict=True):
            column[:] = values
        return ended

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except WrongLabel as error:
            self.failure = str(error)
            self._rows[:] = np.nan
        except (Exception, SystemExit) as error:
            self.failure = f"raised {type(error).__name__}: {error}"
            self._rows[:] = np.nan

    def _restart(self, copy: int) -> None:
        episode, seeds = self._begun[copy], self._seeds[copy]
        seed = int(seeds[episode]) if episode < len(seeds) else None
        obs, _ = self.envs[copy].reset(seed=seed)
        self._obs[copy] = self._keep(obs) if self._keep else obs
        self._begun[copy] += 1
        self._start[copy] = self._flatten(obs) if self._flatten else obs

    def close(self) -> None:
        """Close all copies."""
        for env in self.envs:
            env.close()
