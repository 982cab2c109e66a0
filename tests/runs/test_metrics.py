import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import slow_window_mean
from scipy import stats

from safedsr.errors import UserError
from safedsr.runs.config import DISCOUNTED_MEAN, Terms
from safedsr.runs.metrics import (
    Episodes,
    best_place,
    excess,
    goal_count,
    interpolate,
    iqm,
    last,
    over_seeds,
    safe,
    safe_goal_count,
    summarize,
    support,
    window_mean,
)


def episodes(end_step, cost=None, success=None, ret=None) -> Episodes:
    count = len(end_step)
    return Episodes(
        end_step=np.array(end_step, np.int64),
        length=np.diff(np.array([0, *end_step])),
        ret=np.zeros(count) if ret is None else np.array(ret, np.float64),
        cost=np.zeros((count, 1)) if cost is None else np.array(cost, np.float64).reshape(count, -1),
        success=np.ones(count, bool) if success is None else np.array(success, bool),
    )


def trend(runs, value, total, **options) -> np.ndarray:
    """A metric over training: interpolated, averaged over seeds at each point, then over the trailing window."""
    series = [interpolate(run.end_step, value(run).astype(np.float64), total) for run in runs]
    return window_mean(over_seeds(np.stack(series), **options))


# Rows of the paper's tables whose printed statistics leave only one set of ten counts (even ones for the costs of the
# baselines); mean, standard deviation, 25 %, IQM, 75 %.
@pytest.mark.parametrize(
    ("values", "printed"),
    [
        ([18] * 7 + [20] * 3, "18.6 1.0 18.0 18.3 19.5"),  # cost, one room: RCPO, TRPO-Lag
        ([18] * 8 + [20] * 2, "18.4 0.8 18.0 18.0 18.0"),  # cost, one room: PPO-Lag
        ([0, 0, 2, 2, 2, 8, 10, 12, 14, 14], "6.4 5.8 2.0 6.0 11.5"),  # cost, one room: CPO
        ([0, 0, 0, 2, 2, 4, 10, 10, 12, 12], "5.2 5.2 0.5 4.7 10.0"),  # cost, one room: CPPO-PID
        ([0, 0, 2, 6, 8, 8, 8, 10, 10, 12], "6.4 4.3 3.0 7.0 9.5"),  # cost, one room: IPO
        ([0] * 7 + [2, 4, 8], "1.4 2.7 0.0 0.3 1.5"),  # cost, one room: TRPO-PID
        ([0] * 9 + [2], "0.2 0.6 0.0 0.0 0.0"),  # cost, one room: P3O
        ([0] * 6 + [4, 10, 12, 26], "5.2 8.6 0.0 2.3 8.5"),  # cost, two rooms: CPO
        ([0] * 7 + [2, 6, 32], "4.0 10.0 0.0 0.3 1.5"),  # cost, two rooms: OnCRPO
        ([0, 0, 0, 0, 0, 0, 2, 14, 18, 24], "5.8 9.2 0.0 2.7 11.0"),  # cost, three rooms: IPO
        ([0, 0, 0, 0, 1, 1, 2, 2, 7, 7], "2.0 2.7 0.0 1.0 2.0"),  # goals, three rooms: P3O
        ([0, 0, 0, 0, 0, 1, 1, 2, 3, 4], "1.1 1.4 0.0 0.7 1.8"),  # safe goals, two rooms: P3O
        ([0, 0, 0, 2, 2, 2, 4, 8, 12, 27], "5.7 8.4 0.5 3.0 7.0"),  # safe goals, two rooms: PDO
        ([0] * 7 + [1, 5, 22], "2.8 6.9 0.0 0.2 0.8"),  # safe goals, three rooms: SafeDQN
    ],
)
def test_printed_rows_of_the_paper(values, printed):
    found = summarize(np.random.default_rng(0).permutation(values))
    assert " ".join(f"{value:.1f}" for value in found[:5]) == printed
    assert min(values) <= found.low <= found.iqm <= found.high <= max(values)


