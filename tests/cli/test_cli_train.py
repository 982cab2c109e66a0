"""The commands about training, on the tiny run that other tests train in Python."""

import contextlib
import json
import signal
import subprocess
import sys

import pytest
from test_evaluate import goalless, walker
from tiny import same_trees

from safedsr.agents.registry import ALGORITHMS
from safedsr.cli import display, main
from safedsr.engine.evaluate import evaluate
from safedsr.engine.program import Program
from safedsr.runs import storage
from safedsr.runs.folder import load_run

pytestmark = pytest.mark.usefixtures("compile_quickly")
TINY = [
    *("--seeds", "2", "--budget", "1", "--time-limit", "12", "--steps", "160", "--chunk", "20"),
    *("--checkpoint-seconds", "0", "--trajectories", "40", "--batch-size", "8", "--buffer-size", "40"),
    *("--train-start", "20", "--train-every", "5", "--sync-every", "20", "--hidden", "8"),
    *("--epsilon-end", "0.2", "--epsilon-from", "20", "--epsilon-to", "100"),
    *("--penalty-start", "60", "--lam-lr", "0.0625"),
]


@pytest.fixture
def corridor_map(write_map):
    return write_map("SCG", "corridor.txt")


def stop_at(step, monkeypatch, folder):
    """Make the display ask for a stop after that step."""

    @contextlib.contextmanager
    def progress_bar(title):
        yield lambda p: (folder / "stop").touch() if p.step == step else None

    monkeypatch.setattr(display, "progress_bar", progress_bar)


def same_policy(one, other):
    return same_trees(*(storage.read_tensors(folder / "policy.safetensors")[0] for folder in (one, other)))


