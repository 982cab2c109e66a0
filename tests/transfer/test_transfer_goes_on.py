"""Runs that go on: what a table and a state must be, and which files are left."""

import csv
import time

import numpy as np
import pytest

from safedsr.cli import main
from safedsr.errors import UserError
from safedsr.transfer import arms, saved
from safedsr.transfer import tasks as sets
from safedsr.transfer.others import Experiment, beside, require_same_tasks
from safedsr.transfer.run import run_arm, write_rows
from safedsr.transfer.summary import pack, read_courses

pytestmark = pytest.mark.usefixtures("compile_quickly")
TRIALS, STEPS, TASKS = (1, 2), 1000, 3
TABLE, STATE = "known.csv", ".work/known.safetensors"


@pytest.fixture(scope="module")
def given():
    return np.stack([sets.generated(trial, TASKS, number=7) for trial in TRIALS])


def go_on(folder, tasks, **more):
    return run_arm("known", tasks, TRIALS, folder, steps=STEPS, say=lambda text: None, **more)


@pytest.fixture(scope="module")
def halted(given, tmp_path_factory):
    """The files of a run that has been stopped after two of three tasks, by name."""
    folder = tmp_path_factory.mktemp("halted")
    for _ in range(2):
        go_on(folder, given, until=time.time() - 1)
    return {name: (folder / name).read_bytes() for name in (TABLE, STATE)}


@pytest.fixture
def folder(halted, tmp_path):
    """A folder with these files."""
    for name, content in halted.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


def rows_in(folder):
    with (folder / TABLE).open(newline="") as file:
        return list(csv.DictReader(file))


def keep(folder, rows):
    write_rows(folder / TABLE, rows)


def test_a_complete_run_leaves_its_table_alone_and_is_shown_without_a_state(folder, given):
    state = (folder / STATE).stat().st_size
    assert state < 8e6  # not all states that would have room
    rows = go_on(folder, given)
    assert (folder / STATE).stat().st_size < 2000
    before = (folder / TABLE).stat().st_mtime_ns
    assert [row["reward"] for row in go_on(folder, given)] == [str(row["reward"]) for row in rows]
    assert (folder / TABLE).stat().st_mtime_ns == before
    for other in ({"tasks": -given}, {"tasks": given[:, :2]}, {"tasks": given, "steps": 2 * STEPS}):
        with pytest.raises(UserError, match="is of other tasks, trials or settings"):
            run_arm("known", other["tasks"], TRIALS, folder, steps=other.get("steps", STEPS))
    (folder / STATE).unlink()
    assert len(go_on(folder, given)) == len(rows)
    with pytest.raises(UserError, match="is of other tasks, trials or settings"):
        go_on(folder, -given)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[:2],  # a task is missing
        lambda rows: rows[:3],  # a trial of the last task is missing
        lambda rows: [*rows[1:], rows[0]],
        lambda rows: [*rows[2:], *rows[2:]],
        lambda rows: [{**row, "trial": 1} for row in rows],
        lambda rows: [{**row, "reward": "nan"} for row in rows],
        lambda rows: [{**row, "rewards_of_shapes": "0 0 0"} for row in rows],
        lambda rows: [{**row, "agent": "unknown"} for row in rows],
    ],
)
def test_a_table_without_the_rows_that_the_state_needs_is_refused(change, folder, given):
    keep(folder, change(rows_in(folder)))
    with pytest.raises(
        UserError, match=r"the saved state needs its first 4 .*; to begin anew, delete .*known\.safetens"
    ):
        go_on(folder, given)


@pytest.mark.parametrize(
    "name, content, reason",
    [
        (TABLE, b"\xff\xfe\x00", "is no table; to begin anew, delete"),
        (TABLE, None, "is there, but not its table known.csv; to begin anew, delete"),
        (STATE, b"x", "is damaged: .*; to begin anew, delete"),
    ],
)
def test_damaged_and_missing_files_are_refused_with_what_to_do(name, content, reason, folder, given):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=reason):
        go_on(folder, given)


