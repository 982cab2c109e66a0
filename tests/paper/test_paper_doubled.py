from pathlib import Path

import numpy as np
import pytest

from safedsr.paper.doubled import BASELINES, CONDITIONS, misfit, misfits
from safedsr.paper.tables import STEPS, reported
from safedsr.runs.results import HALVED, Result


def result(name, costs, goals, safe, halved):
    counts = {"goal count": goals, "safe goal count": safe, HALVED: halved}
    counts = {key: np.array(value, float) for key, value in counts.items()}
    nothing = np.zeros(0)
    about = (Path(name), name, name, "one-room", (costs,), (5.0,), (0, 1), STEPS)
    return Result(*about, counts, nothing, {}, None, {}, {})


def means(name):
    cells = [reported(key, "one-room", name) for key in ("goal_count_costs", "safe_goal_count_costs")]
    return [cell.mean for cell in cells if cell]


def made_results():
    """Every baseline as in the paper, if safety is counted at half the budget; the two seeds are equal."""
    found = []
    for name in BASELINES:
        goals, safe = means(name)
        found.append(result(name, "diamond", [goals] * 2, [2 * safe] * 2, [safe] * 2))
        found.append(result(name, "2*diamond", [goals / 2] * 2, [safe] * 2, [safe] * 2))
    return found


def test_the_condition_that_was_built_in_is_found():
    found = misfits(made_results()) or {}
    once = len(BASELINES) * np.log(2)
    assert list(found) == list(CONDITIONS)
    np.testing.assert_allclose([f.value for f in found.values()], [once, 0, once], atol=1e-6)
    np.testing.assert_allclose([f.best for f in found.values()], [0, 1, 0])
    for one in found.values():
        assert one.low == pytest.approx(one.value) == one.high  # seeds are equal: nothing to draw


def test_seeds_that_differ_give_an_interval():
    results = made_results()
    goals = results[0].counts["goal count"]
    results[0].counts["goal count"] = goals * [0.5, 1.5]
    found = (misfits(results) or {})["cost 1, safety counted at 2"]
    assert found.value == pytest.approx(0, abs=1e-6)
    assert found.low == pytest.approx(0, abs=1e-6) and found.high == pytest.approx(np.log(2), rel=1e-6)


def test_without_all_baselines_nothing_is_said():
    assert misfits(made_results()[1:]) is None
    assert misfits([]) is None


def test_misfit_by_hand():
    goals, safe = means("cpo")
    assert misfit({"cpo": np.array([3 * goals, safe / 3])}) == pytest.approx(2 * np.log(3))
    assert misfit({"cpo": np.array([goals, 0.0])}) == pytest.approx(np.log(safe))
