"""Strictness for every test, and the few fixtures that several files share."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings
from tiny import tiny_job

from safedsr.engine.train import train
from safedsr.envs.grid.layout import Scene
from safedsr.envs.grid.text import parse_scene

jax.config.update("jax_numpy_rank_promotion", "raise")
# XLA's older code generator compiles twice as fast; this holds for the processes that tests start too.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"
# The first example of a shape compiles, and machines differ: time is no ground to fail.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def compile_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What was compiled once is found again: by later tests, by the processes they start, by the other worker."""
    place = tmp_path_factory.getbasetemp()
    cache = {
        "jax_compilation_cache_dir": str((place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "compiled"),
        "jax_compilation_cache_max_size": 2**32,  # with a limit, JAX locks the folder
        "jax_persistent_cache_min_compile_time_secs": 0.1,
    }
    for name, value in cache.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


@contextlib.contextmanager
def quick_compilation() -> Iterator[None]:
    """Programs compile three times as fast and run slower, here and in the processes that are started.

    A program that this process has compiled in the other way is forgotten: it may round differently.
    """
    before = jax.config.read("jax_disable_most_optimizations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        _optimize(False)
        yield
    _optimize(not before)


def _optimize(optimized: bool) -> None:
    if jax.config.read("jax_disable_most_optimizations") == optimized:
        jax.clear_caches()
        jax.config.update("jax_disable_most_optimizations", not optimized)


@pytest.fixture(scope="module")
def compile_quickly() -> Iterator[None]:
    """For modules that compile much and run little."""
    with quick_compilation():
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the folder of a tiny finished run of an agent, to read or to copy."""
    done: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in done:
            with quick_compilation():
                done[name] = train(tiny_job(name, trajectories=40), tmp_path_factory.mktemp(name))
        return done[name]

    return folder


@pytest.fixture
def write_map(tmp_path: Path) -> Callable[..., str]:
    """Writes a text file and gives its path."""

    def write(text: str, name: str = "map.txt") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def corridor() -> Scene:
    """Five cells in a row, the middle one with a cost of 1."""
    return parse_scene("S.C.G", "corridor")
