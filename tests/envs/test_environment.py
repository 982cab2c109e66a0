"""What an environment of one's own has to return, and what is said if it does not."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stairs import LIMIT, make_stairs, reset, stairs_task, step

from safedsr.envs import episode
from safedsr.envs.environment import Spec, check_environment, stack_arrays
from safedsr.errors import UserError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observations": 0}, "observations is 0; give a whole number of at least 1"),
        ({"costs": -1}, "costs is -1; give a whole number of at least 0"),
        ({"low": (0.0,), "high": (1.0,)}, r"low is \(0.0,\); give 2 numbers, or None"),
        ({"low": (0, 0), "high": (1, float("nan"))}, r"high is \(1, nan\); give 2 numbers, or None"),
        ({"low": (0, 0)}, r"low, high is \(\(0.0, 0.0\), None\); give both or neither"),
        ({"low": (0, 2), "high": (1, 1)}, r"low, high is \(2.0, 1.0\); each lower bound must be below its upper bound"),
        ({"reward_range": (1,)}, r"reward_range is \(1,\); give 2 finite numbers"),
        ({"time_limit": 0}, "time_limit is 0; give at least 1 and at most 2147483647, or None"),
        ({"action_names": ("a",)}, r"action_names is \('a',\); give 3 names, or none"),
    ],
)
def test_a_spec_says_what_is_wrong(changes, message):
    with pytest.raises(UserError, match=f"^{message}"):
        Spec(**{"observations": 2, "actions": 3, "costs": 1, **changes})


def test_bounds_may_be_arrays_and_a_spec_stays_hashable():
    spec = Spec(2, 3, 1, low=np.zeros(2), high=[1, 2])  # type: ignore[arg-type]
    assert spec.high == (1.0, 2.0) and hash(spec) == hash(Spec(2, 3, 1, low=(0.0, 0.0), high=(1.0, 2.0)))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "cost",
            jnp.zeros(()),
            r"step's cost has shape \[\], and its Spec says 5 observations and 1 costs: return \[1\]",
        ),
        ("cost", jnp.zeros(2), r"step's cost has shape \[2\]"),
        ("obs", jnp.zeros(4), r"step's obs has shape \[4\]"),
        ("reward", jnp.zeros(1), r"step's reward has shape \[1\], .*: return \[\]"),
        ("success", jnp.zeros(3, bool), r"step's success has shape \[3\]"),
    ],
)
def test_a_step_of_another_shape_is_named(field, value, message):
    def strange(key, state, action, params):
        after, out = step(key, state, action, params)
        return after, out._replace(**{field: value})

    wrong = dataclasses.replace(make_stairs(1), step=strange)
    with pytest.raises(UserError, match=f"^the environment 'stairs': {message}"):
        check_environment(wrong, stairs_task(1).params)


def test_a_reset_of_another_shape_or_state_is_named():
    params = stairs_task(1).params
    short = dataclasses.replace(make_stairs(1), reset=lambda key, params: (reset(key, params)[0], jnp.zeros(3)))
    with pytest.raises(UserError, match=r"^the environment 'stairs': reset's obs has shape \[3\]"):
        check_environment(short, params)

    def other_state(key, state, action, params):
        after, out = step(key, state, action, params)
        return after._replace(stair=after.stair.astype(jnp.float32)), out

    with pytest.raises(
        UserError, match=r"^the environment 'stairs': reset and step return states of different structure"
    ):
        check_environment(dataclasses.replace(make_stairs(1), step=other_state), params)
    check_environment(make_stairs(1), params)


def test_the_time_limit_of_the_spec_truncates_and_plain_flags_will_do():
    def plain(key, state, action, params):
        after, out = step(key, state, action, params)
        return after, out._replace(truncated=False)

    environment, params = dataclasses.replace(make_stairs(1), step=plain), stairs_task(1).params
    running = episode.start(environment, jax.random.key(0), params)
    for time in range(1, LIMIT + 1):
        running, moment = episode.step(environment, jax.random.key(time), running, jnp.int32(1), params)
        assert (bool(moment.step.truncated), bool(moment.done)) == (time == LIMIT,) * 2
    assert running.time == LIMIT and not moment.step.terminated


def test_parameters_of_different_shapes_do_not_stack():
    with pytest.raises(UserError, match=r"^the parameters of the tasks have different shapes"):
        stack_arrays([stairs_task(1).params, stairs_task(2).params])
    assert stack_arrays([(), ()]) == ()


def walk(actions, environment=None, **how):
    """The last moment of an episode on the stairs."""
    environment, params = environment or make_stairs(2), stairs_task(2).params
    running = episode.start(environment, jax.random.key(0), params)
    for action in actions:
        running, moment = episode.step(environment, jax.random.key(0), running, jnp.int32(action), params, **how)
    return moment


def test_costs_may_be_discounted():
    """Wait, then four stairs up: the first is slippery, the second and the third are noisy."""
    np.testing.assert_allclose(walk([1, 2, 2, 2, 2]).cost, [1, 2])
    np.testing.assert_allclose(walk([1, 2, 2, 2, 2], discount=0.5).cost, [0.5, 0.25 + 0.125])
    np.testing.assert_allclose(walk([2, 2], discount=0.0).cost, [1, 0])


def test_without_a_discount_nothing_more_is_computed():
    environment, params = make_stairs(1), stairs_task(1).params
    running = episode.start(environment, jax.random.key(0), params)

    def traced(**how):
        step = partial(episode.step, environment, jax.random.key(0), action=jnp.int32(2), params=params, **how)
        return str(jax.make_jaxpr(lambda running: step(episode=running))(running))

    assert traced() == traced(discount=1.0) and " pow " not in traced() and " pow " in traced(discount=0.9)


def test_without_a_goal_every_end_is_a_success():
    """Also an end by the time limit, of which `step` knows nothing."""
    goalless = make_stairs(2, success=False)
    for actions, done in (([1] * (LIMIT - 1), False), ([1] * LIMIT, True), ([2] * 4, True)):
        moment = walk(actions, goalless)
        assert bool(moment.done) is bool(moment.step.success) is done
    assert not walk([1] * LIMIT).step.success
