import numpy as np
import pytest
from made import made_result

from safedsr.envs.grid.config import OracleConfig
from safedsr.envs.grid.text import format_scene, parse_scene
from safedsr.runs.reference import (
    Level,
    Reference,
    add_references,
    any_reference,
    compute_reference,
    key_of,
    read_references,
    reference_of,
    write_references,
)

LEVEL = Level(0.25, 1.0, 0.5, reward=0.7, cost=(1.5, 0.0))
REFERENCE = Reference(500_000, 99.0, 88.5, exploring=LEVEL, greedy=LEVEL._replace(epsilon=0.0, cost=()))


def test_numbers_survive_the_file(tmp_path):
    assert read_references(tmp_path) == {}
    write_references(tmp_path / "new", {"a": REFERENCE, "b": REFERENCE._replace(goal_count=1.0)})
    found = read_references(tmp_path / "new")
    assert found == {"a": REFERENCE, "b": REFERENCE._replace(goal_count=1.0)}
    assert isinstance(found["a"].greedy, Level)


def test_a_reference_belongs_to_costs_budgets_and_steps():
    one = made_result()
    known = {key_of(one): REFERENCE}
    assert reference_of(one._replace(label="cpo"), known) == REFERENCE
    assert reference_of(None, known) is None
    for other in (
        one._replace(costs=("square",)),
        one._replace(budgets=(2.0,)),
        one._replace(steps=1000),
        one._replace(layout="two-rooms"),
    ):
        assert reference_of(other, known) is None
        assert any_reference([other], known) is None
        assert any_reference([other, one], known) == REFERENCE


def test_what_is_known_is_not_computed_again(tmp_path):
    one, said = made_result(), []
    known = {key_of(one): REFERENCE}
    write_references(tmp_path, known)
    assert add_references([one, one._replace(label="cpo")], tmp_path, show=said.append) == known
    assert said == []


@pytest.fixture
def short_way():
    """A result on a map on which the goal is two or three steps away, through one cell with a cost."""
    scene = parse_scene("SCG", "short")
    made = made_result(layout="short", costs=scene.cost_names, steps=2_000)
    return made._replace(params={"map": format_scene(scene)})


def test_the_oracle_of_a_short_way(short_way, tmp_path):
    config = OracleConfig(subcells=2, sweeps=50, walks=4)
    found = add_references([short_way], tmp_path, config)[key_of(short_way)]
    assert read_references(tmp_path) == {key_of(short_way): found}
    assert found == compute_reference(short_way, config)
    assert found.steps == 2_000
    # From 0.5 to 2.0 with steps of 0.75 ± 0.225: two steps as often as three, the last of them into the goal.
    assert found.greedy.epsilon == 0 and found.greedy.goal_rate == 1
    assert found.greedy.reward == pytest.approx(1 - 0.025, abs=0.002)
    np.testing.assert_allclose(found.greedy.cost, [1.5], atol=0.2)
    assert found.greedy.reward > found.exploring.reward
    assert 0 < found.safe_goal_count <= found.goal_count < 1_000
