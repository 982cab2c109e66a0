"""Scenario files: what they mean, and what wrong ones are told."""

import json

import numpy as np
import pytest

from safedsr.cli import main
from safedsr.envs.grid.environment import make_grid
from safedsr.errors import UserError
from safedsr.paper import adaptation_plan as plan
from safedsr.scenario import sets
from safedsr.scenario.contestants import CONTESTANTS, find_contestant, learner_of
from safedsr.scenario.course import make_course
from safedsr.scenario.file import parse_scenario
from safedsr.scenario.learners import make_job, paper_stages

TEXT = """format = 1
name = "moving"
steps = 20_000

[environment]
map = "two-rooms"
costs = "diamond"
budget = 5

[[change]]
at = 10_000
shift = [2, 0]

[[change]]
at = 15_000
announced = false
grow = 1
budget = 3
"""


def course_of(text, **how):
    return make_course(parse_scenario(text, "my.toml"), **how)


def test_costs_move_grow_and_keep_off_walls():
    first, moved, grown = (phase.task for phase in course_of(TEXT).phases)
    layers = [np.asarray(task.params.costs)[0] for task in (first, moved, grown)]
    assert np.array_equal(layers[1][:, 2:], np.where(first.params.walls[:, 2:], 0, layers[0][:, :-2]))
    assert layers[2].sum() > layers[1].sum() and not layers[2][np.asarray(first.params.walls)].any()
    row, column = np.argwhere(layers[1])[0]  # the topmost cell: the one above it is new
    assert layers[2][row - 1, column] == 1 and layers[1][row - 1, column] == 0
    assert [task.budgets for task in (first, moved, grown)] == [(5.0,), (5.0,), (3.0,)]


def test_phases_follow_the_timetable():
    phases = course_of(TEXT).phases
    assert [(p.start, p.end, p.announced) for p in phases] == [
        (0, 10_000, True),
        (10_000, 15_000, True),
        (15_000, 20_000, False),
    ]
    assert [p.note for p in phases] == ["the first task", "shift 2, 0", "grow 1; budget 3"]
    quick = course_of(TEXT, quick=True)
    assert len(quick.phases) == 2 and quick.steps < 5_000 and quick.environment.spec.time_limit == 40


def test_goals_starts_rewards_and_hazards_change():
    text = TEXT.replace("shift = [2, 0]", "goal = [3, 1]\nstarts = [[0, 0], [0, 1]]\nreward = { goal = 2.0 }")
    text = text.replace("grow = 1", "hazard = { path = [[2.5, 2.5], [2.5, 8.5]], radius = 1, cost = 2, laps = 0.25 }")
    grounds = [phase.task.params for phase in course_of(text).phases]
    assert [g.layout.goal.tolist() for g in grounds] == [[20, 5], [3, 1], [3, 1]]
    assert [int(g.layout.num_starts) for g in grounds] == [1, 2, 2] and grounds[1].layout.starts.shape == (2, 2)
    assert [g.rewards.tolist() for g in grounds] == [pytest.approx([-0.01, r]) for r in (1, 2, 2)]
    assert [g.hazard.cost.tolist() for g in grounds] == [[0], [0], [2]] and float(grounds[2].hazard.pace) == 16
    assert grounds[2].hazard.path[0].tolist() == [2.5, 2.5] and grounds[2].hazard.path[32].tolist() == [2.5, 8.5]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("diamond", "diamont", "my.toml, line 7: costs: unknown cost shape 'diamont'; did you mean 'diamond'?"),
        ("[2, 0]", "[2]", "my.toml, line 12: shift is [2]; give 2 values"),
        ("15_000", "15_001", "my.toml, line 15: at is 15001; give a multiple of 500"),
        ("10_000", "30_000", "my.toml, line 11: at is 30000; give a step between 0 and 20000"),
        ("grow = 1", "grow = 0", "my.toml, line 17: grow is 0; give a number of cells from 1 to 100"),
        ("grow", "groww", "my.toml, line 17: groww: unknown field 'groww'; did you mean 'grow'?"),
        ("budget = 3", "budget = [3, 4]", "my.toml, line 18: budget is '3,4'; there are 1 costs"),
        ("shift = [2, 0]", "goal = [30, 1]", "my.toml, line 12: goal: the goal (row 2, column 31) is off the map"),
        ("format = 1", "format = 2", "my.toml, line 1: format is 2; this version reads 1"),
        ("shift = [2, 0]", "", "my.toml, line 10: change: nothing changes; give one of costs, budget"),
        (
            'map = "two-rooms"',
            'env = "cartpole"',
            "my.toml, line 7: costs: this is for maps; env takes budget and args",
        ),
        ("steps =", "steps", "my.toml: this is no TOML"),
        ("budget = 5\n", "", "my.toml, line 5: budget is None; give the largest allowed cost"),
        (
            "grow = 1",
            "hazard = { path = [[99, 1]] }",
            "my.toml, line 17: hazard.path is [99, 1]; it is off the map of 21 columns and 11 rows",
        ),
    ],
)
def test_errors_name_file_line_and_field(old, new, told):
    with pytest.raises(UserError) as error:
        course_of(TEXT.replace(old, new))
    assert str(error.value).startswith(told)


