import json
import os
import subprocess
import sys

import pytest

from safedsr.agents.registry import ALGORITHMS
from safedsr.cli import COMMANDS, FAILED, main
from safedsr.envs.grid.catalog import load_scene
from safedsr.envs.grid.text import format_scene

TINY = ["--steps", "2000", "--walks", "2", "--subcells", "4", "--epsilon-from", "100", "--epsilon-to", "200"]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "safedsr.cli", *args], capture_output=True, text=True)


def test_envs(capsys):
    assert main(["envs"]) == 0
    printed = capsys.readouterr().out
    for word in ("one-room", "two-rooms", "three-rooms", "rooms-N", "11 × 31", "inverse-diamond"):
        assert word in printed


def test_envs_as_json(capsys):
    assert main(["envs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["layouts"]["two-rooms"] == {"height": 11, "width": 21}
    assert "small-diamond" in found["costs"]


def test_show_prints_what_can_be_read_back(capsys, write_map):
    assert main(["show", "three-rooms", "--costs", "diamond"]) == 0
    text = capsys.readouterr().out
    assert text == format_scene(load_scene("three-rooms", "diamond"))
    assert main(["show", write_map(text)]) == 0
    assert capsys.readouterr().out == text


def test_show_as_json_and_as_a_picture(capsys, tmp_path):
    picture = tmp_path / "new" / "map.png"
    assert main(["show", "two-rooms", "--costs", "diamond,square", "--png", str(picture), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["costs"] == ["diamond", "square"] and (found["height"], found["width"]) == (11, 21)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_oracle_as_json(capsys, write_map):
    path = write_map("S..C..G\n.......\n")
    assert main(["oracle", "--layout", path, "--budget", "0", "--json", *TINY]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps"] == 2000 and found["budgets"] == [0.0]
    assert found["goal_count"] >= found["safe_goal_count"] > 0
    assert found["path_cost"] == 0 and 9 < found["path_length"] < 12
    assert found["lam"] > 0 and found["lams"] == pytest.approx([found["lam"]])
    counts = found["safe_goal_counts"]
    assert counts[f"{found['lam']:g}"] == max(counts.values()) > counts["0"]
    assert found["epsilon_0"]["safe_goal_rate"] == 1
    assert found["epsilon_end"]["goal_rate"] == 1


def test_oracle_as_table_and_picture_in_a_process_of_its_own(tmp_path, write_map):
    picture = tmp_path / "walk.png"
    found = run("oracle", "--layout", write_map("S....G"), "--png", str(picture), *TINY)
    assert (found.returncode, found.stderr) == (0, "")
    assert "safe goals" in found.stdout and "counts in 2000 steps, mean of 2 simulations" in found.stdout
    assert f"picture: {picture}" in found.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["orakle"], "unknown command 'orakle'; did you mean 'oracle'?"),
        (["train"], "write for example: safedsr train safedsr-plus --costs diamond --out runs/first"),
        (["train", "safedrs"], "did you mean 'safedsr'?"),
        (["show", "two-rom"], "unknown layout 'two-rom'; did you mean 'two-rooms'?"),
        (["show", "none.txt"], "no layout file 'none.txt'"),
        (["show", "one-room", "--costs", "dimond"], "did you mean 'diamond'?"),
        (["show", "one-room", "--png", "map.xyz"], "cannot write a picture as 'map.xyz'"),
        (["oracle", "--costs", "diamond", "--budget", "five"], "budget 'five' is not a list of numbers"),
        (["oracle", "--costs", "diamond", "--budget", "1,2"], "budget is '1,2'; there are 1 costs"),
        (["oracle", "--costs", "diamond", "--budget", "-1"], "budget is -1.0; give finite values of at least 0"),
        (["oracle", "--costs", "diamond", "--budget", "nan"], "budget is nan; give finite values of at least 0"),
        (["oracle", "--budget", "five"], "budget 'five' is not a list of numbers"),
        (["oracle", "--gamma", "2"], "gamma is 2.0; give a value between 0 and 1"),
        (["oracle", "--time-limit", "0"], "time_limit is 0"),
        (["oracle", "--epsilon-end", "7"], "epsilon_end is 7.0"),
    ],
)
def test_bad_input_is_one_line(capsys, args, message):
    assert main(args) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("safedsr: ") and printed.err.count("\n") == 1 and message in printed.err


def test_bad_input_in_a_process_of_its_own(write_map):
    found = run("show", write_map("S.G\n..", "yard.txt"))
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "safedsr: yard: row 2 has 2 cells, row 1 has 3; make them equal\n"


@pytest.mark.parametrize("args", [["oracle", "--steps", "many"], ["show"], ["train", "safedqn", "--gamme", "1"]])
def test_what_the_parser_refuses_ends_with_two_as_well(args):
    found = run(*args)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr and "Traceback" not in found.stderr


@pytest.mark.parametrize("module", ["safedsr", "safedsr.cli"])
def test_imports_stay_light(module):
    code = f"import sys, {module}; print(*{{'jax', 'numpy', 'matplotlib', 'gymnasium', 'tyro'}} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "\n", "")


@pytest.mark.parametrize(("args", "code"), [(["--help"], 0), (["-h"], 0), ([], 2)])
def test_the_list_of_commands(capsys, args, code):
    assert main(args) == code
    printed = capsys.readouterr().out
    assert printed.startswith("usage: safedsr COMMAND …\n") and "safedsr COMMAND --help" in printed
    listed = [line.split()[0] for line in printed.splitlines() if line[:2] == "  " and line[2] != " "]
    assert listed == list(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"train"}))
