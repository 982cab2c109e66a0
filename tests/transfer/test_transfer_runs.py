"""Tasks in a row: runs, what they save, tables and figures."""

import csv
import time

import numpy as np
import pytest

from safedsr.cli import main
from safedsr.errors import UserError
from safedsr.figures.transfer import draw_all
from safedsr.transfer import tasks as sets
from safedsr.transfer.arms import ARMS
from safedsr.transfer.config import TransferConfig
from safedsr.transfer.others import Experiment, beside
from safedsr.transfer.run import run_arm, write_rows
from safedsr.transfer.summary import pack, read_courses, summary_rows

pytestmark = pytest.mark.usefixtures("compile_quickly")
TRIALS, STEPS = (1, 2), 2000
HEAD, ROW = "agent,trial,task,reward,traps,greedy_reward,greedy_traps,greedy_goal,seconds", "1,0,1,0,1,2"


@pytest.fixture(scope="module")
def given():
    return np.stack([sets.generated(trial, 3, number=7) for trial in TRIALS])


@pytest.fixture(scope="module")
def straight(given, tmp_path_factory):
    """The folder of an agent that has run without a pause, and its rows."""
    folder = tmp_path_factory.mktemp("straight")
    return folder, run_arm("known", given, TRIALS, folder, steps=STEPS, say=lambda text: None)


def without_seconds(rows):
    return [{name: str(value) for name, value in row.items() if name != "seconds"} for row in rows]


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(straight, given, tmp_path):
    rows: list = []
    write_rows(tmp_path / "known.csv", straight[1][:4])  # of a run that was stopped before its first save
    for _ in range(3):  # a task a call
        assert len(rows) < 6
        rows = run_arm("known", given, TRIALS, tmp_path, steps=STEPS, until=time.time() + 0.01, say=lambda text: None)
    assert without_seconds(rows) == without_seconds(straight[1])


def test_an_agent_meets_fewer_traps_in_later_tasks_and_remembers_its_states(straight):
    rows = straight[1]
    first, last = ([row for row in rows if row["task"] == task] for task in (1, 3))
    assert sum(row["traps"] for row in last) < 0.3 * sum(row["traps"] for row in first)
    assert all(after["states"] >= before["states"] > 100 for before, after in zip(first, last, strict=True))
    assert all(row["lost"] == 0 and row["stored"] == 2 for row in last)


def test_an_agent_without_knowledge_runs_too(given, tmp_path):
    rows = run_arm("unknown", given, TRIALS, tmp_path, steps=STEPS, say=lambda text: None)
    assert len(rows) == 6 and all(np.isfinite(row["reward"]) for row in rows)


def test_an_agent_without_memory_of_steps_keeps_its_numbers_of_states(given, tmp_path):
    rows = run_arm("known-no-memory", given[:, :2], TRIALS, tmp_path, steps=STEPS, say=lambda text: None)
    first, last = ([row["states"] for row in rows if row["task"] == task] for task in (1, 2))
    assert all(after >= before > 100 for before, after in zip(first, last, strict=True))


def test_an_agent_without_passes_for_epsilon_0_acts_by_m_as_it_is(straight, given, tmp_path):
    rows = run_arm("known-no-settling", given, TRIALS, tmp_path, steps=STEPS, say=lambda text: None)
    same = ("reward", "traps", "lambda", "states")  # in training
    assert [[row[name] for name in same] for row in rows] == [[row[name] for name in same] for row in straight[1]]
    greedy = [[row["greedy_reward"] for row in found] for found in (rows, straight[1])]
    assert greedy[0] != greedy[1]


def test_another_experiment_in_the_same_folder_is_refused(straight, given):
    with pytest.raises(UserError, match="other tasks, trials or settings"):
        run_arm("known", given + 1, TRIALS, straight[0], steps=STEPS)
    with pytest.raises(UserError, match="did you mean 'known'"):
        run_arm("knwon", given, TRIALS, straight[0])


