"""Fixtures of the tests of sweeps."""

from pathlib import Path

import pytest
from sweeps import LONG, tiny_sweep

from safedsr.sweep.finish import finish
from safedsr.sweep.plan import plan


@pytest.fixture
def corridor_map(write_map) -> str:
    """A map of three cells."""
    return write_map("SCG", "corridor.txt")


@pytest.fixture(scope="session")
def by_hand(tmp_path_factory: pytest.TempPathFactory, compile_once: None) -> dict[float, Path]:
    """The long runs of a tiny sweep, trained undisturbed in this process, by their learning rates."""
    place = tmp_path_factory.mktemp("hand")
    (place / "corridor.txt").write_text("SCG")
    with pytest.MonkeyPatch.context():
        found = {}
        for one in plan(tiny_sweep(str(place / "corridor.txt"), LONG)):
            finish(one.job, place / one.name)
            found[one.settings["learning_rate"]] = place / one.name
    return found
