"""Gymnasium environments on the host: their spaces, labels, copies and errors."""

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from climber import Climber, Purse, slippery
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from safedsr.envs.copies import Copies
from safedsr.envs.environment import make_task
from safedsr.envs.host import from_gymnasium
from safedsr.envs.registry import environment_to_dict, stored_params
from safedsr.errors import EnvironmentFailed, UserError
from safedsr.types import Transition


def walk(environment, actions, processes=0, seeds=None):
    """The rows of all steps [steps, copies, …] of copies that get the same actions."""
    count = len(actions[0])
    found = []
    with Copies(environment.host, [environment.params] * count, processes) as copies:
        start = copies.reset(np.arange(count)[:, None] if seeds is None else seeds)
        for chosen in actions:
            copies.begin_step(np.asarray(chosen))
            rows = copies.end_step()
            found.append([np.array(part) for part in rows])
    return start, [np.stack(parts) for parts in zip(*found, strict=True)]


@pytest.mark.filterwarnings("ignore::UserWarning")  # unbounded observations, a vector reward
@pytest.mark.parametrize("make", [Climber])
def test_the_test_environments_pass_gymnasiums_checker(make):
    check_env(make(), skip_render_check=True)


def test_cartpole_steps_as_gymnasium_does_alone():
    environment = from_gymnasium("CartPole-v1")
    alone = gymnasium.make("CartPole-v1")
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=(100, 1))
    start, (next_obs, _, _, _, reward, terminated, _, following) = walk(environment, actions, seeds=np.array([[7]]))
    obs, _ = alone.reset(seed=7)
    np.testing.assert_array_equal(start[0], obs)
    for n, (action,) in enumerate(actions):
        obs, gain, ended, _, _ = alone.step(action)
        np.testing.assert_array_equal(next_obs[n, 0], obs)
        assert (reward[n, 0], terminated[n, 0]) == (gain, ended)
        if ended:
            obs, _ = alone.reset()
        np.testing.assert_array_equal(following[n, 0], obs)
    assert terminated.sum() >= 2


def test_copies_in_processes_give_the_same_rows():
    environment = from_gymnasium("CartPole-v1", cost=lambda obs, action, next_obs, reward, info, low=0.0: obs[0] > low)
    actions = np.random.default_rng(1).integers(2, size=(40, 4))
    for one, other in zip(walk(environment, actions)[1], walk(environment, actions, processes=2)[1], strict=True):
        np.testing.assert_array_equal(one, other)


def test_parameters_of_a_cost_function_change_while_the_copies_run():
    environment = from_gymnasium(Climber, cost=slippery)
    assert environment.cost_names == ("slippery",)
    for processes in (0, 1):
        with Copies(environment.host, [environment.params] * 2, processes) as copies:
            copies.reset()
            copies.begin_step(np.array([2, 1]))
            assert copies.end_step().cost.ravel().tolist() == [1.0, 0.0]
            copies.set_args([make_task(environment, 5, {"stair": 2}).params] * 2)
            copies.begin_step(np.array([2, 2]))
            assert copies.end_step().cost.ravel().tolist() == [1.0, 0.0]


def test_cost_and_success_are_found_in_info():
    environment = from_gymnasium(Climber)
    assert environment.cost_names == ("cost",)
    assert environment.spec.success
    _, (_, cost, _, success, _, terminated, *_) = walk(environment, [[2]] * 5)
    assert cost.ravel().tolist() == [0, 0, 0, 1, 0]
    assert success.ravel().tolist() == terminated.ravel().tolist() == [False, False, False, True, False]
    assert from_gymnasium(Climber, cost=()).spec.costs == 0


class Bumps(Climber):
    """Says a cost only in the steps that have one: two kinds of cost at the top."""

    def step(self, action: Any):
        *step, info = super().step(action)
        return *step, {"costs": {"bump": 2.0, "scratch": 1.0}} if info["cost"] else {}


def test_a_cost_that_info_lacks_in_some_steps_is_0_there():
    environment = from_gymnasium(Bumps)
    assert environment.cost_names == ("bump", "scratch")
    _, (_, cost, *_) = walk(environment, [[2]] * 5)
    assert cost[:, 0].tolist() == [[0, 0], [0, 0], [0, 0], [2, 1], [0, 0]]