def test_tables_of_others_stand_beside_ours(straight, tmp_path):
    folder, rows = straight
    theirs = [{**row, "agent": "sftcopql", "reward": 1.0, "traps": 40} for row in rows]
    for row in theirs:
        row["traps_every_1000"] = "30 40" if row["task"] == 2 else "5 10"
    with (tmp_path / "sftcopql-01.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(theirs[0]))
        writer.writeheader()
        writer.writerows(theirs)
    courses = read_courses([folder, tmp_path])
    assert [course.name for course in courses] == ["SFT-CoP", "ours, same knowledge"]
    assert courses[0].means("traps").tolist() == [40.0, 40.0] and courses[0].trials == TRIALS
    assert courses[0].values["kept"].tolist() == [[0.0, 1000.0, 0.0]] * 2
    line = summary_rows(courses)[0]
    assert line[:4] == ("SFT-CoP", "2 × 3", "1 (1 … 1)", "40 (40 … 40)")
    drawn = draw_all(courses, tmp_path / "figures")
    assert [path.stem for path in drawn] == ["transfer-sums", "transfer-greedy", "transfer-within"]
    assert all(path.stat().st_size > 10_000 for path in drawn)
    less = courses[1]._replace(agent="known-no-library")
    assert [path.stem for path in draw_all([*courses, less], tmp_path / "more")][3:] == ["transfer-parts"]


def test_packed_tables_say_the_same(straight, tmp_path):
    courses = read_courses([straight[0]])
    paths = pack(courses, tmp_path)
    assert [path.name for path in paths] == ["known.csv", "within.csv"]
    again = read_courses([tmp_path])
    assert summary_rows(again)[0][:5] == summary_rows(courses)[0][:5] and not again[0].within
    assert np.array_equal(again[0].values["kept"], courses[0].values["kept"])
    assert np.allclose(again[0].values["lambda"], courses[0].values["lambda"], atol=1e-3)
    assert courses[0].shapes is not None and courses[0].shapes.shape == (2, 3, 3)
    parts = (tmp_path / "within.csv").read_text().splitlines()
    assert parts[0] == "agent,thousand,reward,traps" and len(parts) == 1 + STEPS // 1000
    assert float(parts[1].split(",")[3]) == pytest.approx(courses[0].within["traps"][:, 1:, 0].mean(), abs=1e-3)


def test_packing_one_agent_again_keeps_the_others(straight, tmp_path):
    (known,) = read_courses([straight[0]])
    other = known._replace(agent="unknown", within={name: 2 * rows for name, rows in known.within.items()})
    pack([known, other], tmp_path)
    before = (tmp_path / "within.csv").read_text().splitlines()
    third = known._replace(agent="known", within={name: 3 * rows for name, rows in known.within.items()})
    pack([third], tmp_path)
    after = (tmp_path / "within.csv").read_text().splitlines()
    assert [line for line in after if line.startswith("unknown,")] == [b for b in before if b.startswith("unknown,")]
    three, two = (np.asarray(course.parts("reward")) for course in read_courses([tmp_path]))
    assert three == pytest.approx(1.5 * two, abs=0.01) and three.shape == (1, 2)
    drawn = draw_all(read_courses([tmp_path]), tmp_path / "figures")  # small tables are enough for all figures
    assert [path.stem for path in drawn] == ["transfer-sums", "transfer-greedy", "transfer-within"]


def test_only_trials_with_enough_tasks_count(tmp_path):
    for agent, trials in (("known", (3, 2)), ("unknown", (1,))):  # so many tasks of each trial
        lines = [f"{agent},{n + 1},{t + 1},{ROW}" for n, tasks in enumerate(trials) for t in range(tasks)]
        (tmp_path / f"{agent}.csv").write_text("\n".join([HEAD, *lines, ""]))
    assert [(c.agent, c.trials, c.values["traps"].shape) for c in read_courses([tmp_path])] == [
        ("known", (1, 2), (2, 2)),
        ("unknown", (1,), (1, 1)),
    ]
    assert [(c.agent, c.trials, c.values["traps"].shape) for c in read_courses([tmp_path], 3)] == [
        ("known", (1,), (1, 3))
    ]


def test_a_table_without_a_column_is_refused(tmp_path):
    (tmp_path / "other.csv").write_text("agent,trial,task\nx,1,1\n")
    with pytest.raises(UserError, match="no column 'reward'"):
        read_courses([tmp_path])


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"\xff\xfe\x00", "is no table"),
        (f"{HEAD}\nx,1,a,{ROW}\n".encode(), "has a gap or no finite number"),
        (f"{HEAD}\nx,1,1,nan,0,1,0,1,2\n".encode(), "has a gap or no finite number"),
        (f"{HEAD}\nx,1,1,1,0,inf,0,1,2\n".encode(), "has a gap or no finite number"),
        (f"{HEAD}\nx,1,2,{ROW}\n".encode(), "its tasks are 1, 2, 3"),
    ],
)
def test_a_damaged_table_is_refused(content, reason, tmp_path):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(UserError, match=reason):
        read_courses([tmp_path])


