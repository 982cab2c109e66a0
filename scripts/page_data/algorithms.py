"""The tables of docs/algorithms."""

from page_data import counts, formats, sources
from page_data.registry import text
from safedsr.runs.results import HALVED

SAFE = counts.SAFE
MORE, ALL = "safedsr-cut-three-rooms", "safedsr-cut+safedsr-cut-three-rooms"


def _free(folder: str, layout: str, bold: str = "") -> str:
    found = sources.summary(folder, layout, "none")
    return f"{bold}{formats.count(found.iqm)}{bold} {formats.quartiles(found)}"


def _paper(key: str, layout: str, algorithm: str) -> str:
    found = sources.paper(key, layout, algorithm)
    return f"{formats.count(found.iqm)} [{formats.count(found.p25)}, {formats.count(found.p75)}]"


@text
def baseline_results(name: str) -> str:
    """The results of one on-policy baseline, beside the paper's."""

    def costly(costs: str, safe: str = SAFE) -> list[str]:
        pairs = (
            (sources.summary(name, layout, costs).iqm, sources.summary(name, layout, costs, safe).iqm)
            for layout in sources.ROOMS
        )
        return [" / ".join(map(formats.count, pair)) for pair in pairs]

    printed = [
        " / ".join(formats.count(sources.paper(key, layout, name).iqm) for key in (sources.GOALS, sources.SAFE))
        for layout in sources.ROOMS
    ]
    lines = [
        ["no costs", *(_free(name, layout) for layout in sources.ROOMS)],
        ["– paper", *(_paper(sources.FREE, layout, name) for layout in sources.ROOMS)],
        ["diamond, cost 1", *costly("diamond")],
        ["– the same, safety counted at cost 2", *costly("diamond", HALVED)],
        ["diamond, cost 2", *costly("2*diamond")],
        ["– paper", *printed],
    ]
    return formats.table(["", *sources.ROOMS.values()], lines)


@text
def safedqn_results() -> str:
    """SafeDQN beside the paper, with quartiles."""
    lines = []
    for label, key, costs, what in (
        ("goals, no costs", sources.FREE, "none", "goal count"),
        ("goals, diamond", sources.GOALS, "diamond", "goal count"),
        ("safe goals, diamond", sources.SAFE, "diamond", SAFE),
    ):
        lines.append([label, *(_bold("safedqn", layout, costs, what) for layout in sources.ROOMS)])
        lines.append(["– paper", *(_paper(key, layout, "safedqn") for layout in sources.ROOMS)])
    return formats.table(["", *sources.ROOMS.values()], lines)


def _bold(folder: str, layout: str, costs: str, what: str) -> str:
    found = sources.summary(folder, layout, costs, what)
    return f"**{formats.count(found.iqm)}** {formats.quartiles(found)}"


def _both(folder: str, layout: str) -> str:
    return " / ".join(_bold(folder, layout, "diamond", what) for what in ("goal count", SAFE))


@text
def safedsr_costs() -> str:
    """SafeDSR with the diamond: goals / safe goals, with quartiles."""
    printed = [
        " / ".join(formats.count(sources.paper(key, layout, "safedsr").iqm) for key in (sources.GOALS, sources.SAFE))
        for layout in sources.ROOMS
    ]
    lines = [
        ["paper", *printed],
        ["`cut`", *(_both("safedsr-cut", layout) for layout in sources.ROOMS)],
        ["`cut`, 50 more seeds (10–59)", "", "", _both(MORE, "three-rooms")],
        ["`cut`, all 60 seeds", "", "", _both(ALL, "three-rooms")],
        ["`absorb`", *(_both("safedsr-absorb", layout) for layout in sources.ROOMS)],
        ["oracle", *(f"{counts.oracle_safe_goals(layout, 'diamond')} safe" for layout in sources.ROOMS)],
    ]
    return formats.table(["goals / safe goals, diamond", *sources.ROOMS.values()], lines)


@text
def safedsr_free() -> str:
    """SafeDSR without costs, with quartiles."""
    lines = [
        ["paper", *(formats.count(sources.paper(sources.FREE, layout, "safedsr").iqm) for layout in sources.ROOMS)],
        ["`cut`", *(_free("safedsr-cut", layout, "**") for layout in sources.ROOMS)],
        ["`absorb`", *(_free("safedsr-absorb", layout, "**") for layout in sources.ROOMS)],
    ]
    return formats.table(["goals, no costs", *sources.ROOMS.values()], lines)
