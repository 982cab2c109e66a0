"""gymnax environments: corridors with the signatures of several versions, and gymnax itself where it is installed."""

import json
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import safedsr
from safedsr.agents.safedqn.config import SafeDqnConfig
from safedsr.cli import main
from safedsr.core.config import EpsilonSchedule, MultiplierConfig
from safedsr.engine.evaluate import evaluate
from safedsr.engine.train import train
from safedsr.envs import episode
from safedsr.envs.environment import check_environment, make_task
from safedsr.envs.functions import NeedsInfo, from_info
from safedsr.envs.gymnax import from_gymnax
from safedsr.errors import UserError
from safedsr.runs.config import TrainConfig
from safedsr.runs.job import Job
from safedsr.types import Transition

GOAL, LIMIT = 4, 8
LEFT, RIGHT = 0, 1
INF = float("inf")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """Parameters of the corridor, as gymnax has them."""

    max_steps_in_episode: int = LIMIT
    pay: float = -0.25
    wind: Any = (0, 0)  # steps that are added to left and right


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EndlessParams:
    """Parameters without a time limit."""

    pay: float = -0.25
    wind: Any = (0, 0)


class Walker(NamedTuple):
    place: Any
    time: Any


class Discrete:
    def __init__(self, n):
        self.n = n


class Box:
    def __init__(self, low, high, shape=()):
        self.low, self.high, self.shape = low, high, shape


class Corridor:
    """Five cells; an observation is [[place, -place]]. `done` of a step includes the time limit (gymnax 0.0.9)."""

    default_params = Params()

    def action_space(self, params):
        return Discrete(2)

    def observation_space(self, params):
        return Box(np.array([[0.0, -np.inf]]), np.array([[GOAL, 3e38]]), (1, 2))

    def observe(self, state, params):
        return jnp.array([[state.place, -state.place]])

    def reset_env(self, key, params):
        state = Walker(jnp.int32(0), 0)
        return self.observe(state, params), state

    def walk(self, state, action, params):
        wind = jnp.asarray(params.wind)[action]
        return Walker(jnp.clip(state.place + 2 * action - 1 + wind, 0, GOAL), state.time + 1)

    def results(self, after, params):
        reward = jnp.where(after.place == GOAL, 1, params.pay)
        return self.observe(after, params), after, reward, after.place == GOAL, {"place": after.place}

    def step_env(self, key, state, action, params):
        obs, after, reward, end, info = self.results(self.walk(state, action, params), params)
        return obs, after, reward, end | (after.time >= params.max_steps_in_episode), info


class NewCorridor(Corridor):
    """The time limit is separate (gymnax 1)."""

    def step_env(self, key, state, action, params):
        return self.results(self.walk(state, action, params), params)

    def is_truncated(self, state, params):
        return state.time >= params.max_steps_in_episode


class SixCorridor(Corridor):
    """A step has six results."""

    def step_env(self, key, state, action, params):
        obs, after, reward, end, info = self.results(self.walk(state, action, params), params)
        return obs, after, reward, end, after.time >= params.max_steps_in_episode, info


class TimedCorridor(Corridor):
    """Observations tell the time, relative to the limit."""

    def observe(self, state, params):
        return jnp.array([[state.place, state.time / params.max_steps_in_episode]])


class EndlessCorridor(Corridor):
    """There is no time limit."""

    default_params = EndlessParams()

    def step_env(self, key, state, action, params):
        return self.results(self.walk(state, action, params), params)


KINDS = [Corridor, NewCorridor, SixCorridor, TimedCorridor]


def far(obs, action, next_obs, reward, info, edge=2.0):
    return next_obs[0, 0] >= edge


def moves(obs, action, next_obs, reward, info, scale=1.0):
    return scale * jnp.array([action == LEFT, obs[0, 0] != next_obs[0, 0]])


def arrived(obs, action, next_obs, reward, info):
    return next_obs[0, 0] == GOAL


