"""Run contestants in scenarios. A finished seed has its result file; an interrupted one goes on from its last save."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safedsr.core.config import Matmul
from safedsr.engine.compiled import keep_compiled
from safedsr.runs import storage
from safedsr.scenario.adaptive import Adaptive, alike, first_phase, run_adaptive, shared_steps
from safedsr.scenario.contestants import Contestant, learner_of, left_out
from safedsr.scenario.course import Course, make_course
from safedsr.scenario.diary import Diary, state_file
from safedsr.scenario.file import Scenario
from safedsr.scenario.guests import run_guest
from safedsr.scenario.learners import run_learner
from safedsr.scenario.oracles import find_best, oracle_episodes
from safedsr.scenario.place import Place, Timer, claimed, place_at
from safedsr.scenario.provenance import made_with, settings_hash, shared_hash, stamp
from safedsr.scenario.reference import reference
from safedsr.scenario.results import Finished, judge, result_file

WORK = ".work"  # states of unfinished runs and of first phases, in the folder of a scenario; it may be deleted
SAY_SECONDS = 15.0
Say = Callable[[str], None]


class How(NamedTuple):
    """How scenarios are run."""

    out: Path
    say: Say = print
    quick: bool = False
    matmul: Matmul = "float32"
    timer: Timer = Timer()
    only_first_phase: bool = False
    share_accelerator: bool = False  # by the processes of `workers`


def run(scenarios: Sequence[Scenario], contestants: Sequence[Contestant], seeds: tuple[int, ...], how: How) -> None:
    """Run every contestant in every scenario, except those that are done or that another process runs.

    Raises `OutOfTime` when the time is over; everything is saved then.
    """
    keep_compiled()
    finished = Finished(how.out)
    for scenario in scenarios:
        course = make_course(scenario, quick=how.quick, matmul=how.matmul)
        storage.make_folder(how.out / course.name)
        for one in contestants:
            if why := left_out(one, [phase.announced for phase in course.phases[1:]]):
                how.say(f"{course.name}: {one.name} is left out: {why}")
            elif not how.only_first_phase:
                _run_one(course, one, seeds, finished, how)
            elif one.algorithm == "safedsr-plus":
                settings = settings_hash(course, one)
                missing = tuple(seed for seed in seeds if not finished.has(course, one.name, seed, settings))
                _run_first(course, one, missing, how)
            else:
                how.say(f"{course.name}: {one.name} shares no first phase with others")


def _run_first(course: Course, one: Contestant, seeds: tuple[int, ...], how: How) -> None:
    """Train the first phase that all variants of an agent share."""
    learner, base = learner_of(one, course.first, elsewhere=course.grid is None), _base(course, one, how)
    end = shared_steps(course, learner)
    missing = tuple(seed for seed in seeds if base.step(seed) < end)
    if missing:
        how.say(f"{course.name}: the first phase of {one.algorithm}, {len(missing)} seeds, {end} steps")
        first_phase(course, learner, missing, _diary(course, missing), base)


def _run_one(course: Course, one: Contestant, seeds: tuple[int, ...], finished: Finished, how: How) -> None:
    """Run the seeds of a contestant that are not done and that no other process runs."""
    settings = settings_hash(course, one)
    place = _place(course, one.name, settings, how)
    missing = [seed for seed in seeds if not finished.has(course, one.name, seed, settings)]
    with claimed(place.folder, missing) as own:
        if busy := [seed for seed in missing if seed not in own]:
            how.say(f"{course.name}: {one.name}, seeds {', '.join(map(str, busy))}: another process runs them")
        own = [seed for seed in own if not finished.has(course, one.name, seed, settings)]
        for some in _batches(course, one, own, place, how):
            how.timer.check()
            how.say(f"{course.name}: {one.name}, seeds {', '.join(map(str, some))}, {course.steps} steps")
            diary = _diary(course, some)
            _take_part(course, one, diary, place, how)
            known = reference(course, how.out)
            for index, seed in enumerate(some):
                result = judge(course, one.name, diary, index, known, made_with(course, settings, len(some)))
                path = result_file(how.out, course.name, one.name, seed)
                storage.make_folder(path.parent)
                storage.write_json(path, result)
                place.forget(seed)


def _batches(
    course: Course, one: Contestant, seeds: Sequence[int], place: Place, how: How
) -> Sequence[tuple[int, ...]]:
    """The seeds that are run together: those that are at the same step."""
    if one.kind == "guest":
        return [(seed,) for seed in seeds]
    for seed in seeds:
        if place.step(seed) < 0 and state_file(place.folder, seed).exists():
            how.say(
                f"{course.name}: {one.name}, seed {seed} begins anew: its state is damaged, or of another scenario or "
                "other settings"
            )
            place.forget(seed)
    return alike(seeds, place.step)


def _diary(course: Course, seeds: Sequence[int]) -> Diary:
    return Diary(seeds, len(course.phases), course.environment.spec.costs)


def _place(course: Course, name: str, settings: str, how: How) -> Place:
    work = how.out / course.name / (f"{WORK}-quick" if course.quick else WORK)
    return place_at(work / name, _shown(f"{course.name}: {name}", how.say), stamp(course, settings), how.timer)


def _base(course: Course, one: Contestant, how: How) -> Place:
    """The place of the first phase that all variants of an agent share."""
    return _place(course, f"{one.algorithm}-first", shared_hash(course, one), how)


def _take_part(course: Course, one: Contestant, diary: Diary, place: Place, how: How) -> None:
    seeds = diary.seeds
    if one.kind == "oracle":
        for phase in course.phases:
            best = find_best(course, phase.number)
            for seed in seeds:
                diary.add_episodes(seed, oracle_episodes(course, phase, best, seed))
        return
    if one.kind == "guest":
        run_guest(course, one.algorithm, seeds, diary)
        return
    learner = learner_of(one, course.first, elsewhere=course.grid is None)
    if one.kind == "adaptive":
        run_adaptive(course, Adaptive(learner, one.level), seeds, diary, place, _base(course, one, how))
        return
    if one.algorithm == "safedsr-plus" and not place.there(seeds):  # it shares its first phase with the others
        state = first_phase(course, learner, seeds, diary, _base(course, one, how))
        diary.save(place.folder, state, place.stamp)
    run_learner(course, learner, seeds, diary, place)


def _shown(title: str, say: Say) -> Callable[[int, int], Any]:
    """Says how far a run is, now and then."""
    said = [time.monotonic()]

    def show(step: int, steps: int) -> None:
        if time.monotonic() - said[0] > SAY_SECONDS:
            said[0] = time.monotonic()
            say(f"{title}: {step} of {steps} steps")

    return show
