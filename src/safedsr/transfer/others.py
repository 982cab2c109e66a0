"""Tables of other agents beside ours: of the same tasks, steps and trials; all others are refused."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from safedsr.errors import UserError
from safedsr.transfer.config import PART
from safedsr.transfer.summary import ROUNDED, Course, read_courses


class Experiment(NamedTuple):
    """What our agents learn."""

    trials: tuple[int, ...]
    tasks: np.ndarray  # [trials, tasks, kinds] rewards of the shapes
    steps: int  # in each task
    from_file: bool  # the tasks are those of --weights
    agents: tuple[str, ...]  # that have tables of their own
    sftcops: bool = False  # the tasks are those of SFT-CoP's file


def beside(paths: Sequence[Path], ours: Experiment) -> list[Course]:
    """The agents in tables, with the tasks and trials of our agents only."""
    whole = {course.agent: course for course in read_courses(paths, ours.tasks.shape[1])}
    return [_fitting(whole.get(course.agent, course), ours) for course in read_courses(paths)]


def _fitting(course: Course, ours: Experiment) -> Course:
    agent, (tasks, count) = course.agent, (course.values["reward"].shape[1], ours.tasks.shape[1])
    if agent in ours.agents:
        raise UserError(f"--theirs has the agent '{agent}', which has a table here; leave one of them out")
    both = [trial for trial in ours.trials if trial in course.trials]
    if tasks < count or not both:
        raise UserError(
            f"--theirs has {tasks} tasks of '{agent}' in the trials {_list(course.trials)}; here, {count} tasks are "
            f"learnt in the trials {_list(ours.trials)}: give --tasks, --trials and --first-trial that fit"
        )
    course = course.only(both, count)
    if course.within and PART * course.within["reward"].shape[2] != ours.steps:
        steps = PART * course.within["reward"].shape[2]
        raise UserError(f"--theirs has '{agent}' with {steps} steps a task; agents have {ours.steps} here")
    _check_tasks(course, ours)
    return course


def _check_tasks(course: Course, ours: Experiment) -> None:
    """Refuse a table of other tasks; one that does not say its tasks must be of those of SFT-CoP's file."""
    if course.shapes is None:
        if not ours.sftcops:
            give = "--weights is another file: give" if ours.from_file else "give --weights FILE,"
            raise UserError(
                f"the table of '{course.agent}' in --theirs does not say its tasks, so they are taken to be those of "
                f"SFT-CoP's file; {give} SFT-CoP's utils/shapes_weights.csv, to learn these here"
            )
        return
    mine = ours.tasks[[ours.trials.index(trial) for trial in course.trials]]
    if not np.allclose(course.shapes, mine, atol=ROUNDED):
        here = "those of --weights" if ours.from_file else "our own, because --weights FILE is not given"
        raise UserError(f"--theirs has '{course.agent}' on other tasks than those here, which are {here}")


def require_same_tasks(courses: Iterable[Course], ours: Experiment, folder: Path) -> None:
    """Refuse a folder with tables of other tasks or steps, which would stand beside ours."""
    for course in courses:
        if course.agent in ours.agents:
            raise UserError(f"{folder} has a second table of '{course.agent}'; move it away, or choose another --out")
        trials = [trial for trial in ours.trials if trial in course.trials]
        if not trials:
            raise UserError(
                f"{folder} has a table of '{course.agent}' with the trials {_list(course.trials)}, and the trials "
                f"{_list(ours.trials)} are learnt here; choose another --out"
            )
        count = min(course.values["reward"].shape[1], ours.tasks.shape[1])
        same = course.only(trials, count)
        mine = ours.tasks[[ours.trials.index(trial) for trial in trials], :count]
        if same.shapes is None:  # its tasks are taken to be those of SFT-CoP's file
            other_tasks = not ours.sftcops
        else:
            other_tasks = not np.allclose(same.shapes, mine, atol=ROUNDED)
        if other_tasks or (course.within and PART * course.within["reward"].shape[2] != ours.steps):
            raise UserError(f"{folder} has a table of '{course.agent}' with other tasks or steps; choose another --out")


def _list(trials: Iterable[int]) -> str:
    return ", ".join(map(str, trials))