@given(values=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30))
def test_iqm_drops_a_quarter_at_either_end(values):
    cut = len(values) // 4
    kept = sorted(values)[cut : len(values) - cut]
    assert iqm(np.array(values)) == pytest.approx(np.mean(kept), abs=1e-9)


def test_iqm_along_an_axis():
    values = np.array([[1.0, 2.0, 3.0, 100.0], [5.0, 5.0, 7.0, 7.0]])
    np.testing.assert_allclose(iqm(values, axis=1), [2.5, 6])
    np.testing.assert_allclose(iqm(values), [3, 3.5, 5, 53.5])


def test_interval_of_equal_values_is_a_point():
    assert summarize([4.0] * 10)[:] == (4.0, 0.0, 4.0, 4.0, 4.0, 4.0, 4.0)
    assert summarize([4.0])[:] == (4.0, 0.0, 4.0, 4.0, 4.0, 4.0, 4.0)


def test_interval_covers_about_what_it_should():
    """The IQM of a normal sample spreads a little more than its mean: the interval is as wide as theory says."""
    values = stats.norm(100, 10).rvs(200, random_state=1)
    found = summarize(values)
    assert found.low < found.iqm < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * 10 * np.sqrt(1.19 / 200), rel=0.15)
    assert summarize(values) == found
    assert summarize(values, seed=1)[5:] != found[5:]


def test_nothing_to_summarise():
    with pytest.raises(UserError, match="no values to summarise"):
        summarize([])


def test_safe_goals_keep_every_budget():
    run = episodes(
        [10, 20, 30, 40, 50],
        cost=[[5, 1], [5.5, 0], [0, 2.5], [0, 0], [4, 2]],
        success=[True, True, True, False, True],
    )
    np.testing.assert_array_equal(safe(run, (5, 2)), [True, False, False, False, True])
    assert goal_count(run) == 4
    assert safe_goal_count(run, (5, 2)) == 2
    assert safe_goal_count(run, (6, 3)) == 4
    assert safe_goal_count(run, (0, 0)) == 0


def test_without_costs_every_goal_is_safe():
    run = episodes([1, 2, 3], cost=np.zeros((3, 0)), success=[True, False, True])
    assert safe_goal_count(run, ()) == 2


def test_budgets_and_costs_must_match():
    with pytest.raises(UserError, match="2 budgets for 1 costs; give one per cost"):
        safe(episodes([1]), (5, 5))


def test_interpolation():
    np.testing.assert_array_equal(support(1100), [200, 400, 600, 800, 1000])
    found = interpolate(np.array([300, 700]), np.array([1.0, 3.0]), 1100)
    np.testing.assert_allclose(found, [np.nan, 1.5, 2.5, 3, 3])
    np.testing.assert_array_equal(interpolate(np.array([]), np.array([]), 600), [np.nan] * 3)


@given(
    series=st.lists(st.floats(-100, 100) | st.just(float("nan")), min_size=1, max_size=40),
    points=st.integers(1, 45),
)
def test_window_mean_is_that_of_a_plain_loop(series, points):
    found = window_mean(np.array(series), points * 200)
    np.testing.assert_allclose(found, slow_window_mean(np.array(series), points), atol=1e-9)


def test_a_window_smaller_than_a_point_changes_nothing():
    np.testing.assert_array_equal(window_mean(np.array([1.0, 5.0, 2.0]), 10), [1, 5, 2])


def test_window_mean_of_several_series_on_another_grid():
    series = np.array([[1.0, 3.0, 8.0], [np.nan, 4.0, 0.0]])
    np.testing.assert_allclose(window_mean(series, 4_000, 2_000), [[1, 2, 5.5], [np.nan, 4, 2]])


