"""The metrics of changes on a few episodes, and the sequential test on made-up costs."""

import numpy as np
import pytest

from safedsr.runs import metrics
from safedsr.runs.config import Terms
from safedsr.runs.metrics import Episodes
from safedsr.scenario import watch

GOALS, RETURNS = Terms(), Terms(success=False)


def made(*rows):
    """Episodes from (end step, length, return, cost, success)."""
    end, length, ret, cost, success = map(np.array, zip(*rows, strict=True))
    return Episodes(end, length, ret.astype(float), cost.astype(np.float32)[:, None], success)


EPISODES = made((10, 10, 1, 0, True), (20, 10, 1, 7, True), (40, 20, 0, 9, False), (50, 10, 1, 5, True))


def test_the_numbers_of_a_phase():
    found = metrics.phase_of(EPISODES, 10, 50, [5.0])
    assert found == (3, 2, 6.0, 2, 1, pytest.approx(1 / 3), 10.0)
    assert metrics.phase_of(EPISODES, 50, 90, [5.0])[:3] == (0, 0, 0.0)


def test_regret_in_safe_goals_or_in_steps():
    found = metrics.phase_of(EPISODES, 0, 50, [5.0])
    oracle = metrics.PhaseNumbers(5, 0, 0.0, 5, 5, 1.0, 50.0)
    assert metrics.regret(found, oracle, 50, GOALS) == 3
    assert metrics.regret(found, oracle, 50, RETURNS) == pytest.approx(50 * (1 - 20 / 50))
    assert metrics.regret(oracle, oracle, 50, RETURNS) == 0


def test_a_cheap_episode_cannot_buy_regret():
    short = made(*((n, 1, 1, 0, True) for n in range(1, 51)))  # poles that fall at once
    oracle = metrics.PhaseNumbers(1, 0, 0.0, 1, 1, 1.0, 50 * 50.0)
    assert metrics.regret(metrics.phase_of(short, 0, 50, [5.0]), oracle, 50, RETURNS) == pytest.approx(49)


def test_steps_until_the_next_episodes_are_safe():
    late = made(*((10 * n, 10, 1, 0 if n > 30 else 9, True) for n in range(1, 101)))
    assert metrics.steps_until(late, 0, 1000, [5.0], 0.95, 100) == 300
    assert metrics.steps_until(late, 300, 1000, [5.0], 0.95, 100) == 0
    assert metrics.steps_until(late, 0, 300, [5.0], 0.95, 100) is None
    assert metrics.steps_until(late, 0, 1000, [5.0], 0.95, 40) is None  # never five episodes


def test_a_curve_judges_each_phase_by_its_budget():
    counts, fine = metrics.safe_curve(EPISODES, [20, 50], [[8.0], [5.0]], 5)
    assert counts.tolist() == [0, 1, 1, 0, 2] and fine.tolist() == [0, 1, 1, 0, 1]


def walked(rng, cost, count=200):
    """One-hot features and costs of random steps."""
    place = rng.integers(0, 10, count)
    return np.eye(10)[place], (cost[place] + 0.1 * rng.random(count))[:, None]


def test_a_change_of_costs_is_noticed_and_learnt():
    rng, before, later = np.random.default_rng(0), np.eye(10)[3], np.eye(10)[7]
    test = watch.begin(*walked(rng, before, 2000), [walked(rng, before) for _ in range(10)])
    for _ in range(50):
        test = watch.after(test, walked(rng, before))
        assert not watch.alarmed(test)
    chunks = [walked(rng, later) for _ in range(8)]
    for count, chunk in enumerate(chunks, 1):
        test = watch.after(watch.from_arrays(watch.to_arrays(test)), chunk)
        assert watch.alarmed(test) or count < 3
    assert 8 * 200 <= test.fresh <= 9 * 200
    guess = watch.predict(watch.learn(test, tuple(map(np.concatenate, zip(*chunks, strict=True)))), np.eye(10))[:, 0]
    assert guess[7] > 0.6 and guess[3] < 0.5 and guess[[0, 1, 2]].max() < 0.2