def test_train_is_what_python_trains(capsys, tmp_path, corridor_map, trained):
    out = tmp_path / "run"
    assert main(["train", "safedqn", "--out", str(out), "--layout", corridor_map, *TINY]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"run folder: {out}\n"
    lines = printed.err.splitlines()
    assert lines[0].startswith("safedqn 20/160 ") and lines[-1].startswith("safedqn 160/160 ")
    assert storage.read_json(out / "config.json") == storage.read_json(trained("safedqn") / "config.json")
    assert same_policy(out, trained("safedqn"))


def test_stop_and_resume(capsys, monkeypatch, tmp_path, corridor_map, trained):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_at(80, patch, out)
        assert main(["train", "safedqn", "--out", str(out), "--layout", corridor_map, *TINY]) == 1
    printed = capsys.readouterr()
    assert printed.err == f"safedsr: stopped at step 80 of 160, all saved in {out}; go on with --resume\n"
    assert main(["train", "safedqn", "--out", str(out), "--resume"]) == 0
    assert capsys.readouterr().out == f"run folder: {out}\n"
    assert same_policy(out, trained("safedqn"))
    assert main(["train", "safedqn", "--out", str(out), "--resume", "--steps", "200"]) == 0
    assert load_run(out).curves["step"].max() == 200 and not same_policy(out, trained("safedqn"))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["safedqn", "--gamma", "0.5"], "--gamma is 0.5 and the run in {run} has 0.99; leave --gamma out"),
        (
            ["safedqn", "--steps=200", "--batch-size=9"],
            "--batch-size is 9 and the run in {run} has 8; leave --batch-size out",
        ),
        (["safedsr"], "trains 'safedqn', not 'safedsr'; write: safedsr train safedqn --out {run} --resume"),
        (
            ["safedqn", "--steps", "80"],
            "{run} has 160 steps already; steps is 80: give more steps",
        ),
        (["safedqn", "--steps", "210"], "steps is 210; give a multiple of the chunk (20)"),
    ],
)
def test_resume_does_not_contradict_its_run(capsys, trained, args, message):
    run = trained("safedqn")
    assert main(["train", *args, "--out", str(run), "--resume"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("safedsr: ") and printed.err.count("\n") == 1
    assert message.format(run=run) in printed.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["safe-dsr"], "unknown algorithm 'safe-dsr'; did you mean 'safedsr'?"),
        (["safedqn", "--layout", "two-rom"], "unknown layout 'two-rom'; did you mean 'two-rooms'?"),
        (["safedqn"], "layout 'one-room' has no costs and safedqn needs some; give --costs"),
        (["safedqn", "--costs", "dimond"], "did you mean 'diamond'?"),
        (["safedqn", "--costs", "diamond", "--budget", "1,2"], "budget is '1,2'; there are 1 costs"),
        (["safedqn", "--costs", "diamond", "--seeds", "0"], "seeds is 0; give a number from 1 to 100000"),
        (
            ["safedqn", "--costs", "diamond", "--first-seed", "-1"],
            "first_seed is -1; seeds are numbers from 0 to 2³² - 1",
        ),
        (["safedqn", "--costs", "diamond", "--steps", "700"], "steps is 700"),
        (["safedqn", "--costs", "diamond", "--batch-size", "20000"], "buffer_size is 10000; it must hold a batch"),
        (["safedsr", "--costs", "diamond", "--freeze", "500"], "freeze is 500; φ trains from 15000 on"),
        (["dqn", "--costs", "diamond"], "dqn takes none"),
        (["safedqn", "--resume"], "layout 'one-room' has no costs"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_folder(capsys, tmp_path, args, message):
    assert main(["train", *args, "--out", str(tmp_path / "run")]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("safedsr: ") and printed.err.count("\n") == 1
    assert message in printed.err and not (tmp_path / "run").exists()


def test_a_folder_that_is_not_empty(capsys, tmp_path, corridor_map):
    (tmp_path / "letter.txt").write_text("dear")
    assert main(["train", "safedqn", "--out", str(tmp_path), "--layout", corridor_map, *TINY]) == 2
    assert "is not empty; choose another folder, or --resume" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corridor.txt", "letter.txt"]


def test_a_training_that_breaks_down(capsys, monkeypatch, tmp_path, corridor_map):
    monkeypatch.setattr(Program, "first_bad", lambda self, state: ("learner/q", 0, 1))
    assert main(["train", "safedqn", "--out", str(tmp_path / "run"), "--layout", corridor_map, *TINY]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("safedsr: 'learner/q' is not finite at step 20, seed 1 in corridor, cost; ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_ends(tmp_path, corridor_map, trained, number):
    trained("safedqn")  # compiles
    out = tmp_path / "run"
    args = ["train", "safedqn", "--out", str(out), "--layout", corridor_map, *TINY, "--steps", "1000000"]
    # Under nohup or in the background, processes ignore some signals from their start.
    hears = f"import os, signal, sys; signal.signal({number:d}, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", hears, sys.executable, "-m", "safedsr.cli", *args]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process:
        assert process.stderr.readline().startswith("safedqn 20/1000000 ")
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == 1 and "Traceback" not in rest
    assert "stopping after this chunk; a second Ctrl-C stops at once\n" in rest
    assert "of 1000000, all saved in" in rest and list((out / "checkpoint").glob("state-*"))


def test_evaluate_as_json(capsys, trained):
    assert main(["evaluate", str(trained("safedqn")), "--episodes", "20", "--epsilon", "0.5", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["environment"], row["seed"], row["episodes"]) for row in rows] == [
        ("corridor, cost", 0, 20),
        ("corridor, cost", 1, 20),
    ]
    for row in rows:
        for name in ("goal_rate", "safe_goal_rate"):
            assert 0 <= row[name]["low"] <= row[name]["value"] <= row[name]["high"] <= 1
        assert len(row["cost"]) == 1 and row["length"]["value"] <= 12
        assert row["safe_goal_rate"]["value"] <= row["goal_rate"]["value"]


def test_evaluate_as_table(capsys, monkeypatch, trained):
    monkeypatch.setenv("COLUMNS", "200")
    args = ["--episodes", "10", "--seed", "1", "--costs", "none", "--budget", "3"]
    assert main(["evaluate", str(trained("safedqn")), *args]) == 0
    printed = capsys.readouterr().out
    assert "corridor, none" in printed and "corridor, cost" in printed and "safe goal rate" in printed
    assert "trained on" in printed and "evaluated on" in printed
    assert printed.endswith("10 episodes each, ε = 0; mean and 95 % interval\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--seed", "5"], "seed is 5; the run has 0, 1"),
        (["--episodes", "0"], "episodes is 0"),
        (["--epsilon", "2"], "epsilon is 2.0; give a share between 0 and 1"),
        (["--costs", "dimond"], "did you mean 'diamond'?"),
        (["--costs", "diamond"], "cost shape 'diamond' is drawn for rooms"),
        (["--budget", "1,2"], "budget is '1,2'; there are 1 costs"),
    ],
)
def test_bad_evaluations(capsys, trained, args, message):
    assert main(["evaluate", str(trained("safedqn")), *args]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and message in printed.err and printed.err.count("\n") == 1


def test_evaluate_nothing(capsys, tmp_path):
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "holds no policy (give a run folder)" in capsys.readouterr().err


def test_algos(capsys):
    assert main(["algos"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == list(ALGORITHMS) and lines[1].startswith("  safedsr-plus  ") and "(recommended)" in lines[1]
    starts = {line.index(ALGORITHMS[line.split()[0]].about) for line in lines if line.startswith("  ")}
    assert len(starts) == 1  # the descriptions line up
    assert main(["algos", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {name: algorithm.about for name, algorithm in ALGORITHMS.items()}
    assert {"safedsr", "safedqn", "dsr", "dqn"} <= found.keys()


def test_a_budget_of_the_mean(capsys, monkeypatch, tmp_path, corridor_map):
    monkeypatch.setenv("COLUMNS", "200")
    out, args = tmp_path / "run", ["--layout", corridor_map, *TINY, "--budget-kind"]
    assert main(["train", "safedqn", "--out", str(out), *args, "discounted-mean"]) == 0
    assert storage.read_json(out / "config.json")["budget_kind"] == "discounted-mean"
    assert "return " in capsys.readouterr().err
    assert main(["evaluate", str(out), "--episodes", "20"]) == 0
    assert "discounted cost" in capsys.readouterr().out
    assert main(["train", "safedqn", "--out", str(tmp_path / "other"), *args, "mean"]) == 2
    assert capsys.readouterr().err == "safedsr: budget_kind is 'mean'; give episode or discounted-mean\n"


def test_an_evaluation_without_goals(capsys, monkeypatch, trained):
    agent = goalless(walker("left"))
    monkeypatch.setattr("safedsr.agent.evaluate_run", lambda *_: [(agent, agent.task, evaluate(agent, episodes=10))])
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["evaluate", str(trained("safedqn")), "--episodes", "10"]) == 0
    shown = capsys.readouterr().out
    assert "safe episodes" in shown and "return" in shown and "goal" not in shown
