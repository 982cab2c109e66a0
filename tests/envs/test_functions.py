"""Functions of a step: where they come from, their parameters, and what is said about wrong ones."""

import functools
import hashlib
import subprocess
import sys
import warnings
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safedsr.envs.functions import (
    NeedsInfo,
    NoInfo,
    args_to_json,
    as_number,
    changed_functions,
    collect_defaults,
    from_info,
    from_reward,
    function_from_json,
    load_function,
    own_function,
    parse_assignments,
    parse_entry,
    with_args,
)
from safedsr.errors import UserError

ZONES = """
def forbidden(obs, action, next_obs, reward, info, low=1.1, high=(1.3, 2.4)):
    return low < next_obs[0] < high[0]

def short(obs, action):
    return 0

def _hidden(obs, action, next_obs, reward, info):
    return 0
"""
STEP = (np.array([0.0]), 1, np.array([1.2]), -1.0, {"cost": 3.0})


def slope(obs, action, next_obs, reward, info, gain=2.0, *, offset=0.5):
    return gain * next_obs[0] + offset


@pytest.fixture
def zones(tmp_path):
    path = tmp_path / "zones.py"
    path.write_text(ZONES)
    return path


def test_a_function_of_a_file_has_its_own_hash_and_that_of_the_file(zones):
    found = load_function(f"{zones}:forbidden")
    assert found.name == "forbidden" and found(*STEP, found.defaults)
    assert found.about == {
        "function": "forbidden",
        "source": "zones.py",
        "sha256": own_function(found.call).about["sha256"],
        "file_sha256": hashlib.sha256(zones.read_bytes()).hexdigest(),
    }
    assert own_function(found.call).about == {k: v for k, v in found.about.items() if k != "file_sha256"}
    assert found.defaults["low"] == np.float32(1.1) and found.defaults["high"].shape == (2,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zones.py", r"'zones\.py' names no function; write FILE\.py:NAME, for example zones\.py:forbidden"),
        ("zones.py:", r"'zones\.py:' names no function"),
        (":forbidden", r"':forbidden' names no function"),
        ("zone.py:forbidden", r"there is no file zone\.py \(from 'zone\.py:forbidden'\); write FILE\.py:NAME"),
        ("zones.txt:forbidden", r"zones\.txt is not a Python file"),
        ("zones.py:forbiden", r"unknown function in zones\.py 'forbiden'; did you mean 'forbidden'\?"),
        ("zones.py:_hidden", r"unknown function in zones\.py '_hidden'"),
        ("zones.py:short", r"the function 'short' takes 2 arguments; it must take obs, action, next_obs, reward, info"),
        ("broken.py:f", r"broken\.py cannot be loaded: ZeroDivisionError: division by zero"),
        ("wrong.py:f", r"wrong\.py cannot be loaded: SyntaxError"),
        ("script.py:f", r"script\.py cannot be loaded: SystemExit: 3"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(text, message, zones, monkeypatch):
    monkeypatch.chdir(zones.parent)
    (zones.parent / "zones.txt").write_text(ZONES)
    (zones.parent / "broken.py").write_text("1 / 0")
    (zones.parent / "wrong.py").write_text("def f(:")
    (zones.parent / "script.py").write_text("import sys; sys.exit(3)")
    before = set(sys.modules)
    with pytest.raises(UserError, match=f"^{message}") as found:
        load_function(text)
    assert "\n" not in str(found.value)
    if "loaded" in message:
        assert not {name for name in set(sys.modules) - before if name.startswith("safedsr_user")}


def test_a_file_may_have_dataclasses_and_its_functions_travel_to_other_processes(tmp_path):
    path = tmp_path / "zones.py"
    path.write_text(
        "from __future__ import annotations\nimport dataclasses\n"
        "@dataclasses.dataclass\nclass Zone:\n    low: int = 1\n"
        "def high(obs, action, next_obs, reward, info):\n    return next_obs > Zone().low\n"
    )
    (tmp_path / "function").write_bytes(cloudpickle.dumps(load_function(f"{path}:high").call))
    program = "import cloudpickle, sys; print(cloudpickle.load(open(sys.argv[1], 'rb'))(0, 0, 2, 0, 0))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "function")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_parameters_are_those_after_the_five_with_a_default():
    found = own_function(slope)
    assert {name: float(value) for name, value in found.defaults.items()} == {"gain": 2.0, "offset": 0.5}
    assert found(*STEP, found.defaults) == pytest.approx(2.9)
    assert found(*STEP, {**found.defaults, "gain": np.zeros(()), "other": np.ones(())}) == 0.5
    assert own_function(found) is found
    every = own_function(lambda *step, scale=3.0: scale)
    assert list(every.defaults) == ["scale"] and every(*STEP, every.defaults) == 3.0
    assert own_function(lambda obs, action, next_obs, reward, info: 1).defaults == {}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda obs: 0, "the function 'lambda' takes 1 arguments; it must take obs, action, next_obs, reward, info"),
        (lambda o, a, n, r, i, low: 0, "the parameter 'low' of the function 'lambda' needs a default, such as low=1"),
        (lambda o, a, n, r, i, low=None: 0, "the parameter 'low' is None; give a finite number, or a list of them"),
        (lambda o, a, n, r, i, low="a": 0, "the parameter 'low' is 'a'; give a finite number"),
        (lambda o, a, n, r, i, low=float("inf"): 0, "the parameter 'low' is inf; give a finite number"),
    ],
)
def test_a_function_that_does_not_fit_is_refused(function, message):
    with pytest.raises(UserError, match=f"^{message}"):
        own_function(function)


