"""Commands in environments of others: from training to adaptation, and what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import safedsr
from safedsr.cli import main
from safedsr.envs import from_gymnasium
from safedsr.envs.functions import load_function
from safedsr.runs.storage import SIGNED, write_json

pytestmark = pytest.mark.usefixtures("compile_quickly")
ZONES = """
def forbidden(obs, action, next_obs, reward, info, low=0.02):
    return abs(next_obs[0]) > low

def one_side(obs, action, next_obs, reward, info, limit=0.0):
    return next_obs[0] > limit

def informed(obs, action, next_obs, reward, info):
    return float(len(info))

def narrower(obs, action, next_obs, reward, info, low=0.03):
    return abs(next_obs[0]) > low

def upright(obs, action, next_obs, reward, info):
    return abs(next_obs[2]) < 0.1
"""
SHORT = ["--steps", "1000", "--train-start", "500", "--sync-every", "500", "--buffer-size", "1000"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a file of functions and two runs."""
    folder = tmp_path_factory.mktemp("environments")
    (folder / "zones.py").write_text(ZONES)
    own = ["--env", "CartPole-v1", "--cost-fn", f"{folder / 'zones.py'}:forbidden", "--budget", "5"]
    plus = ["--points", "16", "--trunk", "16", "--head", "8", "--kept", "20"]
    assert main(["train", "safedsr-plus", *own, *SHORT, *plus, "--out", str(folder / "cart")]) == 0
    assert main(["train", "safedqn", "--env", "CartPole-v1", *SHORT, "--out", str(folder / "free")]) == 0
    return folder


def functions(place: Path, name: str = "forbidden") -> list[str]:
    return ["--cost-fn", f"{place / 'zones.py'}:{name}"]


def test_a_run_folder_names_functions_and_holds_no_code(place):
    text = (place / "cart/config.json").read_text()
    config = json.loads(text)
    (cost,) = config["environment"]["costs"]
    assert (cost["function"], cost["source"], len(cost["sha256"])) == ("forbidden", "zones.py", 64)
    assert config["tasks"][0]["params"] == {"args": {"low": pytest.approx(0.02)}}
    assert "next_obs" not in text


def test_evaluate_needs_the_users_code_by_name(place, capsys):
    assert main(["evaluate", str(place / "cart"), "--episodes", "4"]) == 2
    assert "name it: --cost-fn zones.py:forbidden" in capsys.readouterr().err
    assert main(["evaluate", str(place / "cart"), *functions(place), "--episodes", "4", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert set(row) >= {"safe_episode_rate", "reward", "cost"} and "goal_rate" not in row


def test_a_run_without_code_of_the_user_opens_by_itself(place, capsys):
    assert main(["evaluate", str(place / "free"), "--episodes", "4"]) == 0
    assert "safe episodes" in capsys.readouterr().out


def test_without_costs_and_goals_there_is_nothing_to_certify(place, capsys):
    assert main(["certify", str(place / "free"), "--episodes", "4"]) == 2
    assert "there is nothing to certify in 'CartPole-v1'" in capsys.readouterr().err


def test_reports_load_no_code(place, capsys):
    assert main(["report", str(place / "cart"), str(place / "free")]) == 0
    out = capsys.readouterr().out
    assert "CartPole-v1, forbidden" in out and "safe episodes" in out


def test_a_report_says_if_policies_are_of_other_costs_than_the_run(place, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(place / "cart", run)
    config = json.loads((run / "config.json").read_text())
    config["tasks"][0]["params"]["args"]["low"] = 0.05  # costs changed, and no policy has been saved since
    config["tasks"][0]["name"] = "CartPole-v1 (low=0.05)"
    write_json(run / "config.json", {name: value for name, value in config.items() if name != SIGNED}, signed=True)
    assert main(["report", str(run), *functions(place), "--out", str(tmp_path / "out")]) == 0
    assert "the policies saved there are of other costs" in " ".join(capsys.readouterr().out.split())


def test_adapt_to_another_parameter_counts_real_steps(place, capsys, tmp_path):
    flags = [*functions(place), "--cost-arg", "low=0.05", "--level", "cost", "--episodes", "8", "--json"]
    assert main(["adapt", str(place / "cart"), *flags, "--out", str(tmp_path / "new")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rungs"][0]["real_steps"] == 0
    assert found["rungs"][0]["certificate_steps"] > 0
    assert found["environment"] == "CartPole-v1 (low=0.05), forbidden"
    again = ["certify", str(tmp_path / "new"), *functions(place), "--episodes", "8", "--require", "0", "--json"]
    assert main(again) == 0
    assert json.loads(capsys.readouterr().out)["environment"] == "CartPole-v1 (low=0.05), forbidden"  # as adapted


def test_another_function_is_fitted_anew(place, capsys, tmp_path):
    """The old function is not there, so nothing is known of how its costs combine."""
    flags = [*functions(place, "one_side"), "--level", "cost", "--episodes", "8"]
    assert main(["adapt", str(place / "cart"), *flags, "--out", str(tmp_path / "new")]) in (0, 1)
    out = capsys.readouterr().out
    assert "CartPole-v1, one_side" in out and "without a fit" not in out


def test_adapt_refuses_costs_that_need_info(place, capsys, tmp_path):
    flags = [*functions(place, "informed"), "--level", "cost", "--episodes", "8"]
    assert main(["adapt", str(place / "cart"), *flags, "--out", str(tmp_path / "new")]) == 2
    assert "uses 'info', which the replay memory does not hold" in capsys.readouterr().err


@pytest.mark.filterwarnings("default::safedsr.errors.ChangedFunction")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            ZONES.replace("> low", ">= low"),
            "warning: the function 'forbidden' (zones.py) has changed since the training",
        ),
        (ZONES + "\n# a line\n", "warning: the file of the function 'forbidden' (zones.py) has changed since the trai"),
    ],
)
def test_a_changed_function_is_said(place, capsys, tmp_path, text, words):
    (tmp_path / "zones.py").write_text(text)
    assert main(["evaluate", str(place / "cart"), *functions(tmp_path), "--episodes", "4"]) == 0
    assert words in capsys.readouterr().err


@pytest.mark.filterwarnings("error::safedsr.errors.ChangedFunction")
def test_a_function_that_a_program_gave_is_the_same_on_the_command_line(place, tmp_path):
    function = load_function(f"{place / 'zones.py'}:forbidden").call
    environment = from_gymnasium("CartPole-v1", cost=function)
    small: dict[str, Any] = {"steps": 1000, "train_start": 500, "sync_every": 500, "buffer_size": 1000}
    safedsr.train(
        "safedqn",
        environment,
        budget=5,
        out=tmp_path / "run",
        epsilon_from=0,
        epsilon_to=500,
        penalty_start=500,
        **small,
    )
    assert main(["evaluate", str(tmp_path / "run"), *functions(place), "--episodes", "4"]) == 0
    safedsr.load(place / "cart", environment=environment)


def test_a_lambda_is_opened_in_python(tmp_path, capsys):
    environment = from_gymnasium("CartPole-v1", cost=lambda obs, action, next_obs, reward, info: abs(next_obs[0]) > 1)
    small: dict[str, Any] = {"steps": 1000, "train_start": 500, "sync_every": 500, "buffer_size": 1000}
    safedsr.train(
        "safedqn",
        environment,
        budget=5,
        out=tmp_path / "run",
        epsilon_from=0,
        epsilon_to=500,
        penalty_start=500,
        **small,
    )
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "4"]) == 2
    assert "this run used a lambda" in capsys.readouterr().err


