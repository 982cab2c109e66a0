"""Works on a Ray cluster: plain tasks, without Tune. A task whose worker or node dies is done again elsewhere."""

import hashlib
import io
import logging
import os
import re
import shutil
import signal
import socket
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, TaskCancelledError

from safedsr.engine import lanes
from safedsr.errors import Refusal, UserError
from safedsr.runs import storage
from safedsr.runs.folder import STATES
from safedsr.sweep.base import LOGS, Where
from safedsr.sweep.worker import DONE, FAILED, SAVING, STOPPED, Outcome, Work, finish_in_process
from safedsr.validation import require

SILENCE = 30.0  # seconds without an answer of the head after which the cluster counts as gone
Answer = tuple[Outcome, bytes | None]  # the run folder as a tar file, if there is no shared path


class OnRay:
    """Tasks of one cluster. Without an address, Ray is started on this computer and ends with the command."""

    def __init__(self, out: Path, where: Where) -> None:
        self._out, self._shared = out.absolute(), where.shared
        self._cores = where.cores or 1
        self._names: dict[Any, str] = {}
        source = os.environ.get("PYTHONPATH")
        how: dict[str, Any] = {"runtime_env": {"env_vars": {"PYTHONPATH": source}}} if source else {}
        _connect(where.address)
        need = {"num_cpus": self._cores, "num_gpus": where.gpus or 0}
        self._task = ray.remote(max_retries=-1, **need, **how)(finish_on_node)
        self._head: str = ray.get_runtime_context().gcs_address
        self._heard = time.monotonic()

    def start(self, works: Sequence[Work]) -> None:
        for work in works:
            ref = self._task.remote(work, self._cores, str(self._out), self._shared)
            self._names[ref] = work.name

    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        ended, _ = ray.wait(list(self._names), num_returns=1, timeout=seconds) if self._names else ([], [])
        if ended or answers(self._head):
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > SILENCE:  # Ray itself would end this process after a minute
            raise Refusal(
                f"the head of the Ray cluster ({self._head}) no longer answers; runs save when their nodes end; start "
                "the cluster again, then the same command continues"
            )
        return [(name := self._names.pop(ref), self._outcome(ref, name)) for ref in ended]

    def _outcome(self, ref: Any, name: str) -> Outcome:
        try:
            outcome, content = ray.get(ref)
        except TaskCancelledError:
            return Outcome(STOPPED, "stopped")
        except RayError as error:
            return Outcome(FAILED, f"Ray: {str(error).strip().splitlines()[-1]}")
        if content is not None:
            unpack(content, self._out / name)
        return outcome

    def stop(self) -> None:
        for ref in self._names:
            ray.cancel(ref)
        if self._names:
            ray.wait(list(self._names), num_returns=len(self._names), timeout=SAVING)

    def close(self) -> None:
        ray.shutdown()


def _connect(address: str | None) -> None:
    """Connect to a cluster, or start Ray on this computer if there is no address."""
    if address is None:
        ray.init(num_cpus=lanes.cores(), log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR)
        return
    named = address == "auto"
    fine = named or re.fullmatch(r"[^:/]+:\d+", address) is not None
    require(fine, "address", address, "give auto, or HOST:PORT of the head")
    try:
        if not named and not answers(address):  # Ray would try for minutes
            raise ConnectionError("nothing listens there")
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        cure = "start one with 'ray start --head', or leave --address out"
        raise UserError(f"no Ray cluster at '{address}': {error}; {cure}") from None


def answers(address: str) -> bool:
    """Whether something listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError):  # the latter for a port above 65535
        return False
    return True


def finish_on_node(work: Work, cores: int, out: str, shared: bool) -> Answer:
    """Finish a work on a node, in the shared folder, or in a local one that is sent back."""
    # Ray cancels a task by SIGINT, which it would not notice if the cluster was started by nohup or in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if shared:
        return finish_in_process(work, cores, {}, Path(out) / LOGS / f"{work.name}.log"), None
    place = Path(tempfile.gettempdir()) / f"safedsr-{hashlib.sha256(out.encode()).hexdigest()[:12]}" / work.name
    outcome = finish_in_process(replace(work, folder=str(place)), cores, {}, place.with_suffix(".log"))
    if outcome.state != DONE:
        return outcome, None
    content = pack(place)
    shutil.rmtree(place)
    return outcome, content


def pack(folder: Path) -> bytes:
    """A finished run folder as bytes, without its checkpoint."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            archive.add(folder, ".", filter=lambda entry: None if f"/{STATES}/" in f"{entry.name}/" else entry)
        return file.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    """Write what `pack` packed as a new folder; it appears complete or not at all."""
    storage.make_folder(folder.parent)
    with storage.disk(folder), tempfile.TemporaryDirectory(dir=folder.parent, prefix=".incoming-") as place:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(place, filter="data")
        Path(place).rename(folder)
        Path(place).mkdir()  # for the clean-up
