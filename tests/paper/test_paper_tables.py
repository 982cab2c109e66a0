"""The paper's tables as data, checked by known properties of their numbers."""

import pytest

from safedsr.agents.registry import ALGORITHMS
from safedsr.paper.experiments import EXPERIMENTS, ON_POLICY
from safedsr.paper.tables import TABLES, Reported, reported

ALGORITHMS_OF_THE_PAPER = (*ON_POLICY, "safedqn", "safedsr")
LAYOUTS = ("one-room", "two-rooms", "three-rooms")
CELLS = {
    (table.number, layout, algorithm): reported(table.key, layout, algorithm)
    for table in TABLES
    for layout in LAYOUTS
    for algorithm in ALGORITHMS_OF_THE_PAPER
}


def test_thirteen_algorithms_in_every_table():
    assert len(CELLS) == 5 * 3 * 13 and all(isinstance(cell, Reported) for cell in CELLS.values())
    assert set(ALGORITHMS_OF_THE_PAPER) <= ALGORITHMS.keys()
    assert set(ALGORITHMS_OF_THE_PAPER) == {a for row in EXPERIMENTS["baselines"] for a in row.algorithms}
    assert reported(TABLES[0].key, "rooms-4", "cpo") is None and reported(TABLES[0].key, "one-room", "dqn") is None


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ((3, "one-room", "safedqn"), (22753.9, 41.8, 22718.0, 22749.5, 22768.5)),
        ((3, "two-rooms", "rcpo"), (10311.5, 3754.2, 10206.2, 11498.5, 11992.5)),
        ((6, "one-room", "p3o"), (-5.3, 4.8, -10.0, -5.6, -0.8)),
    ],
)
def test_cells_as_in_the_paper(cell, expected):
    assert CELLS[cell] == expected


def test_counts_are_means_of_ten_and_their_iqm_of_six():
    """Counts are whole: ten times a mean, and six times the mean of the middle six, are whole but for the rounding."""
    for (number, *_), cell in CELLS.items():
        if cell and number in (3, 4, 5):
            assert abs(6 * cell.iqm - round(6 * cell.iqm)) <= 6 * 0.05 + 1e-6
            assert cell.p25 <= cell.iqm <= cell.p75 and cell.std >= 0


def test_the_costs_of_the_baselines_are_even():
    """What the note under the table of costs says; our two agents show what costs look like that are not doubled."""
    odd = {
        algorithm
        for (number, _, algorithm), cell in CELLS.items()
        if cell and number == 7 and round(10 * cell.mean) % 2
    }
    assert odd and odd <= {"safedqn", "safedsr"}
    assert "even" in TABLES[-1].note