def test_cost_functions_get_plain_numbers_and_lists_as_arrays():
    kinds = []

    def watched(obs, action, next_obs, reward, info, low=1.5, corners=(0.0, 1.0)):
        kinds.append((type(low), type(corners), low))
        return 0.0

    environment = from_gymnasium(Climber, cost=watched)
    walk(environment, [[1]] * 2)
    assert kinds == [(float, np.ndarray, 1.5)] * 3  # the first is the one that finds the name of the cost


def test_without_success_every_end_of_an_episode_counts():
    environment = from_gymnasium("CartPole-v1")
    assert not environment.spec.success
    _, (_, _, _, success, _, terminated, *_) = walk(environment, [[1]] * 30)
    np.testing.assert_array_equal(success, terminated)


def test_a_vector_reward_is_divided_and_stored():
    environment = from_gymnasium(Purse, reward=0, cost_entries=["-1"], cost=lambda o, a, n, r, i: r[2])
    assert environment.cost_names == ("-reward[1]", "lambda")
    assert environment.spec.extras == 3
    _, (_, cost, extra, _, reward, *_) = walk(environment, [[1], [0]])
    assert reward.ravel().tolist() == [1.0, 0.0]
    np.testing.assert_allclose(cost[:, 0], [[0.5, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(extra[:, 0], [[1, -0.5, 1], [0, 0, 1]])


def test_several_entries_are_added_up():
    environment = from_gymnasium(Purse, reward=["0", "-1"])
    assert walk(environment, [[1]])[1][4].item() == 1.5
    assert environment.spec.costs == 0


def test_observations_are_flattened_with_their_bounds():
    spec = from_gymnasium(Purse, reward=0).spec
    assert spec.observations == 7
    low, high = spec.bounds
    assert low[:5] == (0.0,) * 5 and high[:5] == (1.0,) * 5
    assert math.isinf(low[5]) and math.isinf(high[6])
    start, _ = walk(from_gymnasium(Purse, reward=0), [[1]])
    assert start[0, :5].tolist() == [1, 0, 0, 0, 0]


def test_stored_steps_get_the_costs_that_the_function_gave_them():
    environment = from_gymnasium(Purse, reward=0, cost=lambda o, a, n, r, i, price=2.0: -price * r[1] + n["place"])
    start, (next_obs, cost, extra, _, reward, *_, following) = walk(environment, [[1], [0], [1]])
    obs = np.concatenate([start[None], following])[:3, 0]
    action = np.array([1, 0, 1])
    parts: Any = obs, action, reward[:, 0], np.zeros((3, 1)), next_obs[:, 0], np.zeros(3), extra[:, 0]
    steps = Transition(*parts)
    assert environment.relabel_all
    np.testing.assert_array_equal(environment.relabel_all(steps, environment.params).cost, cost[:, 0])
    dearer = environment.relabel_all(steps, make_task(environment, 5, {"price": 4}).params)
    np.testing.assert_allclose(dearer.cost[:, 0], [3.0, 2.0, 5.0])


def test_a_cost_from_info_cannot_be_given_to_stored_steps():
    environment = from_gymnasium(Climber)
    parts: Any = np.zeros((1, 5)), np.zeros(1, int), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 5)), np.zeros(1)
    steps = Transition(*parts)
    assert environment.relabel_all
    with pytest.raises(UserError, match="uses 'info'"):
        environment.relabel_all(steps, environment.params)


def test_a_function_that_catches_the_refusal_of_info_is_refused_too():
    def cost(obs, action, next_obs, reward, info):
        try:
            return info["cost"]
        except Exception:
            return 0.0

    environment = from_gymnasium(Climber, cost=cost)
    parts: Any = np.zeros((1, 5)), np.zeros(1, int), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 5)), np.zeros(1)
    assert environment.relabel_all
    with pytest.raises(UserError, match="uses 'info'"):
        environment.relabel_all(Transition(*parts), environment.params)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cost_entries": 1.5}, r"cost_entries is 1\.5; give the number of an entry"),
        ({"reward": 1.5}, r"reward is 1\.5; give the number of an entry"),
        ({"time_limit": "long"}, "time_limit is 'long'; give a whole number"),
        ({"env_args": 3}, "env_args is 3; give arguments by name"),
    ],
)
def test_arguments_of_a_wrong_kind_are_explained(given, message):
    with pytest.raises(UserError, match=message):
        from_gymnasium(Purse, **{"reward": 0, **given})


