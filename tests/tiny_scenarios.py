"""A tiny scenario, with phases of a few steps, and learners with tiny networks."""

import dataclasses
from typing import Any

from tiny import DSR, PLUS, SHARED

from safedsr.core.config import MultiplierConfig
from safedsr.scenario.course import make_course
from safedsr.scenario.diary import Diary
from safedsr.scenario.file import parse_scenario
from safedsr.scenario.learners import Learner

TINY = """format = 1
name = "tiny"
steps = 3_500

[environment]
map = '''
SC..G
.....
'''
costs = "cost"
budget = 1
time_limit = 12

[[change]]
at = 1_500
announced = ANNOUNCED
costs = '''
S..CG
....C
'''
"""
SIGN: dict[str, Any] = {"multiplier": MultiplierConfig(rule="sign", penalty_start=60)}


def tiny_course(announced="true", ends=(120, 320), text=TINY):
    """A course with phases of a few steps, fewer than a file may have."""
    course = make_course(parse_scenario(text.replace("ANNOUNCED", announced), "tiny.toml"))
    starts = (0, *ends[:-1])
    phases = [p._replace(start=s, end=e) for p, s, e in zip(course.phases, starts, ends, strict=True)]
    return dataclasses.replace(course, phases=tuple(phases))


def diary_of(course, seeds=(4,)):
    return Diary(seeds, len(course.phases), 1)


def tiny_learner(name="safedsr", **how):
    settings = {
        **SHARED,
        **{"safedsr": {**DSR, "freeze": 20, **SIGN}, "safedsr-plus": PLUS}.get(name, {"hidden": (8,)}),
    }
    return Learner(name, settings, {}, **how)