def test_changing_v1_is_frozen():
    scenarios = sets.changing_v1()  # compares every hash
    assert len(scenarios) == 12 and len(sets.hashes()) == 12
    for name, text in sets.public().items():
        assert (sets.folder(sets.SET) / f"{name}.toml").read_text(encoding="utf-8") == text
    names = {course.environment.name for course in map(make_course, scenarios)}
    assert names == {"grid", "changing-grid", "cartpole", "minecart"}
    other = sets.find_scenarios("changing-v1/held-out-7")
    assert len(other) == 6 and not {one.sha256 for one in other} & {one.sha256 for one in scenarios}
    minecart = next(one for one in scenarios if one.name == "minecart")
    assert set(np.diff(minecart.starts[1:])) == {10_000}


def test_a_changed_set_is_refused(monkeypatch):
    monkeypatch.setattr(sets, "PUBLIC_SEED", 5)
    with pytest.raises(UserError, match="is not the frozen scenario"):
        sets.changing_v1()


@pytest.mark.parametrize("change", plan.CHANGES)
def test_the_papers_experiment_is_such_a_file(change):
    (scenario,) = sets.find_scenarios(f"paper/{change.after}")
    course = make_course(scenario)
    assert course.environment is make_grid(plan.Scale().grid, 1)  # the same environment, and so the same program
    learner = learner_of(find_contestant("safedsr"), course.first)
    job = make_job(course, learner, tuple(range(10)), course.first)
    theirs = plan.make_job(
        "safedsr", plan.safedsr_config(plan.VARIANTS[0], plan.Scale()), change, plan.END, plan.Scale()
    )
    assert job.agent == theirs.agent and job.chunk == theirs.chunk
    for phase, task in zip(course.phases, theirs.tasks, strict=True):
        assert phase.task.budgets == task.budgets
        assert all(map(np.array_equal, phase.task.params, task.params))
    stages = paper_stages(course, job.agent.period)
    assert [(s.start, s.mode) for s in stages] == [(p.start, p.mode) for p in plan.PHASES]


def test_the_commands_list_and_show(capsys, tmp_path):
    assert main(["scenario", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["scenarios"]) == 15 and set(found["contestants"]) == set(CONTESTANTS)
    path = tmp_path / "my.toml"
    path.write_text(TEXT)
    picture = tmp_path / "timetable.png"
    assert main(["show", str(path), "--png", str(picture)]) == 0 and picture.stat().st_size > 5_000
    assert "silent" in capsys.readouterr().out
    path.write_text(TEXT.replace("[2, 0]", "[2]"))
    assert main(["show", str(path)]) == 2
    assert capsys.readouterr().err == f"safedsr: {path}, line 12: shift is [2]; give 2 values\n"
    assert main(["scenario", "run", "changing-v1/shape"]) == 2
    assert "unknown scenario of changing-v1 'shape'; did you mean 'shapes'?" in capsys.readouterr().err