@pytest.mark.parametrize("entry", [-1, "-1", [-1]])
def test_one_entry_needs_no_list(entry):
    assert from_gymnasium(Purse, reward=0, cost_entries=entry).cost_names == ("-reward[1]",)


def test_an_id_that_a_missing_package_may_have_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("safedsr.envs.making.PACKAGES", ("not_installed",))
    with pytest.raises(UserError, match=r"if it is of not_installed: pip install 'safedsr\[envs\]'"):
        from_gymnasium("nowhere-v0")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "raised RuntimeError: the stairs are closed"),
        ("obs", "an observation that is not finite"),
        ("reward", "a reward that is not finite"),
        ("cost", "the cost -1; costs must be at least 0"),
        ("shape", "its function 'cost' returned several numbers"),
    ],
)
@pytest.mark.parametrize("processes", [0, 1])
def test_an_environment_that_fails_says_so_in_its_words(how, words, processes):
    environment = from_gymnasium(lambda: Climber(fails=250, how=how, limit=1000), name="stairs")
    with pytest.raises(EnvironmentFailed, match=words):
        walk(environment, [[1]] * 260, processes)


class Priced(Climber):
    """Its `info` has several costs, `given` after the first step."""

    def __init__(self, given: Any, first: Any) -> None:
        super().__init__()
        self.given, self.first = given, first

    def step(self, action: Any):
        *step, _ = super().step(action)
        return *step, {"costs": self.first if self.taken == 1 else self.given}


def costs_of(given: Any, first: Any) -> list[list[float]]:
    """The costs of two steps."""
    environment = from_gymnasium(lambda: Priced(given, first), name="priced")
    return walk(environment, [[1], [1]])[1][1][:, 0].tolist()


@pytest.mark.parametrize(
    ("given", "first", "found"),
    [
        ({"b": 0, "a": 7}, {"a": 1, "b": 2}, [[1, 2], [7, 0]]),
        ({"b": 5}, {"a": 1, "b": 2}, [[1, 2], [0, 5]]),
        ([3, 4], [1, 2], [[1, 2], [3, 4]]),
    ],
)
def test_costs_in_info_are_found_by_name_or_by_place(given, first, found):
    assert costs_of(given, first) == found


@pytest.mark.parametrize(
    ("given", "first", "words"),
    [
        (1.0, [0, 2], "1.0 are not 2 costs"),
        ([9.0], [0, 2], r"\[9.0\] are not 2 costs"),
        ([1, 2, 3], [0, 2], "are not 2 costs"),
        ({"a": 1, "c": 2}, {"a": 1, "b": 2}, "not costs with the names a, b"),
        ([1, 2], {"a": 1, "b": 2}, "not costs with the names a, b"),
    ],
)
def test_costs_that_are_not_those_of_the_first_steps_are_refused(given, first, words):
    with pytest.raises(EnvironmentFailed, match=f"its function 'costs' raised ValueError: .*{words}"):
        costs_of(given, first)


def test_stored_steps_refuse_another_number_of_costs():
    environment = from_gymnasium(Climber, cost=lambda o, a, n, r, i, few=0.0: [1.0, 2.0] if few == 0 else [few])
    parts: Any = np.zeros((1, 5)), np.zeros(1, int), np.zeros(1), np.zeros((1, 2)), np.zeros((1, 5)), np.zeros(1)
    assert environment.relabel_all
    with pytest.raises(UserError, match="are not 2 costs"):
        environment.relabel_all(Transition(*parts), {"few": np.float32(3)})


