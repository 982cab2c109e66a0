"""Compute what the oracle reaches in the twelve scenarios of changing-v1, for the package: some minutes on a CPU.

JAX_PLATFORMS=cpu python scripts/make_scenario_oracle.py
"""

import json

from safedsr.engine.compiled import keep_compiled
from safedsr.runs.storage import write_text
from safedsr.scenario.course import make_course
from safedsr.scenario.oracles import SEARCH, reachable
from safedsr.scenario.reference import FILE, plain
from safedsr.scenario.sets import SET, changing_v1, folder


def main() -> None:
    keep_compiled()
    phases = {}
    for scenario in changing_v1():
        phases[scenario.sha256] = reachable(make_course(scenario))[1]
        print(scenario.name)
    text = json.dumps({"search": plain(SEARCH), "phases": phases}, indent=1)
    write_text(folder(SET) / FILE, text + "\n")


if __name__ == "__main__":
    main()