def test_the_list_says_of_a_command_what_its_own_help_says(capsys, name):
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: safedsr {name} ")
    assert COMMANDS[name].about in " ".join(shown.split())


def test_the_list_of_algorithms(capsys):
    assert main(["train", "--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed and algorithm.about in printed for name, algorithm in ALGORITHMS.items())
    assert main(["train", "safedqn", "--help"]) == 0
    assert "--gamma" in capsys.readouterr().out


def without_reader(*args: str, buffered: bool) -> subprocess.CompletedProcess[str]:
    """A command that writes into a pipe from which nobody reads."""
    command = [sys.executable, "-m", "safedsr.cli", *args]
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    reader, writer = os.pipe()
    os.close(reader)
    found = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(writer)
    return found


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("args", [["algos"], ["--help"], ["show", "--help"], ["show", "one-room"], ["envs", "--json"]])
def test_a_reader_may_leave_early(args, buffered):
    """As `safedsr algos | head` does: no complaint, and the code that a shell gives to whoever lost its reader."""
    found = without_reader(*args, buffered=buffered)
    assert (found.returncode, found.stderr) == (FAILED, "")


@pytest.mark.parametrize("buffered", [True, False])
def test_a_reader_may_leave_a_table_early(buffered):
    found = without_reader("envs", buffered=buffered)
    assert (found.returncode, found.stderr) == (FAILED, "")


def test_a_reader_that_leaves_is_told_from_bad_input():
    """Which is found before anything is written."""
    found = without_reader("show", "two-rom", buffered=False)
    assert found.returncode == 2 and "did you mean 'two-rooms'?" in found.stderr


@pytest.mark.parametrize("columns", ["5", "60", "300"])
def test_the_list_fits_any_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= max(min(int(columns), 100), 66)


@pytest.mark.parametrize("stop, reason", [(KeyboardInterrupt(), "interrupted"), (KeyboardInterrupt("why"), "why")])
def test_ctrl_c_gives_a_reason(stop, reason, monkeypatch, capsys):
    def run(*args):
        raise stop

    monkeypatch.setattr("safedsr.cli._run", run)
    assert main(["envs"]) == FAILED
    assert capsys.readouterr().err == f"safedsr: {reason}\n"


def test_every_public_name_is_there():
    import safedsr

    for name in safedsr.__all__:
        assert getattr(safedsr, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = safedsr.nothing