def walk(environment, actions, params=None):
    """The moments of an episode with these actions, and its observations before each."""
    params = environment.params if params is None else params
    running = jax.jit(lambda key: episode.start(environment, key, params))(jax.random.key(0))
    step = jax.jit(lambda running, action: episode.step(environment, jax.random.key(0), running, action, params))
    seen, moments = [], []
    for action in actions:
        seen.append(running.obs)
        running, moment = step(running, jnp.int32(action))
        moments.append(moment)
    return seen, moments


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_the_environment(kind):
    actions = [RIGHT, RIGHT, LEFT, RIGHT, RIGHT, RIGHT]
    environment = from_gymnax(kind(), cost=far)
    check_environment(environment, environment.params)
    seen, moments = walk(environment, actions)
    places = [1, 2, 1, 2, 3, 4]
    assert [float(moment.step.obs[0]) for moment in moments] == places
    assert [float(obs[0]) for obs in seen] == [0, *places[:-1]]
    assert [float(moment.step.reward) for moment in moments] == [-0.25] * 5 + [1.0]
    assert [float(moment.step.cost[0]) for moment in moments] == [0, 1, 0, 1, 1, 1]
    second = [n / LIMIT for n in range(1, 7)] if kind is TimedCorridor else [-place for place in places]
    assert [float(moment.step.obs[1]) for moment in moments] == second
    assert all(moment.step.obs.dtype == jnp.float32 for moment in moments)


@pytest.mark.parametrize("kind", KINDS)
def test_the_goal_terminates_and_the_time_limit_truncates(kind):
    environment = from_gymnax(kind())
    assert environment.spec.time_limit == LIMIT
    for actions, terminated in (
        ([LEFT] * LIMIT, False),
        ([RIGHT] * 4, True),
        ([LEFT] * 4 + [RIGHT] * 4, True),  # the goal is reached when the time is over
    ):
        _, moments = walk(environment, actions)
        assert [bool(moment.done) for moment in moments] == [False] * (len(actions) - 1) + [True]
        last = moments[-1].step
        assert (bool(last.terminated), bool(last.truncated)) == (terminated, not terminated)


def test_an_environment_may_have_no_time_limit():
    environment = from_gymnax(EndlessCorridor())
    assert environment.spec.time_limit is None
    _, moments = walk(environment, [LEFT] * 12 + [RIGHT] * 4)
    assert [bool(moment.done) for moment in moments] == [False] * 15 + [True]
    assert from_gymnax(Corridor(), Params(max_steps_in_episode=2**30)).spec.time_limit is None


def test_costs_and_parameters_change_without_a_new_trace():
    traces = []

    def counted(obs, action, next_obs, reward, info, edge=2.0):
        traces.append(edge)
        return next_obs[0, 0] >= edge

    environment = from_gymnax(Corridor(), cost=counted)
    step = jax.jit(environment.step)
    state, _ = environment.reset(jax.random.key(0), environment.params)
    traces.clear()
    found = []
    for edge, pay in ((2.0, -0.25), (1.0, -0.25), (0.5, -3.0)):
        params = environment.with_args(environment.params, {"edge": edge})  # type: ignore[misc]
        params = {**params, "env": replace(params["env"], pay=np.float32(pay))}
        _, out = step(jax.random.key(0), state, jnp.int32(RIGHT), params)
        found.append((float(out.cost[0]), float(out.reward)))
    assert found == [(0, -0.25), (1, -0.25), (1, -3.0)] and len(traces) == 1


def test_several_functions_and_vectors_give_several_costs():
    environment = from_gymnax(Corridor(), cost=[far, moves, from_info("place")])
    assert environment.spec.costs == 4
    assert environment.cost_names == ("far", "moves[0]", "moves[1]", "place")
    _, moments = walk(environment, [LEFT, RIGHT, RIGHT])
    assert [moment.step.cost.tolist() for moment in moments] == [[0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 2]]
    assert make_task(environment, 3).budgets == (3.0,) * 4
    assert from_gymnax(Corridor()).spec.costs == 0 and from_gymnax(Corridor()).cost_names == ()


