"""Copies of a Gymnasium environment that step together on the host, in this process or divided among several.

A step of a copy is one row of numbers: s′, its costs and further labels, and s of the next step. Observations are
flattened and are not scaled here.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from safedsr.envs.functions import Args, NoInfo, StepFunction, plain_args
from safedsr.errors import EnvironmentFailed, UserError
from safedsr.types import Transition

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


class Host:
    """An environment that runs on the host: how it is made and labelled. `steps` counts the steps of all its copies."""

    def __init__(
        self, name: str, make: MakeEnv, labelling: Labelling, columns: Columns, seconds: float, first: int
    ) -> None:
        self.name, self.make, self.labelling, self.columns = name, make, labelling, columns
        self.seconds = seconds  # of one step
        self.first = first  # number of the first action
        self.steps = 0
        self._idle: Copies | None = None

    def idle_copies(self, count: int, args: Args, processes: int) -> "Copies":
        """Copies for episodes outside of training, with these parameters; they are kept for the next call."""
        if self._idle is None or (self._idle.count, self._idle.processes) != (count, processes):
            self.close()
            self._idle = Copies(self, [args] * count, processes)
        else:
            self._idle.set_args([args] * count)
        return self._idle

    def close(self) -> None:
        """End the copies that are kept for the next call."""
        if self._idle is not None:
            self._idle.close()
            self._idle = None

    def relabel(self, steps: Transition, args: Args, space: spaces.Space) -> Transition:
        """Stored steps [n] with the costs that the functions give them."""
        cost = np.zeros((len(steps.action), self.columns.costs), np.float32)
        restore, functions = partial(spaces.unflatten, space), self.labelling.bound(plain_args(args))
        for n, (obs, action, next_obs, reward) in enumerate(
            zip(
                np.asarray(steps.obs),
                np.asarray(steps.action),
                np.asarray(steps.next_obs),
                np.asarray(steps.extra if self.columns.extras else steps.reward),
                strict=True,
            )
        ):
            step = restore(obs), int(action) + self.first, restore(next_obs), reward, NoInfo()
            for _, function, at, several in functions:
                cost[n, at] = several(function(*step)) if several else function(*step)
        return steps._replace(cost=cost)


class Copies:
    """Copies of an environment that step together, in this process or divided among several processes."""

    def __init__(self, host: Host, args: Sequence[Args], processes: int = 0) -> None:
        self.host, self.count, self.processes = host, len(args), processes
        self.each = len(args) // (processes or 1)
        if self.each * (processes or 1) != len(args):
            raise UserError(f"{len(args)} copies cannot be divided among {processes} processes; choose a divisor")
        make = [
            partial(Batch, host.make, host.labelling, host.columns, args[n : n + self.each], n)
            for n in range(0, len(args), self.each)
        ]
        if processes:
            modes = {"context": "forkserver", "autoreset_mode": AutoresetMode.DISABLED}
            self._envs: Any = AsyncVectorEnv([partial(_deaf, one) for one in make], copy=False, **modes)
        else:
            self._envs = make[0]()

    def __enter__(self) -> "Copies":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all copies and their processes."""
        for process in self._envs.processes if self.processes else ():
            process.kill()  # they ignore other signals
        with contextlib.suppress(Exception):  # they may have failed before
            self._envs.close(**({"terminate": True} if self.processes else {}))

    def reset(self, seeds: np.ndarray | None = None) -> np.ndarray:
        """New episodes; `seeds` [copies, n] are those of the first n episodes of each copy. Returns observations."""
        with self._answered():
            rows, _ = self._envs.reset(options=None if seeds is None else {"seeds": seeds})
        start = self._rows(rows).start.copy()
        if not np.isfinite(start).all():
            self._refuse("an observation that is not finite")
        return start

    def begin_step(self, actions: np.ndarray) -> None:
        """Send actions [copies]; `end_step` gets the result."""
        if self.processes:
            with self._answered():
                self._envs.step_async(actions.reshape(self.processes, self.each))
        else:
            self._actions = actions

    def end_step(self) -> Rows:
        """The result of the step, also as `rows` [copies, width]; arrays are valid until the next step begins."""
        if self.processes:
            with self._answered():
                rows = self._envs.step_wait()[0]
        else:
            rows = self._envs.step(self._actions)[0]
        self.host.steps += self.count
        self.rows = rows = rows.reshape(self.count, self.host.columns.width)
        found = self._rows(rows)
        if not np.isfinite(rows).all() or (found.cost < 0).any():
            self._refuse(_fault(found))
        return found

    def set_args(self, args: Sequence[Args]) -> None:
        """Other parameters of the cost functions, for each copy."""
        parts = [list(args[n : n + self.each]) for n in range(0, self.count, self.each)]
        if self.processes:
            self._envs.set_attr("args", parts)
        else:
            self._envs.args = parts[0]

    @contextlib.contextmanager
    def _answered(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError) as error:
            name = self.host.name
            raise EnvironmentFailed(
                f"a process of the environment '{name}' has ended ({str(error) or 'killed'})"
            ) from None

    def _rows(self, rows: np.ndarray) -> Rows:
        return self.host.columns.split(rows.reshape(self.count, self.host.columns.width))

    def _refuse(self, fault: str) -> None:
        """Raise an error in the words of the environment, or with this fault."""
        failures = self._envs.get_attr("failure") if self.processes else [self._envs.failure]
        words = next((failure for failure in failures if failure), f"returned {fault}")
        raise EnvironmentFailed(f"the environment '{self.host.name}' {words}")


def _deaf(make: MakeEnv) -> gymnasium.Env:
    """An environment in a process of its own, which leaves signals to the process that trains."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return make()


def _fault(rows: Rows) -> str:
    """What is wrong with some rows."""
    kinds = {"next_obs": "an observation", "reward": "a reward", "cost": "a cost", "extra": "a vector reward"}
    for name, kind in kinds.items():
        if not np.isfinite(getattr(rows, name)).all():
            return f"{kind} that is not finite"
    if (rows.cost < 0).any():
        return f"the cost {rows.cost.min():g}; costs must be at least 0"
    return "an observation that is not finite after a reset"
