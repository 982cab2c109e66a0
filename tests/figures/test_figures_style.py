import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from safedsr.agents.registry import ALGORITHMS
from safedsr.figures.style import ORACLE, color_of, name_of, styles_of
from safedsr.paper.experiments import ON_POLICY
from safedsr.runs.labels import thousands

# Machado, Oliveira & Fernandes (2009), severity 1.0, on linear RGB.
SIGHT = {
    "usual": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]


def lab(color: str, sight: str) -> np.ndarray:
    """CIE L*a*b* of a colour as somebody sees it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(SIGHT[sight]) @ linear, 0, 1)
    x, y, z = np.asarray(TO_XYZ) @ seen / (0.95047, 1.0, 1.08883)
    f = [np.cbrt(v) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
def test_the_papers_algorithms_and_the_oracle_can_be_told_apart(sight):
    colors = [ORACLE, *map(color_of, (*ON_POLICY, "safedqn", "safedsr"))]
    distances = [np.linalg.norm(lab(a, sight) - lab(b, sight)) for a, b in itertools.combinations(colors, 2)]
    assert len(colors) == 14
    assert min(distances) > 25  # about 2.3 can just be noticed


def test_every_algorithm_has_a_colour_of_its_own():
    colors = {name: color_of(name) for name in ALGORITHMS}
    assert colors["dsr"] == colors["safedsr"] and colors["dqn"] == colors["safedqn"]
    assert len(set(colors.values())) == len(ALGORITHMS) - 2


def test_variants_share_the_colour_and_differ_in_dashes():
    labels = ["safedsr", "safedsr (absorb)", "safedsr (pid)", "safedqn"]
    styles = styles_of(labels)
    assert {styles[label].color for label in labels[:3]} == {color_of("safedsr")}
    assert len({styles[label].dash for label in labels[:3]}) == 3
    assert [styles[label].hollow for label in labels] == [False, True, True, False]
    assert styles["safedqn"].dash == styles["safedsr"].dash
    assert styles_of(reversed(labels)) == styles


def test_names_and_numbers_for_people():
    assert [name_of(label) for label in ("safedsr (absorb)", "ppo-lag", "cppo-pid", "oncrpo")] == [
        "SafeDSR (absorb)",
        "PPO-Lag",
        "CPPO-PID",
        "OnCRPO",
    ]
    assert [thousands(number).split() for number in (0.2, 712.5, 13686.4)] == [["0"], ["713"], ["13", "686"]]