@pytest.mark.parametrize("kind", KINDS)
def test_stored_steps_get_the_costs_that_were_seen(kind):
    environment = from_gymnax(kind(), cost=(far, moves))
    actions = np.random.default_rng(0).integers(2, size=30)
    for args in ({}, {"edge": 3.0, "scale": 0.5}):
        params = environment.with_args(environment.params, args)  # type: ignore[misc]
        seen, moments = walk(environment, actions, params)
        steps = [moment.step for moment in moments]
        stored = Transition(
            obs=jnp.stack(seen),
            action=jnp.asarray(actions, jnp.int32),
            reward=jnp.stack([step.reward for step in steps]),
            cost=jnp.full((30, 3), 9.0),
            next_obs=jnp.stack([step.obs for step in steps]),
            terminated=jnp.zeros(30),
        )
        relabel = jax.jit(jax.vmap(environment.relabel, (0, None)))  # type: ignore[arg-type]
        found = relabel(stored, params)
        assert np.array_equal(found.cost, np.stack([step.cost for step in steps])) and found.cost.any()
        assert np.array_equal(found.obs, stored.obs)


def test_stored_steps_have_no_info():
    environment = from_gymnax(Corridor(), cost=[far, from_info("place")])
    t = Transition(jnp.zeros(2), jnp.int32(0), jnp.zeros(()), jnp.zeros(2), jnp.zeros(2), jnp.zeros(()))
    with pytest.raises(
        NeedsInfo,
        match=r"^the function 'place' uses 'info', which the replay memory does not hold: stored steps cannot get "
        r"new costs$",
    ):
        environment.relabel(t, environment.params)  # type: ignore[misc]


def test_success_is_what_the_function_says():
    environment = from_gymnax(Corridor(), success=arrived)
    assert environment.spec.success
    for actions, success in (([LEFT] * LIMIT, False), ([RIGHT] * 4, True)):
        _, moments = walk(environment, actions)
        assert bool(moments[-1].step.success) == success
    environment = from_gymnax(Corridor())
    _, moments = walk(environment, [LEFT] * LIMIT)
    assert not environment.spec.success and bool(moments[-1].step.success)


def test_parameters_of_a_task_are_written_and_read():
    environment = from_gymnax(Corridor(), Params(pay=-0.1, wind=(0, 1)), cost=far)
    task = make_task(environment, 5, {"edge": 3})
    text = json.dumps(environment.to_json(task))  # type: ignore[misc]
    assert json.loads(text) == {
        "env": {"max_steps_in_episode": 8, "pay": pytest.approx(-0.1), "wind.0": 0, "wind.1": 1},
        "args": {"edge": 3.0},
    }
    again = environment.from_json("corridor", json.loads(text))  # type: ignore[misc]
    assert jax.tree.structure(again) == jax.tree.structure(task.params)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, b) and a.dtype == b.dtype, again, task.params))
    some = environment.from_json("corridor", {"env": {"pay": -2}, "args": {}})  # type: ignore[misc]
    assert some["env"].pay == -2 and some["env"].wind == (0, 1) and some["args"]["edge"] == 2
    older = environment.from_json("corridor", {"env": {}, "args": {"edge": 1.5, "gone": 4}})  # type: ignore[misc]
    assert older["args"] == {"edge": 1.5}  # the function has lost a parameter since


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, r"the parameters of the task 'a' are None; they need the parts 'env' and 'args'"),
        ({"env": {}}, r"the parameters of the task 'a' are {'env': {}}; they need the parts"),
        ({"env": {"pai": 1}, "args": {}}, r"unknown parameter of the environment 'pai'; did you mean 'pay'\?"),
        ({"env": {"pay": "x"}, "args": {}}, r"the parameter 'pay' of the environment is 'x'; give such as -0.25"),
        ({"env": {"pay": None}, "args": {}}, r"the parameter 'pay' of the environment is None; give such as"),
        ({"env": {"pay": [1, 2]}, "args": {}}, r"the parameter 'pay' of the environment is \[1, 2\]; give such as"),
        ({"env": {"pay": [1, [2]]}, "args": {}}, r"the parameter 'pay' of the environment is \[1, \[2\]\]; give"),
        ({"env": {"wind.0": 0.5}, "args": {}}, r"the parameter 'wind.0' of the environment is 0.5; give such as 0"),
        (
            {"env": {"max_steps_in_episode": 20}, "args": {}},
            r"the task 'a' has max_steps_in_episode 20 and the environment 8; give from_gymnax the same env_params",
        ),
    ],
)
def test_what_is_read_has_to_fit(data, message):
    environment = from_gymnax(Corridor(), cost=far)
    with pytest.raises(UserError, match=f"^{message}"):
        environment.from_json("a", data)  # type: ignore[misc]


