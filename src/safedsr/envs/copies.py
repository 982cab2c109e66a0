"""A Gymnasium environment on the host, and copies of it, in this process or divided among several."""

import contextlib
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from safedsr.envs.batch import Batch, Columns, Labelling, MakeEnv, Rows
from safedsr.envs.functions import Args, NoInfo, plain_args
from safedsr.errors import EnvironmentFailed, UserError
from safedsr.types import Transition


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
        nothing = NoInfo()
        for n, (obs, action, next_obs, reward) in enumerate(
            zip(
                np.asarray(steps.obs),
                np.asarray(steps.action),
                np.asarray(steps.next_obs),
                np.asarray(steps.extra if self.columns.extras else steps.reward),
                strict=True,
            )
        ):
            step = restore(obs), int(action) + self.first, restore(next_obs), reward, nothing
            for _, function, at, several in functions:
                cost[n, at] = several(function(*step)) if several else function(*step)
            nothing.require_unused()
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