def test_steps_without_costs_in_info_cost_nothing():
    class Rare(Climber):
        """Has costs in its first step only."""

        def step(self, action: Any):
            *step, _ = super().step(action)
            return *step, {"costs": [1.0, 2.0]} if self.taken == 1 else {}

    assert walk(from_gymnasium(Rare), [[1], [1]])[1][1][:, 0].tolist() == [[1, 2], [0, 0]]


def test_a_function_that_fails_is_named():
    def late(obs, action, next_obs, reward, info, after=0.0):
        return 1.0 if after == 0 else {}["what"]

    def also_late(obs, action, next_obs, reward, info, after=0.0):
        return True if after == 0 else 1 / 0

    cases: Any = ({"cost": late}, "function 'late' raised KeyError"), ({"success": also_late}, "ZeroDivision")
    for given, words in cases:
        environment = from_gymnasium(Climber, **given)
        with Copies(environment.host, [{"after": np.ones((), np.float32)}]) as copies:
            copies.reset()
            copies.begin_step(np.array([1]))
            with pytest.raises(EnvironmentFailed, match=words):
                copies.end_step()
    with pytest.raises(UserError, match="the success function 'lambda' raised ZeroDivisionError"):
        from_gymnasium(Climber, success=lambda *step: 1 / 0)


class Continuous(Climber):
    """Not possible: continuous actions."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1, 1, (2,))  # type: ignore[assignment]


class Several(Climber):
    """Not possible: several actions at once."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiDiscrete([2, 3])  # type: ignore[assignment]


class Large(Climber):
    """Not possible: too many observations."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (96, 96, 3), np.uint8)


class Written(Climber):
    """Not possible: observations of varying length."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Sequence(spaces.Discrete(3))  # type: ignore[assignment]


def negative(obs, action, next_obs, reward, info):
    return -1.0


def broken(obs, action, next_obs, reward, info):
    return info["fuel"]


@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        ("CartPole-v9", {}, "cannot be made"),
        ("Nowhere-v0", {}, "cannot be made"),
        ("no_such_module:Env-v0", {}, "cannot be made"),
        ("CartPole-v1", {"env_args": {"colour": 3}}, "cannot be made"),
        (lambda: 3, {}, "return a gymnasium.Env"),
        (Continuous, {}, "possible are Discrete actions"),
        (Several, {}, "MultiDiscrete actions; possible are Discrete actions"),
        (Large, {}, "possible are 1 to 4096"),
        (Written, {}, "possible are Box, Discrete"),
        (Purse, {}, "a vector reward with 3 entries"),
        (Purse, {"reward": 3}, "entries 0 … 2"),
        (Purse, {"reward": 0, "cost_entries": ["fuel"]}, "give its number"),
        ("CartPole-v1", {"cost_entries": [0]}, "one number, not a vector"),
        ("CartPole-v1", {"cost": "fuel"}, "empty info"),
        (Climber, {"cost": "costs"}, "did you mean 'cost'"),
        ("CartPole-v1", {"cost": negative}, "finite number of at least 0"),
        ("CartPole-v1", {"cost": broken}, "raised KeyError"),
        ("CartPole-v1", {"cost": lambda obs: 1.0}, "it must take obs, action, next_obs, reward, info"),
    ],
)
def test_what_is_not_possible_is_said_in_one_line(env, settings, words):
    with pytest.raises(UserError, match=words) as found:
        from_gymnasium(env, **settings)
    assert "\n" not in str(found.value)


def test_arguments_that_are_arrays_are_stored_as_lists():
    environment = from_gymnasium(lambda start: Climber(), env_args={"start": np.arange(3)}, name="climber")
    assert environment.settings["env_args"] == {"start": [0, 1, 2]}
    with pytest.raises(UserError, match="argument 'start' is of type object, which a run folder cannot store"):
        from_gymnasium(lambda start: Climber(), env_args={"start": object()}, name="climber")