def test_parameters_may_be_given_by_name():
    environment = from_gymnax(Corridor(), {"max_steps_in_episode": 3, "pay": -1})
    assert environment.spec.time_limit == 3 and environment.params["env"].pay == -1
    assert environment.settings["env_args"] == {"max_steps_in_episode": 3, "pay": -1.0}
    same = from_gymnax(Corridor(), Params(max_steps_in_episode=3, pay=-1.0))
    assert same.settings == environment.settings
    with pytest.raises(UserError, match=r"^unknown parameter of the environment 'pya'; did you mean 'pay'\?"):
        from_gymnax(Corridor(), {"pya": 1})


def test_the_settings_name_functions_and_hold_no_code():
    environment = from_gymnax(Corridor(), cost=(far, from_info("place")), success=arrived, name="hall")
    settings = json.loads(json.dumps(environment.settings))
    assert settings == environment.settings and environment.name == "hall"
    assert settings["env_args"] == {} and settings["costs"][1] == {"info": "place"}
    assert settings["success_function"]["function"] == "arrived"
    assert set(settings["costs"][0]) == {"function", "source", "sha256"} and settings["costs"][0]["function"] == "far"
    assert "next_obs" not in json.dumps(settings)
    plain = from_gymnax(Corridor())
    assert plain.name == "Corridor"
    assert plain.settings == {"env_args": {}, "costs": [], "success_function": None}


def with_space(space, observe=None):
    """A corridor with another space of observations."""

    class Other(Corridor):
        def observation_space(self, params):
            return space

    if observe:
        Other.observe = lambda self, state, params: observe(state)  # type: ignore[method-assign]
    return Other()


@pytest.mark.parametrize(
    ("space", "low", "high"),
    [
        (Box(np.array([[0.0, -np.inf]]), np.array([[GOAL, 3e38]])), (0.0, -INF), (4.0, INF)),
        (Box(-1, 4), (-1.0, -1.0), (4.0, 4.0)),
        (Box(-3e38, 3e38), None, None),
        (Box(np.array([0, 1]), np.array([4, 1])), (0.0, -INF), (4.0, INF)),
        (Box(np.zeros(3), np.ones(3)), None, None),
        (SimpleNamespace(), None, None),
    ],
)
def test_bounds_are_those_of_the_space(space, low, high):
    spec = from_gymnax(with_space(space)).spec
    assert (spec.low, spec.high) == (low, high) and spec.scaled


def test_a_discrete_observation_becomes_one_hot():
    environment = from_gymnax(
        with_space(Discrete(5), lambda state: state.place), cost=lambda o, a, n, r, i, edge=2: n >= edge
    )
    assert (environment.spec.low, environment.spec.high) == ((0.0,) * 5, (1.0,) * 5)
    _, moments = walk(environment, [RIGHT, RIGHT])
    assert moments[-1].step.obs.tolist() == [0, 0, 1, 0, 0] and moments[-1].step.cost.tolist() == [1]
    one, two = jnp.eye(5)[1], jnp.eye(5)[2]
    t = Transition(one, jnp.int32(RIGHT), jnp.zeros(()), jnp.zeros(1), two, jnp.zeros(()))
    assert environment.relabel(t, environment.params).cost.tolist() == [1]  # type: ignore[misc]


