"""The command oracle."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from safedsr.cli.terminal import Budgets, CostNames, Json, LayoutName, busy, print_json, print_table
from safedsr.core.config import EpsilonSchedule
from safedsr.envs.grid.config import GridConfig, OracleConfig
from safedsr.validation import parse_budgets

if TYPE_CHECKING:
    from safedsr.envs.grid.layout import Layout
    from safedsr.envs.grid.oracle import Oracle, Walks

RewardsOf = Annotated[
    Path | None,
    tyro.conf.arg(
        help="Plan with the rewards that the agent in this run folder predicts (φ·w_r) instead of the true rewards. "
        "The result is the best policy for these predictions."
    ),
]


def oracle(
    layout: LayoutName = "one-room",
    costs: CostNames = None,
    budget: Budgets = "5",
    png: Annotated[Path | None, tyro.conf.arg(help="Draw episodes of the plan into this picture file.")] = None,
    as_json: Json = False,
    rewards_of: RewardsOf = None,
    rewards_seed: Annotated[int | None, tyro.conf.arg(help="Seed of that agent; the best one if not given.")] = None,
    schedule: Annotated[EpsilonSchedule, tyro.conf.arg(name="")] = EpsilonSchedule(),
    config: Annotated[OracleConfig, tyro.conf.arg(name="")] = OracleConfig(),
    grid: Annotated[GridConfig, tyro.conf.arg(name="")] = GridConfig(),
) -> None:
    """Plan with full knowledge of the map (the oracle), simulate the plan with the ε schedule and count goals."""
    from safedsr.envs.grid.catalog import load_scene

    scene = load_scene(layout, costs)
    budgets = parse_budgets(budget, len(scene.cost_names))
    from safedsr.envs.grid.oracle import check_room, find_oracle, oracle_paths

    check_room(scene.layout, config)
    rewards = None if rewards_of is None else _expected(rewards_of, rewards_seed, scene.layout, config.subcells)
    with busy(f"planning and simulating {scene.name}", quiet=as_json):
        found = find_oracle(scene.layout, budgets, schedule, config, grid, rewards)
    if png:
        from safedsr import figures

        paths = oracle_paths(found, scene.layout, (0.0, *[schedule.epsilon_end] * 8), config, grid)
        figures.save(figures.map_figure(scene, paths, f"oracle, {scene.name}, λ = {found.lam:g}"), png)
    if as_json:
        return print_json({**_as_json(found), "budgets": list(budgets), "steps": config.steps})
    _print(found, schedule)
    print(f"goals and safe goals: counts in {config.steps} steps, mean of {config.walks} simulations")
    print("rates, steps and cost: means over the episodes at the last ε of each row")
    if png:
        print(f"picture: {png}")


def _expected(run: Path, seed: int | None, layout: "Layout", subcells: int) -> Any:
    """The rewards that the agent of a run folder predicts for every step on this map."""
    from functools import partial

    from safedsr.adapt.costs import experience_of, learner_of, require_same_map
    from safedsr.adapt.refit import reward_weights
    from safedsr.agent import load
    from safedsr.envs.grid.environment import scene_of
    from safedsr.envs.grid.oracle import expected_rewards

    agent = load(run, seed)
    agent.require_single("take the rewards of")
    require_same_map(layout, scene_of(agent.task))
    w_r, adaptable = learner_of(agent).weights.w_r, agent.trainer.adaptable
    assert adaptable
    if len(w_r) > len(experience_of(agent).gram):  # the reward is a feature of M, which φ does not predict
        w_r = reward_weights(agent)[0]
    return expected_rewards(partial(adaptable.features, agent.policy), w_r, layout, subcells)


def _as_json(found: "Oracle") -> dict[str, Any]:
    return {
        **_walk_json(found.scheduled),
        "path_length": float(found.greedy.length),
        "path_cost": float(found.greedy.cost.sum()),
        "path_costs": found.greedy.cost.tolist(),
        "lam": float(found.lam),
        "lams": [float(lam) for lam in found.lams],
        "safe_goal_counts": {f"{lam:g}": round(count, 1) for lam, count in found.tried.items()},
        "epsilon_0": _walk_json(found.greedy),
        "epsilon_end": _walk_json(found.exploring),
    }


def _walk_json(walks: "Walks") -> dict[str, float]:
    return {
        name: float(getattr(walks, name)) for name in ("goal_count", "safe_goal_count", "goal_rate", "safe_goal_rate")
    }


def _print(found: "Oracle", schedule: EpsilonSchedule) -> None:
    rows = {
        f"schedule {schedule.epsilon_start:g} → {schedule.epsilon_end:g}": found.scheduled,
        "ε = 0": found.greedy,
        f"ε = {schedule.epsilon_end:g}": found.exploring,
    }
    print_table(
        ("ε", "goals", "safe goals", "goal rate", "safe goal rate", "steps", "cost"),
        [
            (
                name,
                f"{walks.goal_count:.0f}",
                f"{walks.safe_goal_count:.0f}",
                f"{walks.goal_rate:.3f}",
                f"{walks.safe_goal_rate:.3f}",
                f"{walks.length:.1f}",
                " ".join(f"{value:.1f}" for value in walks.cost),
            )
            for name, walks in rows.items()
        ],
        title=f"oracle, λ = {found.lam:g}",
    )