def test_other_costs_in_the_middle_of_a_run_are_said_and_noted(place, capsys, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(place / "cart", run)
    again = ["train", "safedsr-plus", "--resume", "--out", str(run)]
    assert main([*again, *functions(place, "one_side"), "--steps", "1500"]) == 0
    assert "other cost functions from now on: one_side, before: forbidden" in capsys.readouterr().out
    assert main([*again, *functions(place, "one_side"), "--cost-arg", "limit=0.1", "--steps", "2000"]) == 0
    assert "other cost functions" not in capsys.readouterr().out
    noted = json.loads((run / "manifest.json").read_text())["costs_changed"]
    assert [(one["from_step"], one["costs"][0]["function"]) for one in noted] == [
        (1000, "one_side"),
        (1500, "one_side"),
    ]
    assert [one["params"] for one in noted] == [[{"args": {"limit": 0.0}}], [{"args": {"limit": pytest.approx(0.1)}}]]


def test_a_function_has_its_own_parameters_in_the_middle_of_a_run(place, tmp_path):
    """Also those that are called like parameters of the function before."""
    run = tmp_path / "run"
    shutil.copytree(place / "cart", run)
    flags = [*functions(place, "narrower"), "--steps", "1500"]
    assert main(["train", "safedsr-plus", "--resume", "--out", str(run), *flags]) == 0
    (noted,) = json.loads((run / "manifest.json").read_text())["costs_changed"]
    assert noted["params"] == [{"args": {"low": pytest.approx(0.03)}}]


def test_success_stays_what_it_was_in_a_run(place, capsys):
    success = ["--success-fn", f"{place / 'zones.py'}:upright", "--steps", "1500"]
    assert main(["train", "safedsr-plus", "--resume", "--out", str(place / "cart"), *functions(place), *success]) == 2
    assert "no function for the success of an episode, and now it is 'upright'" in capsys.readouterr().err


def test_resume_goes_on_with_the_environment(place, capsys):
    again = ["train", "safedqn", "--out", str(place / "free"), "--resume", "--steps", "1500"]
    assert main(again) == 0
    assert json.loads((place / "free/manifest.json").read_text())["episodes_restarted_at_steps"] == [1000]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--env", "CartPole-v7"], "cannot be made"),
        (["--env", "CartPole-v1", "--budget", "5"], "there are no costs in 'CartPole-v1'; name a cost function"),
        (["--env", "MiniGrid-Empty-5x5-v0"], "MissionSpace observations"),
        (["--env", "CartPole-v1", "--layout", "one-room"], "--layout is for maps"),
        (["--env", "CartPole-v1", "--costs", "diamond"], "--costs is for maps"),
        (["--env", "CartPole-v1", "--cost-fn", "nowhere.py:f"], "there is no file nowhere.py"),
        (["--env", "CartPole-v1", "--cost-fn", "forbidden"], "names no function"),
        (["--env", "CartPole-v1", "--cost-entries", "0"], "not a vector"),
        (["--env", "CartPole-v1", "--env-arg", "colour"], "is not name=value"),
        (["--env", "Pendulum-v1"], "Discrete actions"),
        (["--cost-arg", "low=1"], "no --env given; --cost-arg is for other environments"),
        (["--env", "CartPole-v1", "--copies", "3"], "give one of 1, 2, 5, 10"),
        (["--env", "CartPole-v1", "--budget-kind", "weekly"], "give episode or discounted-mean"),
        (["--env", "no_such_module:Env-v0"], "cannot be made"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(flags, words, capsys, tmp_path):
    assert main(["train", "safedqn", *flags, "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert words in line


def test_a_cost_needs_a_budget(place, capsys, tmp_path):
    flags = ["--env", "CartPole-v1", *functions(place)]
    assert main(["train", "safedqn", *flags, "--out", str(tmp_path / "run")]) == 2
    assert "no budget given for the cost 'forbidden'" in capsys.readouterr().err


def test_an_environment_made_by_a_file(capsys, tmp_path):
    (tmp_path / "own.py").write_text(
        "import gymnasium\n\ndef small(length=1.0):\n    return gymnasium.make('CartPole-v1', max_episode_steps=20)\n"
    )
    out = str(tmp_path / "run")
    assert main(["train", "safedqn", "--env", f"{tmp_path / 'own.py'}:small", *SHORT, "--out", out]) == 0
    assert main(["evaluate", out, "--episodes", "4"]) == 2
    assert "name it: --env own.py:small" in capsys.readouterr().err
    assert main(["evaluate", out, "--episodes", "4", "--env", f"{tmp_path / 'own.py'}:small"]) == 0


def test_a_jax_environment_made_by_a_file(capsys, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from safedsr.envs.environment import Environment\n"
        "from stairs import make_stairs, stairs_task\n\n"
        "def stairs() -> Environment:\n"
        "    return replace(make_stairs(1), params=stairs_task(1).params, cost_names=('slippery',))\n\n"
        "def nameless() -> Environment:\n    return make_stairs(1)\n\n"
        "def bare() -> Environment:\n    return replace(make_stairs(1), cost_names=('slippery',))\n\n"
        "def nothing() -> Environment:\n    return 3\n"
        "def cart() -> Environment:\n"
        "    from safedsr.envs.twins import make_twin\n    return make_twin('cartpole', 30)\n"
        "def host() -> Environment:\n"
        "    from safedsr.envs import from_gymnasium\n    return from_gymnasium('CartPole-v1')\n"
    )
    out, named = str(tmp_path / "run"), f"{file}:stairs"
    assert main(["train", "safedqn", "--env", named, "--budget", "3", *SHORT, "--out", out]) == 0
    assert main(["evaluate", out, "--episodes", "4", "--env", named]) == 0
    capsys.readouterr()
    assert main(["evaluate", out, "--episodes", "4"]) == 2
    assert "name it: --env own.py:stairs" in capsys.readouterr().err
    limited, cart = str(tmp_path / "limited"), ["--env", f"{file}:cart"]  # its settings have a time limit
    assert main(["train", "safedqn", *cart, "--budget", "3", *SHORT, "--out", limited]) == 0
    assert main(["evaluate", limited, "--episodes", "4", *cart]) == 0
    for flags, words in (
        (["--env", f"{file}:nothing"], "returned int; return a safedsr Environment"),
        (["--env", f"{file}:host"], "let the function return the gymnasium.Env and name its costs by --cost-fn"),
        (["--env", f"{file}:nameless"], "has 1 costs and 0 cost_names; give each cost a name"),
        (["--env", f"{file}:bare"], "raised AttributeError in its first step"),
        (["--env", named, "--cost-entries=-1"], "has its own reward, costs"),
    ):
        assert main(["train", "safedqn", *flags, "--budget", "3", *SHORT, "--out", str(tmp_path / "other")]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.filterwarnings("default::safedsr.errors.ChangedFunction")
def test_a_module_that_changed_is_said(capsys, tmp_path, monkeypatch):
    module = tmp_path / "little_module.py"
    text = (
        "import gymnasium\nfrom climber import Climber\n"
        "gymnasium.register('Little-v0', entry_point=lambda **more: Climber(), max_episode_steps=20)\n"
    )
    module.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    out = str(tmp_path / "run")
    flags = ["--env", "little_module:Little-v0"]
    assert main(["train", "safedqn", *flags, "--budget", "3", *SHORT, "--out", out]) == 0
    module.write_text(text + "# another line\n")
    capsys.readouterr()
    assert main(["evaluate", out, "--episodes", "4", *flags]) == 0
    assert "the module 'little_module:Little-v0' (little_module.py) has changed" in capsys.readouterr().err
    gymnasium.registry.pop("Little-v0")