def test_an_observation_of_several_parts_is_joined():
    def observe(state):
        return {"place": state.place, "map": jnp.eye(2, dtype=bool)}

    def same(obs, action, next_obs, reward, info):
        return (next_obs["place"] == obs["place"]) & next_obs["map"][0, 0]

    environment = from_gymnax(with_space(SimpleNamespace(), observe), cost=same)
    seen, moments = walk(environment, [LEFT, RIGHT])
    assert moments[-1].step.obs.tolist() == [1, 0, 0, 1, 1]
    for obs, moment, cost in zip(seen, moments, (1, 0), strict=True):
        assert moment.step.cost.tolist() == [cost]
        t = Transition(obs, jnp.int32(0), jnp.zeros(()), jnp.zeros(1), moment.step.obs, jnp.zeros(()))
        assert environment.relabel(t, environment.params).cost.tolist() == [cost]  # type: ignore[misc]


def branches(obs, action, next_obs, reward, info):
    return 1.0 if next_obs[0, 0] > 1 else 0.0


def both(obs, action, next_obs, reward, info):
    return next_obs[0, 0] > 1 and action == 1


def host(obs, action, next_obs, reward, info):
    return np.sin(np.asarray(next_obs))[0, 0]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"cost": branches}, "the function 'branches' cannot be compiled: .*; use jnp.where, & and | instead of if, "),
        ({"cost": both}, "the function 'both' cannot be compiled: .*; use jnp.where, & and | instead of if, and, or"),
        ({"cost": host}, "the function 'host' cannot be compiled: .* and jnp instead of np"),
        ({"success": branches}, "the function 'branches' cannot be compiled"),
        ({"cost": from_info("fuel")}, "the function 'fuel' raised KeyError: 'fuel'"),
        ({"cost": lambda *step: None}, "the function 'lambda' raised "),
        ({"cost": lambda *step: jnp.eye(2)}, r"the function 'lambda' returns shape \[2, 2\]; return a number or a vec"),
        ({"success": moves}, r"the function 'moves' returns shape \[2\]; return True or False"),
        ({"cost": [far, far]}, "2 costs are called 'far'; give the functions different names"),
        (
            {"cost": far, "success": lambda o, a, n, r, i, edge=9: True},
            "the parameter 'edge' has different defaults in two functions",
        ),
    ],
)
def test_a_function_that_cannot_be_used_is_named(functions, message):
    with pytest.raises(UserError, match=f"^{message}") as found:
        from_gymnax(Corridor(), **functions)
    assert "\n" not in str(found.value)


class Continuous(Corridor):
    def action_space(self, params):
        return Box(-1, 1)


class Large(Corridor):
    def observe(self, state, params):
        return jnp.zeros((64, 65))


class Seven(Corridor):
    def step_env(self, key, state, action, params):
        return (*super().step_env(key, state, action, params), 0, 0)


class Wrapper:
    def __init__(self, env):
        self._env = env

    def __getattr__(self, name):
        return getattr(self._env, name)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Continuous(), "the actions of 'Continuous' are a Box; only discrete actions are possible"),
        (Large(), "observations of 'Large' have 4160 numbers; at most 4096 are possible"),
        (Seven(), "step_env of Seven returns 7 values; 5 or 6 are possible"),
        (Wrapper(Corridor()), "Wrapper is not a gymnax environment: it has no 'step_env'; give an environment without"),
        (3, "int is not a gymnax environment"),
    ],
)
def test_an_environment_that_cannot_be_used_is_refused(env, message):
    with pytest.raises(UserError, match=f"^{message}"):
        from_gymnax(env)


