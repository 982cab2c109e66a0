"""The agents of the experiment 'plus' without random actions."""

import pytest
from test_adapt_rungs import HIGH_ROAD, agent  # noqa: F401

from safedsr.paper import plus_greedy
from safedsr.paper.experiments import WHOLE
from safedsr.runs import storage

pytestmark = pytest.mark.usefixtures("compile_quickly")


def test_agents_are_measured_as_trained_and_adapted_to_no_random_actions(agent, tmp_path, monkeypatch):  # noqa: F811
    moved = agent.refit(HIGH_ROAD).changed(seed=3)  # M is of the way that costs something now
    moved.save(tmp_path / WHOLE)
    monkeypatch.setattr(plus_greedy, "COSTS", moved.task.cost_names)
    monkeypatch.setattr(plus_greedy, "ROOM_NAMES", (moved.task.name,))
    (table,) = plus_greedy.finish(tmp_path)
    rates = storage.read_json(tmp_path / plus_greedy.FILE)
    assert rates == {"trained": {moved.task.name: [0.0]}, "adapted": {moved.task.name: [1.0]}}
    assert [row[0] for row in table.rows] == list(plus_greedy.ROWS.values())
    assert [row[3] for row in table.rows] == ["0.000", "1.000"]
    assert plus_greedy.finish(tmp_path) == [table]  # as it is stored
