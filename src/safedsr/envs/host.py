"""Gymnasium environments, which run in Python on the host: their costs and success, and copies of them side by side.

`from_gymnasium` gives an `Environment` without `reset` and `step`; its `host` makes copies of the environment, which
step together in this process or in several. Observations are flattened and are not scaled here.
"""

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from safedsr.envs.environment import Environment, Spec
from safedsr.envs.functions import (
    Args,
    NeedsInfo,
    NoInfo,
    StepFunction,
    args_to_json,
    collect_defaults,
    from_info,
    from_reward,
    own_function,
    parse_entry,
    with_args,
)
from safedsr.errors import EnvironmentFailed, UserError, unknown
from safedsr.types import PyTree, Transition

MOST_OBSERVATIONS = 4096
ENDLESS = 1e6  # a bound beyond this is no bound
PROBE_STEPS, PROBE_SECONDS = 200, 1.0  # of random actions, to see what `info` holds and how long a step takes

PACKAGES = ("mo_gymnasium", "minigrid", "highway_env")  # whose environments need no module:Id

MakeEnv = Callable[[], gymnasium.Env]


class Labelling(NamedTuple):
    """How reward, costs and success of a step are found."""

    reward: tuple[tuple[int, float], ...] | None  # entries of a vector reward and their signs, which are summed
    costs: tuple[StepFunction, ...]
    success: StepFunction | None
    extras: int  # entries of a vector reward
    places: tuple[int | slice, ...] = ()  # of each function's costs among all costs; a slice if it returns several

    def total(self, reward: Any) -> Any:
        """The reward as one number."""
        return reward if self.reward is None else sum(sign * reward[entry] for entry, sign in self.reward)


def _plain(cost: Any) -> Any:
    """Costs as numbers; `info` may hold them by name."""
    return [float(value) for value in cost.values()] if isinstance(cost, Mapping) else cost


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
    def labelled(self) -> int:
        """Length of an observation with its labels: costs, extras and success."""
        return self.observations + self.costs + self.extras + 1

    @property
    def width(self) -> int:
        """Length of a row."""
        return self.labelled + 3 + self.observations


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
        self._rows = np.zeros((len(args), columns.width), np.float32)
        n = columns.observations
        self._next, self._labels, self._start = self._rows[:, :n], list(self._rows[:, n:-n]), self._rows[:, -n:]
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
        self._costs = [[function.bound(one) for function in self.labelling.costs] for one in args]
        success = self.labelling.success
        self._success = [success.bound(one) if success else None for one in args]

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
            ended = [copy for copy, one in enumerate(action.tolist()) if self._step_one(copy, one + self._first)]
            self._start[:] = self._next
            for copy in ended:
                self._restart(copy)
        return self._rows, 0.0, False, False, {}

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failure = f"raised {type(error).__name__}: {error}"
            self._rows[:] = np.nan

    def _step_one(self, copy: int, action: int) -> bool:
        """A step of one copy; returns whether its episode is done."""
        labelling, labels = self.labelling, self._labels[copy]
        before = self._obs[copy]
        obs, reward, terminated, truncated, info = self._steps[copy](action)
        self._obs[copy] = obs
        self._next[copy] = self._flatten(obs) if self._flatten else obs
        for function, place in zip(self._costs[copy], labelling.places, strict=True):
            cost = function(before, action, obs, reward, info)
            labels[place] = cost if isinstance(place, int) else _plain(cost)
        end = self.columns.costs
        if labelling.extras:
            labels[end : end + labelling.extras] = reward
            end += labelling.extras
        done, success = terminated or truncated, self._success[copy]
        labels[end] = done if success is None else success(before, action, obs, reward, info)
        labels[end + 1] = reward if labelling.reward is None else labelling.total(reward)
        labels[end + 2], labels[end + 3] = terminated, truncated
        return done

    def _restart(self, copy: int) -> None:
        episode, seeds = self._begun[copy], self._seeds[copy]
        seed = int(seeds[episode]) if episode < len(seeds) else None
        obs, _ = self.envs[copy].reset(seed=seed)
        self._obs[copy] = obs
        self._begun[copy] += 1
        self._start[copy] = self._flatten(obs) if self._flatten else obs

    def close(self) -> None:
        """Close all copies."""
        for env in self.envs:
            env.close()