@pytest.mark.parametrize("value", [1e39, 10**400, [1, [2]], [1.0, float("nan")]])
def test_only_numbers_of_float32_are_parameters(value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError, match=r"^the parameter 'x' is .*; give a finite number"):
            as_number("x", value)
    assert as_number("x", [1, 2]).dtype == np.float32 and as_number("x", True) == 1


class Counted:
    def __call__(self, obs, action, next_obs, reward, info, gain=1.0):
        return gain


def test_the_hash_is_that_of_the_text_and_equal_in_every_process():
    def other(obs, action, next_obs, reward, info):
        return 1

    hashes = {name: own_function(one).about["sha256"] for name, one in {"slope": slope, "other": other}.items()}
    assert len(set(hashes.values())) == 2
    part = own_function(functools.partial(slope, gain=7.0))
    assert part.name == "slope" and part.about["sha256"] == hashes["slope"] and part.defaults["gain"] == 7
    one, two = own_function(Counted()), own_function(Counted())
    assert one.name == "Counted" and one.about == two.about and one(*STEP, {"gain": np.array(4.0)}) == 4


def test_a_function_without_text_is_known_by_its_code():
    text = "def f(obs, action, next_obs, reward, info):\n    return (lambda: {})()"
    hashes = []
    for value in (1, 1, 2):
        space = {}
        exec(text.format(value), space)
        hashes.append(own_function(space["f"]).about["sha256"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_changed_functions_are_those_of_the_same_name_and_another_hash():
    def about(name, sha):
        return {"function": name, "source": "zones.py" if sha == "b" * 64 else "", "sha256": sha}

    then = [about("one", "a" * 64), about("two", "a" * 64), {"info": "cost"}]
    now = [about("one", "a" * 64), about("two", "b" * 64), about("three", "c" * 64), {"info": "cost"}]
    assert changed_functions(now, then) == [
        "the function 'two' (zones.py) has changed since the training: its hash is bbbbbbbbbbbb and was aaaaaaaaaaaa"
    ]
    file = {"file_sha256": "d" * 64}
    assert not changed_functions([{**about("one", "c" * 64), **file}], [about("one", "d" * 64)])  # an earlier version
    (sentence,) = changed_functions([{**then[0], **file}], [{**then[0], "file_sha256": "e" * 64}])
    assert "not the text of the function" in sentence and "hash is dddddddddddd and was eeeeeeeeeeee" in sentence


def test_info_and_entries_of_the_reward_come_back_from_their_description():
    reward = np.array([1.0, -2.0])
    for function, value in ((from_info("cost"), 3.0), (from_reward(1, -1.0), 2.0), (from_reward(0, 1.0), 1.0)):
        again = function_from_json(function.about)
        assert again is not None and again.name == function.name
        assert again(*STEP[:3], reward, STEP[4], {}) == function(*STEP[:3], reward, STEP[4], {}) == value
    assert from_reward(1, -1.0).name == "-reward[1]"
    assert function_from_json(own_function(slope).about) is None


@given(st.integers(0, 99), st.sampled_from(["", "+", "-"]))
def test_an_entry_is_a_number_with_a_sign(number, sign):
    assert parse_entry(f" {sign}{number} ") == (number, -1.0 if sign == "-" else 1.0)


def test_an_entry_may_be_a_number_itself():
    assert parse_entry(2) == (2, 1.0) and parse_entry(-2) == (2, -1.0)


@pytest.mark.parametrize("text", ["", "-", "+-2", "--2", "2-", "1.5", "fuel", "²"])
def test_any_other_entry_is_refused(text):
    with pytest.raises(UserError, match=r"^entry .* of the vector reward; give its number, such as 0, or -2 for minus"):
        parse_entry(text)


def test_assignments_are_read_as_json_or_as_text():
    found = parse_assignments(["low=1.1", "zones=[1, 2]", "name=lake", "flag=true", "path=a=b", "empty="])
    assert found == {"low": 1.1, "zones": [1, 2], "name": "lake", "flag": True, "path": "a=b", "empty": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("low", "'low' is not name=value; write for example low=1.1"),
        ("=1", "'=1' is not name=value"),
        ("2x=1", "'2x=1' is not name=value"),
        ("low=NaN", "'low=NaN' is not finite; give a finite number"),
        ("low=-Infinity", "'low=-Infinity' is not finite"),
    ],
)
def test_any_other_assignment_is_refused(text, message):
    with pytest.raises(UserError, match=f"^{message}"):
        parse_assignments([text])


def test_parameters_of_several_functions_are_collected():
    one = own_function(lambda o, a, n, r, i, low=1.0, high=2.0: 0)
    two = own_function(lambda o, a, n, r, i, low=1.0: 0)
    assert collect_defaults([one, two]) == {"low": 1.0, "high": 2.0}
    with pytest.raises(UserError, match=r"^the parameter 'low' has different defaults in two functions; give them one"):
        collect_defaults([one, own_function(lambda o, a, n, r, i, low=3.0: 0)])


def test_some_parameters_are_replaced_and_written_as_json():
    defaults = own_function(lambda o, a, n, r, i, low=1.0, zone=(1.0, 2.0): 0).defaults
    changed = with_args(defaults, {"low": 5})
    assert args_to_json(changed) == {"low": 5.0, "zone": [1.0, 2.0]} and defaults["low"] == 1
    assert args_to_json(with_args(defaults, args_to_json(changed))) == args_to_json(changed)
    with pytest.raises(UserError, match=r"^unknown parameter of the cost functions 'lov'; did you mean 'low'\?"):
        with_args(defaults, {"lov": 1})
    with pytest.raises(UserError, match=r"^the parameter 'zone' has shape \(\); its default has \(2,\)"):
        with_args(defaults, {"zone": 1})
    with pytest.raises(UserError, match=r"^there is no parameter 'low': the cost functions have no parameters"):
        with_args({}, {"low": 1})


@pytest.mark.parametrize(
    "use",
    [
        lambda info: info["cost"],
        lambda info: info.get("cost", 0),
        lambda info: "cost" in info,
        lambda info: list(info),
        lambda info: {**info},
        lambda info: dict(info),
        lambda info: SimpleNamespace(**info),
        lambda info: bool(info),
        lambda info: info.items(),
        lambda info: info.values(),
        lambda info: info.pop("cost", 0),
        lambda info: info.setdefault("cost", 0),
        lambda info: info.copy(),
        lambda info: info | {},
        lambda info: {} | info,
    ],
)
def test_stored_steps_have_no_info_and_say_so(use):
    with pytest.raises(NeedsInfo, match=r"^uses 'info', which the replay memory does not hold$"):
        use(NoInfo())
