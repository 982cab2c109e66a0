"""Works in processes of this computer, which divide its GPUs or its cores."""

import concurrent.futures
import importlib.util
import os
import queue
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safedsr.core.capacity import free_memory
from safedsr.engine.lanes import cores
from safedsr.sweep.base import LOGS
from safedsr.sweep.worker import Outcome, Work, finish_in_process, stop

MIB = 2**20


class Local:
    """Processes on this computer: one for each GPU if JAX can use them, else as many as cores, which they divide."""

    def __init__(self, out: Path, count: int, workers: int | None = None, each: int | None = None) -> None:
        self._logs = out / LOGS
        gpus = gpus_here()
        most = workers or (len(gpus) or (cores() // each if each else cores()))
        self.workers = max(min(most, count), 1)
        self.cores = each or max(cores() // self.workers, 1)
        self._slots: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
        for i in range(self.workers):
            self._slots.put(_on_gpu(gpus[i % len(gpus)][0], sharing(self.workers, len(gpus))) if gpus else {})
        self._pool = concurrent.futures.ThreadPoolExecutor(self.workers)
        self._futures: dict[concurrent.futures.Future[Outcome], str] = {}
        self._running: set[subprocess.Popen] = set()

    def start(self, works: Sequence[Work]) -> None:
        for work in works:
            self._futures[self._pool.submit(self._finish, work)] = work.name

    def _finish(self, work: Work) -> Outcome:
        slot = self._slots.get()
        mine: list[subprocess.Popen] = []

        def started(process: subprocess.Popen) -> None:
            self._running.difference_update(mine)
            mine.append(process)
            self._running.add(process)

        try:
            return finish_in_process(work, self.cores, slot, self._logs / f"{work.name}.log", started)
        finally:
            self._running.difference_update(mine)
            self._slots.put(slot)

    def finished(self, seconds: float) -> list[tuple[str, Outcome]]:
        ended, _ = concurrent.futures.wait(self._futures, seconds, concurrent.futures.FIRST_COMPLETED)
        return [(self._futures.pop(one), one.result()) for one in ended]

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            stop(process, told=True)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def gpus_here() -> list[tuple[str, int]]:
    """Number and free bytes of each GPU that JAX on this computer can use."""
    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin")
    if os.environ.get("JAX_PLATFORMS", "cuda") == "cpu" or not any(map(importlib.util.find_spec, plugins)):
        return []
    query = ["nvidia-smi", "--query-gpu=index,memory.free", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
    found = [(index.strip(), int(free) * MIB) for index, free in (line.split(",") for line in lines)]
    chosen: Any = os.environ.get("CUDA_VISIBLE_DEVICES")
    return found if chosen is None else [one for one in found if one[0] in chosen.split(",")]


def sharing(workers: int, gpus: int) -> int:
    """How many processes share a GPU."""
    return -(-workers // gpus)


def _on_gpu(number: str, processes: int) -> dict[str, str]:
    """Environment variables of a process on a GPU, where JAX would take three quarters of the memory for itself."""
    share = {} if processes == 1 else {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.75 / processes:.3f}"}
    return {"CUDA_VISIBLE_DEVICES": number, **share}


def memory_each(workers: int) -> float | None:
    """Bytes that one of the processes on this computer may use: that of a GPU, or a share of the free memory."""
    if gpus := gpus_here():
        return 0.7 * min(free for _, free in gpus) / sharing(workers, len(gpus))
    free = free_memory()
    return None if free is None else 0.8 * free / workers
