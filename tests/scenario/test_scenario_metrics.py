"""The metrics of changes on a few episodes, and the sequential test on made-up costs."""

import numpy as np
import pytest

from safedsr.runs import metrics
from safedsr.runs.config import Terms
from safedsr.runs.metrics import Episodes
from safedsr.scenario import tables, target, watch

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
    fresh = np.concatenate([phi for phi, _ in chunks]), np.concatenate([cost for _, cost in chunks])
    guess = watch.predict(watch.learn(test, fresh), np.eye(10))[:, 0]
    assert guess[7] > 0.6 and guess[3] < 0.5 and guess[[0, 1, 2]].max() < 0.2


NUMBERS = ("violations", "excess", "regret", "steps_until", "seconds_until", "updates_until", "alarms", "near")
NUMBERS += ("real_steps", "simulated_steps", "memory_steps", "updates", "relabelled")


def made_up(contestant, told=True, violations=10, regret=10.0, steps=100, near=True):
    """Ten results with one change; the seeds differ a little."""
    phase = dict.fromkeys(NUMBERS, 0.0) | {"told": told, "episodes": 50, "safe": 40, "start": 0, "change": "costs"}
    later = {"regret": regret, "steps_until": steps, "near": near, "excess": 2.0 * violations}
    made = {"safedsr": "1", "commit": None, "jax": "0", "device": "cpu", "matmul": "float32", "settings_sha256": "0"}
    return [
        {"scenario": "s", "quick": False, "contestant": contestant, "seed": seed, "goals": True, "made": made}
        | {"phases": [phase | {"violations": 3}, phase | later | {"violations": violations + seed % 2}]}
        for seed in range(10)
    ]


def judged(*many):
    return target.verdicts([one for ones in many for one in ones])


def test_the_aim_where_changes_are_announced():
    own, oracle = made_up("safedsr-plus", violations=5, regret=5.0), made_up("oracle", violations=0, regret=0.0)
    others = made_up("safedqn"), made_up("ppo-lag", violations=9), oracle, made_up("a-guest", violations=1)
    assert judged(own, *others) == [("s", True, 2, 1, ())]
    assert judged(own, *others, made_up("cpo", violations=5))[0][1::3] == (False, ("cpo (violations)",))
    assert judged(own, made_up("safedqn-restart", regret=4.0))[0][1::3] == (False, ("safedqn-restart (regret)",))
    assert judged(own, oracle) == []
    text = target.report_text([*own, *others[0]])
    assert "| s | yes | 1 | 1 | – |" in text and "| safedqn | 3 / 0 |" in text


def test_the_aim_where_changes_are_silent():
    names = ("cpo", "safedsr-plus", "safedqn")
    some = [made_up(name, told=False, violations=n, regret=n) for n, name in enumerate(names)]
    assert judged(*some)[0][:4] == ("s", True, 2, 2)
    assert judged(*some, made_up("ppo-lag", told=False, violations=0, regret=0.5))[0][:4] == ("s", False, 3, 3)


def test_tables_count_changes_after_which_nothing_comes_near():
    results = [*made_up("safedqn", steps=100)[:5], *made_up("safedqn", steps=1_000, near=False)[5:]]
    (row,) = tables.rows(results)
    assert row.steps_until == 550 and row.near == 0.5
    assert (row.violations.mean, row.violations_in_all) == (10.5, 13.5)
    text = tables.table_text(results)
    assert "| safedqn | 3 / 0 | 11 / 20 |" in text and "made with safedsr 1, jax 0, cpu, float32: 10 results" in text
