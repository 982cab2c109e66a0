"""The monitor: rarely a false alarm, however often one looks; an alarm when the certificate no longer holds."""

import ast
import math

import numpy as np
import pytest
from scipy.stats import binom

from safedsr.field import monitor as module
from safedsr.field.monitor import Monitor


def alarm_after(rate: float, true: float, alpha: float, episodes: int, rng: np.random.Generator) -> int | None:
    """The episode after which the monitor of a budget of 1 says that the certificate no longer holds, or None."""
    monitor = Monitor([1.0], rate, alpha)
    for number, over in enumerate(rng.random(episodes) < true, 1):
        if not monitor.episode([2.0 if over else 0.5]):
            return number
    return None


@pytest.mark.parametrize("rate", [0.003, 0.05, 0.3])
def test_false_alarms_are_as_rare_as_alpha_says(rate):
    """Looked at after each of 1 000 episodes, at the largest share that the certificate allows."""
    rng, alpha, runs = np.random.default_rng(1), 0.1, 500
    alarms = sum(alarm_after(rate, rate, alpha, 1000, rng) is not None for _ in range(runs))
    assert alarms <= binom.ppf(0.999, runs, alpha)
    assert sum(alarm_after(rate, rate / 2, alpha, 1000, rng) is not None for _ in range(100)) <= 3


@pytest.mark.parametrize("rate", [1e-4, 0.02, 0.5])
def test_the_mean_wealth_is_that_of_a_fair_bet(rate):
    for n in (1, 7, 300):
        monitor, mean = Monitor([1.0], rate), 0.0
        for k in range(n + 1):
            monitor.episodes, monitor.violations = n, k
            mean += math.exp(binom.logpmf(k, n, rate) + monitor.evidence)
        assert math.isclose(mean, 1.0, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("rate", "true", "soon"), [(0.0003, 1.0, 2), (0.01, 0.05, 400), (0.05, 0.15, 200), (0.1, 0.3, 100)]
)
def test_a_share_that_is_too_large_is_noticed_soon(rate, true, soon):
    rng = np.random.default_rng(2)
    found = [alarm_after(rate, true, 0.01, 2000, rng) or 2000 for _ in range(50)]
    assert np.median(found) <= soon and max(found) < 2000


def test_steps_become_episodes():
    certificate = {"passed": True, "budgets": [1.0, 2.0], "violation": {"value": 0.0, "bound": 0.001}}
    monitor = Monitor.of(certificate)
    assert monitor.step([0.5, 1], False) and monitor.step(np.array([0.5, 1.0]), True)  # at the budgets
    assert (monitor.episodes, monitor.violations) == (1, 0)
    monitor.step([0.0, 1.0], False)
    monitor.step([0.0, 1.5], True)
    assert (monitor.episodes, monitor.violations, monitor.cost) == (2, 1, [0.0, 0.0])
    one = Monitor([0.3], 0.001)
    for last in (False, False, True):
        one.step(0.1, last)  # 0.1 + 0.1 + 0.1 > 0.3, by rounding alone
    assert one.violations == 0
    with pytest.raises(ValueError, match="this certificate did not pass"):
        Monitor.of({**certificate, "passed": False})


def test_an_alarm_stays():
    monitor = Monitor([0.0], 0.001)
    for _ in range(5):
        monitor.episode([1.0])
    assert not monitor.holds and not any(monitor.episode([0.0]) for _ in range(5000)) and monitor.evidence < 0


def test_much_evidence_does_not_overflow():
    monitor = Monitor([0.0], 1e-6)
    for _ in range(300):
        monitor.episode([1.0])
    assert not monitor.holds and 3000 < monitor.evidence < 5000


@pytest.mark.parametrize(("rate", "alpha"), [(0.0, 0.01), (1.0, 0.01), (0.1, 0.0)])
def test_shares_that_say_nothing_are_refused(rate, alpha):
    with pytest.raises(ValueError, match="give shares between 0 and 1"):
        Monitor([1.0], rate, alpha)


def test_the_monitor_imports_nothing_but_math():
    with open(module.__file__, encoding="utf-8") as file:
        found = [node for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in found] == ["import math"]