def test_trend_of_seeds_that_begin_late():
    early, late, never = episodes([200, 400, 600], ret=[1, 2, 3]), episodes([400], ret=[10]), episodes([])
    found = trend([early, late, never], lambda run: run.ret, 600, robust=False)
    averages = [1, (2 + 10) / 2, (3 + 10) / 2]
    np.testing.assert_allclose(found, [averages[0], np.mean(averages[:2]), np.mean(averages)])
    np.testing.assert_array_equal(trend([never], lambda run: run.ret, 600), [np.nan] * 3)


def test_trend_averages_by_iqm_over_the_seeds_that_have_a_value():
    runs = [episodes([200], ret=[value]) for value in (1.0, 2.0, 4.0, 100.0)] + [episodes([400], ret=[8.0])]
    found = trend(runs, lambda run: run.ret, 400)
    first, second = 3.0, (2 + 4 + 8) / 3
    np.testing.assert_allclose(found, [first, (first + second) / 2])
    plain = trend(runs, lambda run: run.ret, 400, robust=False)
    np.testing.assert_allclose(plain, [26.75, (26.75 + 23) / 2])


def test_trend_looks_back_over_a_window():
    steps = np.arange(200, 40_001, 200)
    found = trend([episodes(steps, ret=steps)], lambda run: run.ret, 40_000)
    assert found[-1] == pytest.approx(np.mean(steps[-100:]))
    assert found[49] == pytest.approx(np.mean(steps[:50]))


def test_last_value_of_each_seed_that_has_one():
    runs = [episodes([5, 9], ret=[1, 2]), episodes([]), episodes([7], ret=[4])]
    np.testing.assert_array_equal(last(runs, lambda run: run.ret), [2, 4])


def late(ret, cost, end_step=(100, 800, 900, 1000)) -> Episodes:
    """Episodes whose first one is long past, with the best return of all and no cost."""
    return episodes(end_step, cost=[0.0, *cost], ret=[99.0, *ret])


GOALLESS, ON_MEAN = Terms(success=False), Terms(budget_kind=DISCOUNTED_MEAN)


def test_without_goals_the_best_of_the_safest_seeds_has_most_return():
    """Short episodes are more in number, and that is no merit."""
    idle = late([0, 0, 0], [0, 0, 0])
    good = late([8, 9, 10], [1, 1, 1])
    wild = late([20, 20, 20], [9, 9, 0])
    many = episodes(np.arange(10, 1001, 10))
    assert best_place([idle, good, wild, many], (5,), GOALLESS) == 1
    assert best_place([idle, good, wild, many], (5,)) == 3  # as on the grid: most safe goals
    nearly = episodes(np.arange(760, 1001, 10), cost=[9] + [0] * 24, ret=[11] * 25)  # 24 of 25 are safe
    assert best_place([good, nearly], (5,), GOALLESS) == 1
    rather = nearly._replace(cost=np.array([9.0, 9.0] + [0.0] * 23)[:, None])
    assert best_place([good, rather], (5,), GOALLESS) == 0
    assert best_place([wild, late([1, 1, 1], [9, 9, 9])], (5,), GOALLESS) == 0


def test_a_seed_without_late_episodes_is_judged_by_its_last():
    early, none = episodes([100, 200], ret=[0, 7]), episodes([])
    assert best_place([none, late([1, 1, 1], [0, 0, 0]), early], (5,), GOALLESS) == 2
    assert best_place([none, none], (5,), GOALLESS) == 0


def test_budgets_of_the_mean_come_before_the_return():
    within, above = late([1, 1, 1], [2, 9, 4]), late([5, 5, 5], [2, 9, 5])
    assert best_place([above, within], (5,), ON_MEAN) == 1
    assert best_place([above, within], (5.5,), ON_MEAN) == 0
    assert best_place([above, within], (0.5,), ON_MEAN) == 1  # nearer to the budget
    assert excess(np.array([2.0, 7.0, 1.5]), (1, 5, 2)) == 3.0 and excess(np.zeros(0), ()) == 0.0