def test_one_agent_in_two_tables_is_refused(tmp_path, capsys):
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text(f"{HEAD}\nknown,1,1,{ROW}\n")
    with pytest.raises(UserError, match="both have trial 1 of 'known'"):
        read_courses([tmp_path])
    theirs = ["--full", "--agents", "known", "--theirs", str(tmp_path / "one.csv")]
    assert main(["reproduce", "transfer", *theirs]) == 2
    assert "--theirs has the agent 'known', which has a table here" in capsys.readouterr().err


@pytest.fixture
def written(tmp_path):
    """Writes a table of another agent with the first tasks of a set: (trials, tasks, set, steps) -> its path."""

    def write(trials=TRIALS, tasks=3, number=7, steps=STEPS, named=True):
        lines = [",".join([HEAD, "reward_every_1000", "traps_every_1000", *(["rewards_of_shapes"] if named else [])])]
        parts = " ".join(["1"] * (steps // 1000))
        for trial in trials:
            for task, row in enumerate(sets.generated(trial, tasks, number=number), 1):
                shapes = [" ".join(f"{x:.4f}" for x in row)] if named else []
                lines.append(",".join([f"sftcopql,{trial},{task},{ROW},{parts},{parts}", *shapes]))
        (tmp_path / "theirs.csv").write_text("\n".join([*lines, ""]))
        return [tmp_path / "theirs.csv"]

    return write


def test_other_agents_stand_beside_ours_in_the_same_trials_and_tasks(written, given):
    ours = Experiment(TRIALS, given, STEPS, False, ("known",))
    (course,) = beside(written((1, 2, 3), 5), ours)
    assert course.trials == TRIALS and course.values["reward"].shape == (2, 3)
    assert course.shapes is not None and np.allclose(course.shapes, given, atol=1e-4)
    (course,) = beside(written(named=False), ours._replace(from_file=True, sftcops=True))  # must be of SFT-CoP's tasks
    assert course.shapes is None and course.trials == TRIALS


@pytest.mark.parametrize(
    "table, reason",
    [
        ({"steps": 5000}, "'sftcopql' with 5000 steps a task; agents have 2000 here"),
        ({"tasks": 2}, "2 tasks of 'sftcopql' in the trials 1, 2; here, 3 tasks are learnt in the trials 1, 2"),
        ({"trials": (4, 5)}, "in the trials 4, 5; here, 3 tasks are learnt in the trials 1, 2"),
        ({"number": 8}, "other tasks than those here, which are our own"),
        ({"named": False}, "does not say its tasks"),
    ],
)
def test_agents_of_other_tasks_steps_or_trials_do_not_stand_beside_ours(table, reason, written, given):
    with pytest.raises(UserError, match=reason):
        beside(written(**table), Experiment(TRIALS, given, STEPS, False, ("known",)))


def test_a_folder_without_tables_and_a_table_without_rows_are_refused(tmp_path):
    (tmp_path / "within.csv").write_text("agent,thousand,reward,traps\n")
    with pytest.raises(UserError, match="has no table"):
        read_courses([tmp_path])
    (tmp_path / "known.csv").write_text(f"{HEAD}\n")
    with pytest.raises(UserError, match=r"known\.csv has no rows"):
        read_courses([tmp_path])


def test_our_tasks_are_uniform_and_other_sets_are_others():
    found = np.concatenate([sets.generated(trial) for trial in range(1, 11)])
    assert found.shape == (1280, 3) and np.abs(found).max() <= 1
    share = np.sort(found.ravel())
    assert np.abs((share + 1) / 2 - np.arange(1, share.size + 1) / share.size).max() < 0.03  # Kolmogorov and Smirnov
    assert not np.array_equal(sets.generated(1), sets.generated(1, number=7))
    assert np.array_equal(sets.generated(2, 5), sets.generated(2)[:5])


def test_tasks_from_a_file(tmp_path):
    path, rows = tmp_path / "weights.csv", np.random.default_rng(0).uniform(-1, 1, (2 * sets.TASKS, 3))
    np.savetxt(path, rows, delimiter=",")
    assert np.allclose(sets.from_file(path, 2, 4), rows[sets.TASKS : sets.TASKS + 4])
    with pytest.raises(UserError, match="trial 3 needs lines 257 to 384"):
        sets.from_file(path, 3)
    assert not sets.is_sftcops(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # a byte order mark
    assert np.allclose(sets.from_file(path, 1, 4), rows[:4])
    for content, reason in (
        (b"a,b\n", r"three numbers a line"),
        (b"\n", "it has no numbers; give a csv file"),
        (b"# nothing\n", "it has no numbers; give a csv file"),
        (b"\xff\xfe\x00", "cannot read tasks from"),
        (b"0,0,0\n0,-1.5,0\n", r"line 2: a reward is -1\.5; give numbers between -1 and 1"),
        (b"0,0,0\n0,0,nan\n", r"line 2: a reward is nan"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=reason):
            sets.from_file(path, 1, 2)


def test_settings_are_checked():
    with pytest.raises(UserError, match="the first must divide 1000, and that the second"):
        TransferConfig(steps=150)
    with pytest.raises(UserError, match="epsilon"):
        TransferConfig(epsilon=2.0)
    assert all(arm.epsilon == 0.12 and arm.gamma == 0.95 and arm.steps == 20_000 for arm in ARMS.values())


@pytest.mark.parametrize(
    "args, reason",
    [
        ([], "choose either --quick"),
        (["--quick", "--tasks", "0"], "--tasks is 0; give 1 to 128"),
        (["--quick", "--agents", "knwon"], "did you mean 'known'"),
        (
            ["--quick", "--weights", "nowhere.csv"],
            "cannot read tasks from nowhere.csv: No such file or directory; give",
        ),
        (["--quick", "--agents", "known,unknwon"], "did you mean 'unknown'"),
        (["--full", "--theirs", "nowhere.csv"], "cannot read nowhere.csv"),
        (["--quick", "--theirs", "nowhere.csv"], "--theirs is for --full only: with --quick, tasks have 5000 steps"),
        (["--quick", "--agents", ","], "--agents names no agent; give some of known, unknown"),
        (["--quick", "--trials", "x"], "--trials: 'x' is no whole number"),
    ],
)
def test_wrong_input_is_answered_with_what_is_possible(args, reason, capsys):
    assert main(["reproduce", "transfer", *args]) == 2
    assert reason in capsys.readouterr().err


def test_the_command_prints_its_table(tmp_path, capsys):
    args = ["--quick", "--agents", "known", "--tasks", "2", "--trials", "2", "--out", str(tmp_path / "out")]
    assert main(["reproduce", "transfer", *args]) == 0
    out = capsys.readouterr().out
    assert "ours, same knowledge" in out and "NOT comparable" in out and (tmp_path / "out/known.csv").is_file()
