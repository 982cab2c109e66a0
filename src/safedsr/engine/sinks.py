"""Where the rows of progress.csv go besides: TensorBoard, Weights & Biases. Imported only if they are asked for."""

import contextlib
import importlib.util
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from safedsr.errors import UserError
from safedsr.runs.job import Job
from safedsr.runs.progress import ProgressFile, Row

WHERE = ("environment", "seed", "step")  # columns that say what a row is about


class Sink(Protocol):
    """Takes the rows of a chunk."""

    def write(self, rows: Sequence[Row]) -> None: ...


class TensorBoard:
    """Event files in RUN/tensorboard, a folder for each task and seed, so that TensorBoard draws them together."""

    def __init__(self, folder: Path, job: Job) -> None:
        from tensorboard.summary import Writer

        self._open: Callable[[str], Any] = lambda lane: Writer(str(folder / "tensorboard" / lane))
        self._writers: dict[str, Any] = {}

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            lane = re.sub(r"[^\w.]+", "-", f"{row['environment']} seed {row['seed']}")
            writer = self._writers.setdefault(lane, None) or self._open(lane)
            self._writers[lane] = writer
            for name, value in _numbers(row).items():
                writer.add_scalar(name, value, row["step"])
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class WeightsAndBiases:
    """One run of Weights & Biases, with the settings of the job; WANDB_MODE=offline keeps it on this machine."""

    def __init__(self, folder: Path, job: Job) -> None:
        import wandb
        from wandb.errors import Error

        self._several = job.lanes > 1
        try:
            self._run = wandb.init(
                project="safedsr", name=folder.resolve().name, dir=str(folder), config=_plain(job.to_dict())
            )
        except (Error, OSError) as error:
            raise UserError(
                f"Weights & Biases cannot start: {error}; log in with 'wandb login', or set WANDB_MODE=offline"
            ) from error

    def write(self, rows: Sequence[Row]) -> None:
        data: dict[str, float] = {}
        for row in rows:
            lane = f"{row['environment']}/seed {row['seed']}/" if self._several else ""
            data |= {lane + name: value for name, value in _numbers(row).items()}
        self._run.log(data, step=int(rows[0]["step"]))

    def close(self) -> None:
        self._run.finish()


SINKS: dict[str, tuple[str, type]] = {"tensorboard": ("tensorboard", TensorBoard), "wandb": ("wandb", WeightsAndBiases)}


def check_sinks(names: Sequence[str]) -> None:
    """Raise if the package of a sink is not installed."""
    for name in names:
        package = SINKS[name][0]
        if importlib.util.find_spec(package) is None:
            raise UserError(f"log is '{name}', which needs the package {package}: pip install 'safedsr[{name}]'")


@contextlib.contextmanager
def open_sinks(folder: Path, job: Job, step: int) -> Iterator[Callable[[Sequence[Row]], None]]:
    """A function that writes rows to progress.csv and to all sinks of the job; the training continues at `step`."""
    with contextlib.ExitStack() as stack:
        sinks: list[Sink] = [ProgressFile(folder, step)]
        for name in job.train.log:
            sinks.append(stack.enter_context(contextlib.closing(SINKS[name][1](folder, job))))

        def write(rows: Sequence[Row]) -> None:
            for sink in sinks:
                sink.write(rows)

        yield write


def _numbers(row: Row) -> dict[str, float]:
    """The numbers of a row that are known."""
    return {name: float(value) for name, value in row.items() if name not in WHERE and not math.isnan(value)}


def _plain(value: Any) -> Any:
    """Settings without tuples, as JSON has them."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
