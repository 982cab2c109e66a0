"""The tables of README.md and docs/overview.md."""

from page_data import beside, counts, formats, plus, sources
from page_data.registry import text


@text
def readme_results() -> str:
    """Safe goals with the diamond of the recommended agent beside the others; the paper's in brackets."""
    lines = [
        [
            "**[SafeDSR-plus](docs/safedsr-plus.md)**, recommended",
            *(f"**{plus.plus_safe_goals(layout, 'diamond')}**" for layout in sources.ROOMS),
        ],
        ["SafeDSR, Algorithm 2 of the paper", *(_safe("safedsr", "safedsr-cut", layout) for layout in sources.ROOMS)],
        ["SafeDQN", *(_safe("safedqn", "safedqn", layout) for layout in sources.ROOMS)],
        ["the best of eleven OmniSafe baselines", *(beside.best_baseline(layout) for layout in sources.ROOMS)],
        [
            "oracle: knows the map, accounts for random actions",
            *(counts.oracle_safe_goals(layout, "diamond", "with-random") for layout in sources.ROOMS),
        ],
    ]
    return formats.table(["", *sources.ROOMS.values()], lines)


@text
def overview_results() -> str:
    """Safe goals with the diamond and goals without costs: ours, the paper's in brackets."""
    lines = [
        ["**safe goals with the diamond**", "", "", ""],
        [
            "**[SafeDSR-plus](safedsr-plus.md)**, seeds 70–79",
            *(f"**{plus.plus_safe_goals(layout, 'diamond')}**" for layout in sources.ROOMS),
        ],
        ["SafeDSR, Algorithm 2 of the paper", *(_safe("safedsr", "safedsr-cut", layout) for layout in sources.ROOMS)],
        [
            "SafeDSR with an absorbing goal",
            *(counts.safe_goals("safedsr-absorb", layout, "diamond") for layout in sources.ROOMS),
        ],
        ["SafeDQN", *(_safe("safedqn", "safedqn", layout) for layout in sources.ROOMS)],
        ["the best of eleven OmniSafe baselines", *(beside.best_baseline(layout) for layout in sources.ROOMS)],
        *(
            [f"oracle, {words}", *(counts.oracle_safe_goals(layout, "diamond", plan) for layout in sources.ROOMS)]
            for words, plan in (
                ("plans without random actions", "without-random"),
                ("accounts for random actions", "with-random"),
            )
        ),
        ["**goals without costs**", "", "", ""],
        ["**SafeDSR-plus**, seeds 50–59", *(f"**{plus.plus_goals(layout, 'none')}**" for layout in sources.ROOMS)],
        ["SafeDSR, Algorithm 2", *(_free("safedsr", "safedsr-cut", layout) for layout in sources.ROOMS)],
        [
            "SafeDSR with an absorbing goal",
            *(counts.goals("safedsr-absorb", layout, "none") for layout in sources.ROOMS),
        ],
        ["SafeDQN", *(_free("safedqn", "safedqn", layout) for layout in sources.ROOMS)],
    ]
    return formats.table(["", *sources.ROOMS.values()], lines)


def _safe(algorithm: str, folder: str, layout: str) -> str:
    return f"{counts.safe_goals(folder, layout, 'diamond')} ({counts.paper_safe_goals(algorithm, layout)})"


def _free(algorithm: str, folder: str, layout: str) -> str:
    paper = formats.count(sources.paper(sources.FREE, layout, algorithm).iqm)
    return f"{counts.goals(folder, layout, 'none')} ({paper})"
