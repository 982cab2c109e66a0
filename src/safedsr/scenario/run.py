"""Run contestants in scenarios. A finished seed has its result file; an interrupted run goes on from its last save."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from safedsr.engine.compiled import keep_compiled
from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.scenario.adaptive import Adaptive, first_phase, run_adaptive
from safedsr.scenario.contestants import Contestant, enters, learner_of
from safedsr.scenario.course import Course, make_course
from safedsr.scenario.diary import Diary
from safedsr.scenario.file import Scenario
from safedsr.scenario.guests import run_guest
from safedsr.scenario.learners import Place, place_at, run_learner
from safedsr.scenario.oracles import find_best, oracle_episodes, reachable
from safedsr.scenario.results import ORACLE, judge, result_file

WORK = ".work"  # states of unfinished runs and of first phases, in the folder of a scenario; it may be deleted
SAY_SECONDS = 15.0
Say = Callable[[str], None]


def run(
    scenarios: Sequence[Scenario],
    contestants: Sequence[Contestant],
    seeds: tuple[int, ...],
    out: Path,
    *,
    quick: bool = False,
    say: Say = print,
) -> None:
    """Run every contestant in every scenario, except those that are done."""
    keep_compiled()
    for scenario in scenarios:
        course = make_course(scenario, quick=quick)
        storage.make_folder(out / course.name)
        for contestant in contestants:
            if not enters(contestant, course.silent):
                say(f"{course.name}: {contestant.name} is left out: it would have to be told when to start again")
                continue
            missing = [seed for seed in seeds if not _done(course, contestant.name, seed, out)]
            if missing:
                _run_one(course, contestant, tuple(missing), out, say)


def _done(course: Course, contestant: str, seed: int, out: Path) -> bool:
    """Whether there is a result of this seed; raises if it is one of another text, or of a quick run."""
    path = result_file(out, course.name, contestant, seed)
    if not path.is_file():
        return False
    found = storage.read_json(path, ["scenario_sha256", "quick"])
    if (found["scenario_sha256"], found["quick"]) != (course.scenario.sha256, course.quick):
        raise UserError(f"{path} is a result of another scenario of this name, or of a quick run; choose another --out")
    return True


def reference(course: Course, out: Path) -> list[dict[str, Any]]:
    """What the oracle reaches in each phase; computed once and saved."""
    path = out / course.name / ORACLE
    if not path.is_file():
        storage.write_json(
            path, {"scenario_sha256": course.scenario.sha256, "quick": course.quick, "phases": reachable(course)[1]}
        )
    found = storage.read_json(path, ["phases", "scenario_sha256", "quick"])
    if (found["scenario_sha256"], found["quick"]) != (course.scenario.sha256, course.quick):
        path.unlink()
        return reference(course, out)
    return found["phases"]


def _run_one(course: Course, contestant: Contestant, seeds: tuple[int, ...], out: Path, say: Say) -> None:
    diary = Diary(seeds, len(course.phases), course.environment.spec.costs)
    work = out / course.name / (f"{WORK}-quick" if course.quick else WORK)
    span = f"{seeds[0]}-{seeds[-1]}-{len(seeds)}"
    say(f"{course.name}: {contestant.name}, {len(seeds)} seeds, {course.steps} steps")
    place = place_at(work / f"{contestant.name}-{span}.safetensors", _shown(f"{course.name}: {contestant.name}", say))
    _take_part(course, contestant, seeds, diary, place, work / f"{contestant.algorithm}-first-{span}.safetensors")
    known = reference(course, out)
    for index, seed in enumerate(seeds):
        path = result_file(out, course.name, contestant.name, seed)
        storage.make_folder(path.parent)
        storage.write_json(path, judge(course, contestant.name, diary, index, known))
    place.path.unlink(missing_ok=True)


def _take_part(
    course: Course, contestant: Contestant, seeds: tuple[int, ...], diary: Diary, place: Place, base: Path
) -> None:
    if contestant.kind == "oracle":
        for phase in course.phases:
            best = find_best(course, phase)
            for seed in seeds:
                diary.add_episodes(seed, oracle_episodes(course, phase, best, seed))
        return
    if contestant.kind == "guest":
        run_guest(course, contestant.algorithm, seeds, diary)
        return
    learner = learner_of(contestant, course.first, elsewhere=course.grid is None)
    if contestant.kind == "adaptive":
        run_adaptive(course, Adaptive(learner, contestant.level), seeds, diary, place, base)
        return
    if contestant.algorithm == "safedsr-plus" and not place.path.exists():  # it shares its first phase with the others
        state = first_phase(course, learner, seeds, diary, place, base)
        diary.save(place.path, state)
    run_learner(course, learner, seeds, diary, place)


def _shown(title: str, say: Say) -> Callable[[int, int], None]:
    """Says how far a run is, now and then."""
    said = [time.monotonic()]

    def show(step: int, steps: int) -> None:
        if time.monotonic() - said[0] > SAY_SECONDS:
            said[0] = time.monotonic()
            say(f"{title}: {step} of {steps} steps")

    return show