def test_a_damaged_table_without_a_state_is_refused(folder, given):
    (folder / STATE).unlink()
    (folder / TABLE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is no table; choose another --out, or delete it to begin anew"):
        go_on(folder, given)


def test_a_state_of_another_version_is_refused(folder, given):
    tensors, about = saved.storage.read_tensors(folder / STATE)
    saved.storage.write_tensors(folder / STATE, {**tensors, "000": np.zeros((9, 9))}, about)
    with pytest.raises(UserError, match="is of another version of safedsr; to begin anew"):
        go_on(folder, given)


def test_a_run_without_a_state_begins_anew_only_before_its_first_save(folder, given, monkeypatch):
    (folder / STATE).unlink()
    monkeypatch.setattr(arms, "SAVED_EVERY", 1)
    with pytest.raises(UserError, match="but no state to go on from; choose another --out, or delete it"):
        go_on(folder, given)
    monkeypatch.setattr(arms, "SAVED_EVERY", 2)  # killed during the first save
    assert len(go_on(folder, given, until=time.time() - 1)) == 2
    other = [{**row, "rewards_of_shapes": "0 0 0"} for row in rows_in(folder)]
    (folder / STATE).unlink()
    keep(folder, other)  # never over a table of something else
    with pytest.raises(UserError, match="is of other tasks"):
        go_on(folder, given)


def test_a_table_that_does_not_say_its_tasks_needs_sftcops_file(folder, given, tmp_path):
    (course,) = read_courses([folder])
    pack([course._replace(agent="sftcopql", shapes=None)], tmp_path / "plain")
    ours = Experiment(TRIALS, given[:, :2], STEPS, True, ("known",))
    with pytest.raises(UserError, match="--weights is another file: give SFT-CoP's"):
        beside([tmp_path / "plain"], ours)
    assert len(beside([tmp_path / "plain"], ours._replace(sftcops=True))) == 1
    own = np.stack([sets.generated(trial, 2) for trial in TRIALS])
    pack([course._replace(agent="sftcopql", shapes=own)], tmp_path / "named")  # a packed table of our tasks says so
    assert len(beside([tmp_path / "named"], ours._replace(tasks=own))) == 1
    with pytest.raises(UserError, match="on other tasks than those here"):
        beside([tmp_path / "named"], ours._replace(sftcops=True))


def test_a_packed_table_has_no_copy_of_a_file_of_tasks(folder, tmp_path):
    (course,) = read_courses([folder])  # not of our own set
    assert course.shapes is not None
    pack([course], tmp_path / "packed")
    assert "rewards_of_shapes" not in (tmp_path / "packed/known.csv").read_text()


def test_a_folder_with_tables_of_other_tasks_is_refused(folder, given):
    courses, ours = read_courses([folder]), Experiment(TRIALS, given, STEPS, False, ("unknown",))
    require_same_tasks(courses, ours, folder)
    with pytest.raises(UserError, match="with the trials 1, 2, and the trials 8, 9 are learnt here"):
        require_same_tasks(courses, ours._replace(trials=(8, 9)), folder)
    for other in (ours._replace(tasks=-given), ours._replace(steps=2000)):
        with pytest.raises(UserError, match="has a table of 'known' with other tasks or steps"):
            require_same_tasks(courses, other, folder)


def test_a_folder_with_a_second_table_or_without_tasks_is_refused(folder, given):
    courses, ours = read_courses([folder]), Experiment(TRIALS, given, STEPS, False, ("known",))
    with pytest.raises(UserError, match="has a second table of 'known'; move it away"):
        require_same_tasks(courses, ours, folder)
    nameless = [course._replace(shapes=None, agent="sftcopql") for course in courses]
    require_same_tasks(nameless, ours._replace(sftcops=True), folder)
    with pytest.raises(UserError, match="has a table of 'sftcopql' with other tasks"):
        require_same_tasks(nameless, ours, folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda row: {**row, "rewards_of_shapes": "0 0"},
        lambda row: {**row, "rewards_of_shapes": "0 0 0 0"},
        lambda row: {**row, "reward_every_1000": ""},
        lambda row: {**row, "traps_every_1000": ""},
        lambda row: {**row, "traps_every_1000": "1 2"},
    ],
)
def test_tables_with_lists_that_do_not_fit_are_refused(change, folder):
    keep(folder, list(map(change, rows_in(folder))))
    with pytest.raises(UserError, match="'rewards_of_shapes' has 3 of them, and sums within tasks are there for both"):
        read_courses([folder])


def test_damaged_means_are_refused_before_training(tmp_path, capsys):
    (tmp_path / "within.csv").write_bytes(b"\xff\xfe")
    assert main(["reproduce", "transfer", "--quick", "--out", str(tmp_path)]) == 2
    assert "within.csv is no table" in capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == 1


def test_one_task_has_no_figure_of_what_happens_within_later_ones(tmp_path, capsys):
    args = ["--quick", "--agents", "known,known", "--tasks", "1", "--trials", "1", "--out", str(tmp_path)]
    assert main(["reproduce", "transfer", *args]) == 0
    assert "Warning" not in capsys.readouterr().err
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert names == {"transfer-sums", "transfer-greedy"}


def test_a_damaged_table_of_means_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text(
        "agent,trial,task,reward,traps,greedy_reward,greedy_traps,greedy_goal,seconds\nx,1,1,1,1,1,1,1,1\n"
    )
    for content in (b"agent,thousand\nx,1\n", b"\xff\xfe", b"agent,thousand,reward,traps\nx,1,nan,1\n"):
        (tmp_path / "within.csv").write_bytes(content)
        with pytest.raises(UserError, match=r"within\.csv"):
            read_courses([tmp_path])
