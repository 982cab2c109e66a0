from types import SimpleNamespace
from typing import Any

import numpy as np

from safedsr.adapt.maps import SUBCELLS, value_maps
from safedsr.envs.grid.environment import grid_task
from safedsr.envs.grid.text import parse_scene
from safedsr.figures.values import values_figure
from safedsr.types import Values


def make_agent(text: str, costs: bool = True) -> Any:
    """Something that walks right in the upper half and down in the lower, and expects what its position says."""
    scene = parse_scene(text, "made")
    height = scene.layout.walls.shape[0]

    def values(obs: np.ndarray) -> Values:
        x, y = (np.asarray(obs) * scene.layout.scale).T
        q = np.stack([0 * x, y, 0 * x, x + height], 1)
        k = np.stack([0 * x, x, 0 * x, 10 * y], 1)[..., None]
        score = np.where((y < height / 2)[:, None], [0, 0, 0, 1], [0, 1, 0, 0]) + 0.0
        return Values(q=q, k=k if costs else None, m=None, score=score)  # type: ignore[arg-type]

    task = grid_task(scene, (1.0,))
    return SimpleNamespace(task=task, values=values, seed=3, job=SimpleNamespace(algorithm="safedsr"))


def test_values_are_those_of_the_greedy_action_at_evenly_spaced_points():
    found = value_maps(make_agent("S.C\n#.G"))
    assert found.actions.tolist() == [[3, 3, 3], [-1, 1, 1]]
    assert found.q.shape == found.score.shape == (2 * SUBCELLS, 3 * SUBCELLS)
    middles = (np.arange(12) + 0.5) / SUBCELLS
    np.testing.assert_allclose(found.q[0], middles + 2, rtol=1e-6)
    np.testing.assert_allclose(found.q[-1, SUBCELLS:], 2 - 0.5 / SUBCELLS, rtol=1e-6)
    assert found.k is not None and found.k.shape == (1, 8, 12)
    np.testing.assert_allclose(found.k[0, 0], 10 * 0.5 / SUBCELLS, rtol=1e-6)
    np.testing.assert_allclose(found.k[0, -1, SUBCELLS:], middles[SUBCELLS:], rtol=1e-6)


def test_inside_walls_nothing_is_expected():
    found = value_maps(make_agent("S.C\n#.G"))
    assert found.k is not None
    for values in (found.q, found.k[0], found.score):
        assert np.isnan(values[SUBCELLS:, :SUBCELLS]).all()
        assert np.isfinite(values[:, SUBCELLS:]).all()


def test_a_panel_for_each_value_and_one_for_the_arrows():
    def titles(agent: Any) -> list[str]:
        return [axes.get_title() for axes in values_figure(agent).axes if axes.get_visible() and axes.get_title()]

    costs = parse_scene("S.C\n#.G", "made").cost_names[0]
    assert titles(make_agent("S.C\n#.G")) == [
        "Q, expected reward",
        f"K, expected cost ({costs})",
        "Q − λ·K",
        "greedy action",
    ]
    assert titles(make_agent("S.C\n#.G", costs=False)) == ["score of the greedy action", "greedy action"]
