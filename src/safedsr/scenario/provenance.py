"""What a result was made with: versions, device, precision, and a hash of the settings of the contestant."""

import dataclasses
import functools
import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from safedsr.errors import UserError
from safedsr.runs.writer import commit
from safedsr.scenario import adaptive, runner, silent, watch
from safedsr.scenario.contestants import Contestant, learner_of
from safedsr.scenario.course import Course
from safedsr.scenario.learners import REFIT_UPDATES, make_job
from safedsr.scenario.oracles import SEARCH

STATES = 1  # format of the states of unfinished runs


def settings_hash(course: Course, one: Contestant) -> str:
    """A hash of all that decides how a contestant acts in a scenario, but for the versions of the programs."""
    if one.kind == "guest":
        path = Path(one.algorithm.rpartition(":")[0])
        try:
            return _hash([one.name, path.read_text(encoding="utf-8")])
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if one.kind == "oracle":
        return _hash([one.name, SEARCH])
    found: dict[str, Any] = {"learner": shared_hash(course, one), "kind": one.kind, "level": one.level}
    if one.kind == "adaptive":
        spend = (runner.QUICK_CERTIFICATE, runner.QUICK_SPEND) if course.quick else (runner.CERTIFICATE, runner.SPEND)
        found["spend"] = [dataclasses.asdict(part) for part in spend]
        found["guard"] = [adaptive.CHECK, adaptive.FACTORS]
        found["watch"] = [silent.BEGINS, silent.PAUSE, silent.MOST_ALARMS, watch.CALIBRATION, watch.SLACK, watch.LIMIT]
        found["watch"] += [watch.MOST, watch.LEAST_SPREAD, watch.FORGETTING]
    return _hash(found)


def shared_hash(course: Course, one: Contestant) -> str:
    """A hash of what decides how a contestant learns, which variants of an agent share."""
    learner = learner_of(one, course.first, elsewhere=course.grid is None)
    job = make_job(course, learner, (0,), course.first)
    begins = silent.BEGINS if course.silent else 1.0
    how = {name: value for name, value in learner._asdict().items() if name not in ("settings", "quick")}
    return _hash([job.algorithm, dataclasses.asdict(job.agent), how, begins, REFIT_UPDATES])


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def stamp(course: Course, settings: str) -> str:
    """What a saved state belongs to."""
    return f"{STATES} {course.scenario.sha256} {settings} {course.matmul}{' quick' if course.quick else ''}"


@functools.cache
def versions() -> dict[str, Any]:
    """The versions of this program, and the device."""
    device = jax.devices()[0]
    named = {"safedsr": metadata.version("safedsr"), "commit": commit(), "jax": metadata.version("jax")}
    return {**named, "device": f"{device.platform}: {device.device_kind}"}


def made_with(course: Course, settings: str, together: int) -> dict[str, Any]:
    """The entry of a result: versions, precision, hash of the settings, and how many seeds were in the last batch."""
    return {**versions(), "matmul": course.matmul, "settings_sha256": settings, "seeds_together": together}


def in_words(made: dict[str, Any]) -> str:
    """Versions, device and precision in a line."""
    known = f" ({made['commit'][:8]})" if made["commit"] else ""
    return f"safedsr {made['safedsr']}{known}, jax {made['jax']}, {made['device']}, {made['matmul']}"