def test_an_id_needs_gymnax(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnax", None)
    with pytest.raises(UserError, match=r"^'CartPole-v1' needs gymnax \(.*\): pip install gymnax six$"):
        from_gymnax("CartPole-v1")


def make(env_id):
    if env_id == "Far-v0":
        raise OSError("no network")
    return Corridor(), Corridor.default_params


def test_an_id_is_made_by_gymnax(monkeypatch):
    fake = SimpleNamespace(registered_envs=["Corridor-v0", "Far-v0"], make=make)
    monkeypatch.setitem(sys.modules, "gymnax", fake)
    assert from_gymnax("Corridor-v0").name == "gymnax:Corridor-v0"
    with pytest.raises(UserError, match=r"^unknown gymnax environment 'Coridor-v0'; did you mean 'Corridor-v0'\?"):
        from_gymnax("Coridor-v0")
    with pytest.raises(UserError, match=r"^gymnax cannot make 'Far-v0': OSError: no network"):
        from_gymnax("Far-v0")


def agent_of(steps: int) -> SafeDqnConfig:
    """SafeDQN that explores for half of the steps."""
    return SafeDqnConfig(
        epsilon=EpsilonSchedule(1.0, 0.1, 0, steps // 2),
        multiplier=MultiplierConfig(penalty_start=0),
        gamma=0.9,
        batch_size=32,
        buffer_size=500,
        train_start=100,
        sync_every=50,
        update_steps=10,
        learning_rate=3e-3,
        hidden=(32,),
    )


@pytest.mark.usefixtures("compile_quickly")
@pytest.mark.parametrize("kind", [Corridor, NewCorridor])
def test_an_agent_trains_in_a_corridor(kind, tmp_path):
    environment = from_gymnax(kind(), cost=[far, moves], success=arrived)
    task = make_task(environment, 100, {"edge": 3})
    train(Job("safedqn", (task,), (0, 1), agent_of(1000), environment, TrainConfig(steps=1000)), tmp_path / "run")
    again = from_gymnax(kind(), cost=[far, moves], success=arrived)
    loaded = safedsr.load(tmp_path / "run", environment=again)
    found = evaluate(loaded, episodes=10)
    assert found.goal_rate.value == 1 and [cost.value for cost in found.cost] == [2.0, 0.0, 4.0]


FAR_FILE = """
import jax.numpy as jnp

def far(obs, action, next_obs, reward, info, edge=2.0):
    return next_obs[0, 0] >= edge

def near(obs, action, next_obs, reward, info, limit=1.0):
    return next_obs[0, 0] <= limit

def informed(obs, action, next_obs, reward, info):
    return info["place"]

def broken(obs, action, next_obs, reward, info):
    return jnp.log(-1.0 - next_obs[0, 0])
"""


@pytest.mark.usefixtures("compile_quickly")
def test_a_run_without_goals_opens_again_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gymnax", SimpleNamespace(registered_envs=["Corridor-v0"], make=make))
    (tmp_path / "far.py").write_text(FAR_FILE)
    run, named = str(tmp_path / "run"), ["--cost-fn", f"{tmp_path / 'far.py'}:far"]
    short = ["--train-start", "100", "--sync-every", "100", "--epsilon-to", "200", "--penalty-start", "100"]
    small = ["--points", "8", "--trunk", "8", "--head", "8", "--kept", "20", "--buffer-size", "300"]
    first = ["train", "safedsr-plus", "--env", "gymnax:Corridor-v0", *named, "--budget", "3", *short, *small]
    assert main([*first, "--steps", "400", "--out", run]) == 0
    few = ["--episodes", "4", "--json"]
    for again in (["evaluate", run, *named, *few], ["certify", run, *named, *few, "--require", "0"]):
        capsys.readouterr()
        assert main(again) == 0
        assert "safe_episode_rate" in capsys.readouterr().out
    new = ["--cost-arg", "edge=3.0", "--level", "cost", "--out", str(tmp_path / "new")]
    assert main(["adapt", run, *named, *few, *new]) == 0
    assert main(["train", "safedsr-plus", "--resume", *named, "--steps", "500", "--out", run]) == 0
    other, informed = (["--cost-fn", f"{tmp_path / 'far.py'}:{name}"] for name in ("near", "informed"))
    assert main(["evaluate", run, *other, *few]) == 0  # a function with other parameters
    capsys.readouterr()
    assert main(["adapt", run, *other, *few, "--level", "cost", "--out", str(tmp_path / "near")]) == 0
    assert main(["adapt", run, *informed, *few, "--level", "cost", "--out", str(tmp_path / "informed")]) == 2
    assert "uses 'info'" in capsys.readouterr().err
    assert main(["train", "safedsr-plus", "--resume", *other, "--steps", "600", "--out", run]) == 0
    noted = json.loads((tmp_path / "run" / "manifest.json").read_text())["costs_changed"]
    assert [one["params"][0]["args"] for one in noted] == [{"limit": 1.0}]
    broken = ["--cost-fn", f"{tmp_path / 'far.py'}:broken", "--budget", "3", *short, *small]
    capsys.readouterr()
    wrong = ["train", "safedsr-plus", "--env", "gymnax:Corridor-v0", *broken, "--steps", "400"]
    assert main([*wrong, "--out", str(tmp_path / "wrong")]) == 1
    assert "the environment or a cost function returned a number that is not finite" in capsys.readouterr().err


REAL = ["CartPole-v1", "FourRooms-misc", "Breakout-MinAtar", "DiscountingChain-bsuite", "Acrobot-v1"]


@pytest.mark.parametrize("env_id", REAL)
@pytest.mark.filterwarnings("ignore")
def test_steps_are_those_of_gymnax(env_id):
    """Like gymnax, which starts a new episode within the step that ends one, with half of the key."""
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make(env_id)
    params = params.replace(max_steps_in_episode=30)
    environment = from_gymnax(env_id, params)
    check_environment(environment, environment.params)

    @jax.jit
    def ours(key, running, action):
        first, second = jax.random.split(key)
        after, moment = episode.step(environment, first, running, action, environment.params)
        fresh = episode.start(environment, second, environment.params)
        return jax.tree.map(lambda new, old: jnp.where(moment.done, new, old), fresh, after), moment

    _, state = env.reset(jax.random.key(1), params)
    running = episode.start(environment, jax.random.key(1), environment.params)
    ends = []
    for n in range(150):
        key = jax.random.key(n)
        action = jax.random.randint(key, (), 0, environment.spec.actions)
        obs, state, reward, *flags, _ = env.step(key, state, action, params)
        running, moment = ours(key, running, action)
        np.testing.assert_allclose(running.obs, np.ravel(obs), rtol=1e-5, atol=1e-6)
        assert float(moment.step.reward) == pytest.approx(float(reward))
        assert bool(moment.done) == any(map(bool, flags))
        if len(flags) == 2 and not flags[0]:
            assert bool(moment.step.truncated) == bool(flags[1])
        ends.append((bool(moment.step.terminated), bool(moment.step.truncated), int(moment.time)))
    assert all(truncated == (time == 30 and not terminated) for terminated, truncated, time in ends)
    assert any(terminated or truncated for terminated, truncated, _ in ends)


def beyond(obs, action, next_obs, reward, info, low=0.05):
    return jnp.abs(next_obs[0]) > low


@pytest.mark.filterwarnings("ignore")
def test_cart_pole_trains_and_its_folder_opens_again(tmp_path):
    pytest.importorskip("gymnax")
    environment = from_gymnax("CartPole-v1", {"max_steps_in_episode": 100}, cost=beyond)
    tasks = tuple(make_task(environment, 5, {"low": low})._replace(name=f"low {low}") for low in (0.05, 0.1))
    job = Job("safedqn", tasks, (0, 1), agent_of(3000), environment, TrainConfig(steps=3000))
    train(job, tmp_path / "run")
    again = from_gymnax("CartPole-v1", {"max_steps_in_episode": 100}, cost=beyond)
    found = evaluate(safedsr.load(tmp_path / "run", environment=again), episodes=10)
    assert 8 <= found.length.value <= 100