class Host:
    """An environment that runs on the host: how it is made and labelled. `steps` counts the steps of all its copies."""

    def __init__(self, name: str, make: MakeEnv, labelling: Labelling, columns: Columns, seen: "Probe") -> None:
        self.name, self.make, self.labelling, self.columns = name, make, labelling, columns
        self.seconds = seen.seconds  # of one step
        self.first = seen.first  # number of the first action
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
        restore, functions = partial(spaces.unflatten, space), [one.bound(args) for one in self.labelling.costs]
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
            for function, place in zip(functions, self.labelling.places, strict=True):
                cost[n, place] = _plain(function(*step))
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
            self._envs: Any = AsyncVectorEnv(make, copy=False, **modes)
        else:
            self._envs = make[0]()

    def __enter__(self) -> "Copies":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all copies and their processes."""
        with contextlib.suppress(Exception):  # they may have failed before
            self._envs.close(**({"terminate": True} if self.processes else {}))

    def reset(self, seeds: np.ndarray | None = None) -> np.ndarray:
        """New episodes; `seeds` [copies, n] are those of the first n episodes of each copy. Returns observations."""
        rows, _ = self._envs.reset(options=None if seeds is None else {"seeds": seeds})
        start = self._rows(rows).start.copy()
        if not np.isfinite(start).all():
            self._refuse("an observation that is not finite")
        return start

    def begin_step(self, actions: np.ndarray) -> None:
        """Send actions [copies]; `end_step` gets the result."""
        if self.processes:
            self._envs.step_async(actions.reshape(self.processes, self.each))
        else:
            self._actions = actions

    def end_step(self) -> Rows:
        """The result of the step, also as `rows` [copies, width]; arrays are valid until the next step begins."""
        rows = self._envs.step_wait()[0] if self.processes else self._envs.step(self._actions)[0]
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

    def _rows(self, rows: np.ndarray) -> Rows:
        return self.host.columns.split(rows.reshape(self.count, self.host.columns.width))

    def _refuse(self, fault: str) -> None:
        """Raise an error in the words of the environment, or with this fault."""
        failures = self._envs.get_attr("failure") if self.processes else [self._envs.failure]
        words = next((failure for failure in failures if failure), f"returned {fault}")
        raise EnvironmentFailed(f"the environment '{self.host.name}' {words}")


def _fault(rows: Rows) -> str:
    """What is wrong with some rows."""
    kinds = {"next_obs": "an observation", "reward": "a reward", "cost": "a cost", "extra": "a vector reward"}
    for name, kind in kinds.items():
        if not np.isfinite(getattr(rows, name)).all():
            return f"{kind} that is not finite"
    if (rows.cost < 0).any():
        return f"the cost {rows.cost.min():g}; costs must be at least 0"
    return "an observation that is not finite after a reset"


class Probe(NamedTuple):
    """What some steps of random actions showed."""

    observation_space: spaces.Space
    actions: int
    first: int  # number of the first action
    reward: Any  # of the first step
    infos: dict[str, Any]  # every key of `info`, with its first value
    step: tuple[Any, Any, Any, Any, Any]  # the arguments of cost functions in the first step
    seconds: float  # of one step


def probe(make: MakeEnv, name: str) -> Probe:
    """Take some steps; raises in one line if the environment cannot be used."""
    env = make()
    try:
        actions = _require_discrete(env, name)
        observation_space = _require_flat(env.observation_space, name)
        rng, first = np.random.default_rng(0), int(getattr(env.action_space, "start", 0))
        before, info = env.reset(seed=0)
        infos, step, reward = dict(info), None, 0.0
        taken, began = 0, time.perf_counter()
        while taken < PROBE_STEPS and time.perf_counter() - began < PROBE_SECONDS:
            action = int(rng.integers(actions)) + first
            obs, reward, terminated, truncated, info = env.step(action)
            step = step or (before, action, obs, reward, info)
            infos, taken, before = {**info, **infos}, taken + 1, obs
            if terminated or truncated:
                before, _ = env.reset()
        assert step
        return Probe(observation_space, actions, first, step[3], infos, step, (time.perf_counter() - began) / taken)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the environment '{name}' cannot be used: its first steps raised {type(error).__name__}: {error}"
        ) from error
    finally:
        env.close()


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
            "and Dict and Tuple of these: drop the others by a wrapper, and pass a function that makes the environment"
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
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.values() if isinstance(space, spaces.Dict) else space
        return next(filter(None, map(_not_flat, parts)), None)
    try:
        flat = space.is_np_flattenable
    except NotImplementedError:  # a space of the environment's own
        flat = False
    return None if flat else type(space).__name__


def from_gymnasium(
    env: str | Callable[..., gymnasium.Env],
    *,
    reward: int | str | Sequence[int | str] | None = None,
    cost: Any = None,
    cost_entries: Sequence[int | str] = (),
    success: Any = None,
    env_args: Mapping[str, Any] | None = None,
    time_limit: int | None = None,
    name: str | None = None,
) -> Environment:
    """A Gymnasium environment: a registered id, module:Id, or a function that makes one.

    `reward` names the entries of a vector reward that are added up ("-2": minus entry 2). A cost is a function of
    (obs, action, next_obs, reward, info), a key of `info`, or an entry of the vector reward (`cost_entries`); several
    are possible. Without any, `info["cost"]` or `info["costs"]` is used if there is one; `cost=()` means no costs.
    Success is a function or a key of `info`; without it, `info["is_success"]` or `info["success"]`, if there is one.
    """
    title = name or (env if isinstance(env, str) else getattr(env, "__name__", "environment").strip("<>"))
    make = partial(_make, env, dict(env_args or {}), time_limit, title)
    seen = probe(make, title)
    labelling = _labelling(seen, title, reward, cost, cost_entries, success)
    names, places = _cost_names(labelling, seen, title)
    labelling = labelling._replace(places=places)
    space = seen.observation_space
    columns = Columns(spaces.flatdim(space), len(names), labelling.extras)
    host = Host(title, make, labelling, columns, seen)
    defaults = collect_defaults([*labelling.costs, *([labelling.success] if labelling.success else [])])
    low, high = bounds(space)
    return Environment(
        name=title,
        spec=Spec(
            observations=columns.observations,
            actions=seen.actions,
            costs=columns.costs,
            low=low,
            high=high,
            success=labelling.success is not None,
            scaled=True,
            extras=columns.extras,
        ),
        reset=_on_host,
        step=_on_host,
        settings={
            "gymnasium": env if isinstance(env, str) else None,
            "env_args": dict(env_args or {}),
            "time_limit": time_limit,
            "reward": None if labelling.reward is None else [list(entry) for entry in labelling.reward],
            "costs": [dict(function.about) for function in labelling.costs],
            "success_function": dict(labelling.success.about) if labelling.success else None,
        },
        to_json=lambda task: {"args": args_to_json(task.params)},
        from_json=partial(_args_from_json, defaults),
        relabel_all=partial(_relabel, host, space),
        params=defaults,
        cost_names=names,
        with_args=with_args,
        host=host,
    )


def _on_host(*args: Any) -> Any:
    raise UserError("this environment runs on the host; it has no compiled reset and step")


def _make(
    env: str | Callable[..., gymnasium.Env], env_args: dict[str, Any], time_limit: int | None, title: str
) -> gymnasium.Env:
    try:
        if isinstance(env, str):
            _register(env)
            return gymnasium.make(env, max_episode_steps=time_limit, disable_env_checker=True, **env_args)
        made = env(**env_args)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise UserError(
            f"the environment '{title}' cannot be made: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(made, gymnasium.Env):
        raise UserError(f"the function '{title}' returned {type(made).__name__}; return a gymnasium.Env")
    return gymnasium.wrappers.TimeLimit(made, time_limit) if time_limit else made


def _register(env: str) -> None:
    """Import the packages of Farama that register environments when they are imported, if this id is not known yet."""
    if ":" in env or env in gymnasium.registry:
        return
    for package in PACKAGES:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(package)
            if package == "highway_env":
                gymnasium.register_envs(module)
        if env in gymnasium.registry:
            return


def _labelling(
    seen: Probe, title: str, reward: Any, cost: Any, cost_entries: Sequence[int | str], success: Any
) -> Labelling:
    size = np.size(seen.reward)
    extras = 0 if np.ndim(seen.reward) == 0 else size
    if extras and reward is None:
        raise UserError(
            f"the environment '{title}' has a vector reward with {size} entries; say which is the reward, such as "
            "reward=0 (--reward-entries 0), and which are costs"
        )
    entries = [reward] if isinstance(reward, int | str) else list(reward or ())
    chosen, priced = ([parse_entry(entry) for entry in some] for some in (entries, cost_entries))
    for entry, _ in (*chosen, *priced):
        if entry >= extras:
            there = f"entries 0 … {extras - 1}" if extras else "one number, not a vector"
            raise UserError(f"entry {entry} of the reward of '{title}': its reward has {there}")
    costs = [from_reward(*entry) for entry in priced] + _sources(cost, seen, title)
    if cost is None and not costs:
        costs = [from_info(key) for key in ("cost", "costs") if key in seen.infos][:1]
    if success is None:
        success = next((key for key in ("is_success", "success") if key in seen.infos), None)
    found = _sources(success, seen, title)
    return Labelling(tuple(chosen) if extras else None, tuple(costs), _lenient(found[0]) if found else None, extras)


def _sources(given: Any, seen: Probe, title: str) -> list[StepFunction]:
    """Functions from functions, keys of `info`, or a sequence of these."""
    if given is None:
        return []
    if isinstance(given, str):
        if given not in seen.infos:
            if not seen.infos:
                raise UserError(f"the environment '{title}' has an empty info, without '{given}'; give a function")
            raise unknown(f"entry of the info of '{title}'", given, seen.infos)
        return [from_info(given)]
    if callable(given):
        return [own_function(given)]
    return [function for one in given for function in _sources(one, seen, title)]


def _lenient(success: StepFunction) -> StepFunction:
    """Success from `info` is False where `info` does not have it: many environments give it at the end only."""
    key = success.about.get("info")
    if key is None:
        return success
    return success._replace(call=lambda obs, action, next_obs, reward, info: info.get(key, False))


def _cost_names(labelling: Labelling, seen: Probe, title: str) -> tuple[tuple[str, ...], tuple[int | slice, ...]]:
    """The names of all costs, and the places of each function's costs.

    If a function returns several costs, they get the names in `info`, or numbers.
    """
    names: list[str] = []
    places: list[int | slice] = []
    for function in labelling.costs:
        try:
            found = function(*seen.step, function.defaults)
        except Exception as error:
            raise UserError(
                f"the cost function '{function.name}' raised {type(error).__name__}: {error} in the first step of "
                f"'{title}'"
            ) from error
        if isinstance(found, Mapping):
            names += [str(key) for key in found]
            places.append(slice(len(names) - len(found), len(names)))
            continue
        try:
            values = np.asarray(found, np.float64)
        except (TypeError, ValueError):
            raise UserError(f"the cost function '{function.name}' returned {found!r}; return a number") from None
        if values.ndim > 1 or (values < 0).any() or not np.isfinite(values).all():
            raise UserError(
                f"the cost function '{function.name}' returned {found!r}; return a finite number of at least 0, or a "
                "vector of them"
            )
        place = len(names)
        places.append(place if values.ndim == 0 else slice(place, place + values.size))
        names += [function.name] if values.ndim == 0 else [f"{function.name}[{n}]" for n in range(values.size)]
    if len(set(names)) < len(names):
        names = [f"{name} {n + 1}" for n, name in enumerate(names)]
    return tuple(names), tuple(places)


def bounds(space: spaces.Space) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Lower and upper bound of each flattened observation; infinite where there is none."""
    flat = spaces.flatten_space(space)
    assert isinstance(flat, spaces.Box)
    low, high = np.asarray(flat.low, np.float64).ravel(), np.asarray(flat.high, np.float64).ravel()
    fixed = low >= high  # an observation that never changes
    free = (np.abs(low) > ENDLESS) | (np.abs(high) > ENDLESS)
    low, high = np.where(free, -np.inf, low), np.where(free, np.inf, np.where(fixed, low + 1, high))
    return tuple(low.tolist()), tuple(high.tolist())


def _args_from_json(defaults: Args, task: str, data: dict[str, Any]) -> Args:
    del task
    known = {name: value for name, value in data.get("args", {}).items() if name in defaults}
    return with_args(defaults, known)


def _relabel(host: Host, space: spaces.Space, steps: Transition, args: PyTree) -> Transition:
    try:
        return host.relabel(steps, args, space)
    except NeedsInfo as error:
        names = ", ".join(f"'{function.name}'" for function in host.labelling.costs)
        raise UserError(
            f"stored steps cannot get the costs of {names}: the function {error}; write it as a function of "
            "observations, action and reward"
        ) from None
    except Exception as error:
        raise UserError(f"a cost function raised {type(error).__name__}: {error} for a stored step") from error
