"""Tiny sweeps: a corridor of three cells, and an agent small enough for it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiny import same_trees

from safedsr.runs import storage
from safedsr.sweep.plan import Planned, Sweep, begin, plan
from safedsr.sweep.run import Board
from safedsr.sweep.worker import Outcome

TINY: dict[str, Any] = {
    **{"batch_size": 8, "buffer_size": 40, "train_start": 20, "train_every": 5, "sync_every": 20, "hidden": [8]},
    **{"epsilon_end": 0.2, "epsilon_from": 20, "epsilon_to": 100, "penalty_start": 60, "lam_lr": 0.0625},
    **{"steps": 160, "chunk": 20, "checkpoint_seconds": 0, "time_limit": 12},
}

LONG = {"steps": 4000}  # 200 checkpoints: long enough to be killed in the middle, on a busy machine too


def tiny_sweep(layout: str, changes: dict[str, Any] | None = None, **more: Any) -> Sweep:
    """A sweep of SafeDQN over two learning rates."""
    usual: dict[str, Any] = {"vary": {"learning_rate": [0.001, 0.01]}, "seeds": 2, "budget": ("1",)}
    given = {**usual, **more}
    settings = {name: value for name, value in {**TINY, **(changes or {})}.items() if name not in given["vary"]}
    return Sweep(algos=("safedqn",), layout=(layout,), set=settings, **given)


def begun(sweep: Sweep, out: Path) -> list[Planned]:
    """The runs of a sweep whose sweep.json is written."""
    planned = plan(sweep)
    begin(sweep, planned, out)
    return planned


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def same_results(one: Path, other: Path) -> bool:
    """Whether two run folders hold the same policies and episodes, bit for bit."""
    policies = [storage.read_tensors(folder / "policy.safetensors")[0] for folder in (one, other)]
    tables = [storage.read_table(folder / "episodes") for folder in (one, other)]
    assert tables[0] and tables[1]
    return same_trees(*policies) and same_trees(tables[0][0], tables[1][0])


class Seen:
    """Keeps what a sweep shows."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, Outcome]] = []
        self.boards: list[Board] = []

    def ended(self, name: str, outcome: Outcome, seconds: float) -> None:
        """Keep it."""
        self.ends.append((name, outcome))

    def update(self, board: Board) -> None:
        """Keep it."""
        self.boards.append(board)
