"""Fixtures of the tests of sweeps."""

from pathlib import Path

import jax
import pytest
from sweeps import LONG, tiny_sweep

from safedsr.sweep.finish import finish
from safedsr.sweep.plan import plan


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny runs are over soon: who wants to disturb them must look often."""
    monkeypatch.setattr("safedsr.sweep.run.TICK", 0.05)


@pytest.fixture
def corridor_map(write_map) -> str:
    """A map of three cells."""
    return write_map("SCG", "corridor.txt")


@pytest.fixture(scope="session")
def by_hand(tmp_path_factory: pytest.TempPathFactory, compile_once: None) -> dict[float, Path]:
    """The long runs of a tiny sweep, trained undisturbed in this process, by their learning rates."""
    place = tmp_path_factory.mktemp("hand")
    (place / "corridor.txt").write_text("SCG")
    found = {}
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)  # as in `compile_quickly`, for the same bits
    for one in plan(tiny_sweep(str(place / "corridor.txt"), LONG)):
        finish(one.job, place / one.name)
        found[one.settings["learning_rate"]] = place / one.name
    jax.config.update("jax_disable_most_optimizations", before)
    return found