class InPlace(gymnasium.Env):
    """Changes the array that it returned before; every step adds 1."""

    observation_space, action_space = spaces.Box(-100, 100, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.zeros(1, np.float32)
        return self.state, {}

    def step(self, action):
        self.state += 1
        return self.state, 0.0, False, bool(self.state[0] >= 3), {}


class InPlaceView(InPlace):
    """Returns a new view of the same memory each time."""

    def step(self, action):
        _, *rest = super().step(action)
        return self.state[:], *rest


class InPlaceDict(InPlace):
    """Returns a new dict with the same array each time."""

    observation_space = spaces.Dict({"place": spaces.Box(-100, 100, (1,))})

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return {"place": obs}, info

    def step(self, action):
        obs, *rest = super().step(action)
        return {"place": obs}, *rest


@pytest.mark.parametrize("make", [InPlaceView, InPlaceDict])
def test_parts_of_an_observation_that_change_in_place_are_kept(make):
    def moved(obs, action, next_obs, reward, info):
        before, after = (one["place"] if isinstance(one, dict) else one for one in (obs, next_obs))
        return abs(after[0] - before[0])

    np.testing.assert_array_equal(walk(from_gymnasium(make, cost=moved), [[0]] * 5)[1][1][:, 0, 0], np.ones(5))


def test_an_observation_that_changes_in_place_is_kept():
    def moved(obs, action, next_obs, reward, info):
        return abs(next_obs[0] - obs[0])

    environment = from_gymnasium(InPlace, cost=moved)
    _, rows = walk(environment, [[0]] * 5)
    np.testing.assert_array_equal(rows[1][:, 0, 0], np.ones(5))


def test_success_may_be_named_before_it_is_seen():
    environment = from_gymnasium("CartPole-v1", success="is_success")
    assert environment.spec.success


def test_an_environment_whose_making_fails_in_any_way_is_refused():
    with pytest.raises(UserError, match="cannot be made: KeyError"):
        from_gymnasium("FrozenLake-v1", env_args={"map_name": "9x9"})


@pytest.mark.parametrize(
    ("make", "how", "words"),
    [
        (Climber(), {}, r"env is an object of type Climber; give an id, or a function that makes it: lambda: Climber"),
        ("CartPole-v1", {"time_limit": -1}, "time_limit is -1; give a whole number of at least 1"),
        ("CartPole-v1", {"cost": 5}, r"5 is no function of a step .* cost_entries=\[5\]"),
        (lambda: Odd(np.full(5, np.nan, np.float32)), {}, "an observation that is not finite in its first steps"),
        (lambda: Odd(np.zeros(4, np.float32)), {}, r"an observation of shape \(4,\); its observation_space has \(5,\)"),
    ],
)
def test_what_cannot_work_is_said_before_training(make, how, words):
    with pytest.raises(UserError, match=words):
        from_gymnasium(make, **how)


class Odd(Climber):
    """Returns the same odd observation in every step."""

    def __init__(self, obs: np.ndarray) -> None:
        super().__init__()
        self.obs = obs

    def step(self, action: Any):
        return self.obs, *super().step(action)[1:]


def test_an_environment_that_ends_the_program_is_reported():
    class Leaving(Climber):
        def step(self, action: Any):
            if self.taken > 300:
                raise SystemExit(3)
            return super().step(action)

    with pytest.raises(EnvironmentFailed, match="raised SystemExit: 3"):
        walk(from_gymnasium(Leaving), [[1]] * 400)


def test_other_cost_functions_leave_the_parameters_of_success_as_they_were():
    def near(obs, action, next_obs, reward, info, edge=1.0, low=0.5):
        return low * (next_obs[0] < edge)

    def far(obs, action, next_obs, reward, info, low=0.5):
        return low * (next_obs[0] > 0)

    def there(obs, action, next_obs, reward, info, goal=10.0):
        return next_obs[0] > goal

    before, after = (from_gymnasium(Climber, cost=cost, success=there) for cost in (near, far))
    task = make_task(before, 5, {"goal": 20.0, "low": 0.25})
    assert before.to_json
    data, params = environment_to_dict(before), before.to_json(task)
    same, other = (stored_params(one, data, task.name, params) for one in (before, after))
    assert {name: float(value) for name, value in same.items()} == {"edge": 1.0, "low": 0.25, "goal": 20.0}
    assert {name: float(value) for name, value in other.items()} == {"low": 0.5, "goal": 20.0}
