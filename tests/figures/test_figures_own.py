"""Figures of one's own runs, and that nothing lies outside of a canvas or on top of something else."""

import itertools

import numpy as np
import pytest
from made import made_result
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from safedsr.engine.evaluate import Estimate
from safedsr.figures.curves import rates_figure, training_figure
from safedsr.figures.own import evaluation_figure, learning_figure, own_figures
from safedsr.figures.scatter import trade_off_figure
from safedsr.figures.select import Group
from safedsr.figures.style import BUDGET, distinct_styles, styles_of
from safedsr.runs.compare import Comparison
from safedsr.runs.config import Terms
from safedsr.runs.metrics import window_mean
from safedsr.runs.reference import Level, Reference, key_of

LONG = "safedqn (gamma=0.9, batch_size=64, hidden=8,8, train_every=5, sync_every=200, learning_rate=0.0005, rule=sign)"
LABELS = ("safedqn", LONG, "safedsr-plus (epsilon_end=0.05)", "safedsr-plus (epsilon_end=0.25)", "ppo-lag")
LEVEL = Level(0.25, 1.0, 0.9, reward=0.7, cost=(1.5, 2.5))


def compared(*costs: str, budget: float = 5.0, labels=LABELS, high: float = 9.0) -> Comparison:
    rising = {"reward": np.linspace(-10, 1, 40), "safe": np.linspace(0, 1, 40), "cost": np.linspace(high, 0, 40)}
    rising |= {f"cost {name}": np.linspace(high, n, 40) for n, name in enumerate(costs)}
    series = {name: np.tile(values, (4, 1)) for name, values in rising.items()}
    budgets = (budget,) * len(costs)
    results = [made_result(label, "two-rooms", costs, budgets, series=series, steps=8_000) for label in labels]
    return Comparison(f"two-rooms, {', '.join(costs)}; budget 5", costs, budgets, Terms(), results)


def evaluated(one: Comparison) -> dict[str, dict[str, Estimate]]:
    names = ["return", *(f"cost ({name})" for name in one.costs)]
    return {
        result.label: {name: Estimate(n, n - 0.5, n + 0.5) for name in names} for n, result in enumerate(one.results)
    }


def words(figure: Figure) -> list[tuple[Text, Bbox]]:
    """Titles, names of axes and entries of legends, with their boxes; numbers at ticks belong to their panels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    sides = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    ticks = {text for axis in sides for text in axis.findobj(Text) if text is not axis.label}
    hidden = {text for axes in figure.axes if not axes.get_visible() for text in axes.findobj(Text)}
    shown = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text() and text.get_visible()]
    return [(text, text.get_window_extent(renderer)) for text in shown if text not in ticks | hidden]


def figures() -> dict[str, Figure]:
    one = compared("diamond", "square")
    alone = compared("diamond")
    three = [made_result(label, layout) for label in LABELS for layout in ("one-room", "two-rooms", "three-rooms")]
    group = Group(("diamond",), (5.0,), three)
    known = {key_of(one.results[0]): Reference(8_000, 9.0, 8.0, LEVEL, LEVEL._replace(epsilon=0.0))}
    return {
        "learning": learning_figure(one, known),
        "alone": learning_figure(alone, {}),
        "evaluation": evaluation_figure(one, evaluated(one)),
        "single": evaluation_figure(alone, evaluated(alone)),
        "rates": rates_figure(group, {}),
        "trade-off": trade_off_figure(group, {}),
        "training": training_figure([result for result in three if result.layout == "one-room"], "cost", {}),
    }


@pytest.mark.parametrize("name", ["learning", "alone", "evaluation", "single", "rates", "trade-off", "training"])
def test_every_text_is_inside_the_canvas_and_none_covers_another(name):
    figure = figures()[name]
    found = words(figure)
    assert len(found) > 5
    width, height = figure.get_size_inches() * figure.dpi
    for text, box in found:
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert inside, f"{text.get_text()!r} is cut off"
    for (one, a), (other, b) in itertools.combinations(found, 2):
        over = min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
        assert not over, f"{one.get_text()!r} covers {other.get_text()!r}"


def test_each_cost_has_a_panel_with_its_budget_and_the_unsafe_side_is_tinted():
    figure = learning_figure(compared("diamond", "square"), {})
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == [
        "return of an episode",
        "safe goal rate",
        "cost of an episode (diamond)",
        "cost of an episode (square)",
    ]
    for axes in figure.axes[2:]:
        (tinted,) = [patch for patch in axes.patches if patch.get_facecolor()[:3] == to_rgba(BUDGET)[:3]]
        box = tinted.get_extents().transformed(axes.transData.inverted())
        assert box.y0 == pytest.approx(5) and box.y1 == pytest.approx(axes.get_ylim()[1])
    assert "mean over the last" in figure.get_suptitle()


def test_a_wide_cost_axis_is_symlog_and_says_so():
    axes = learning_figure(compared("diamond", high=900.0), {}).axes[2]
    assert axes.get_yscale() == "symlog" and axes.get_ylabel().endswith("symlog scale")
    assert learning_figure(compared("diamond"), {}).axes[2].get_yscale() == "linear"


def test_curves_are_smoothed_over_the_window_that_is_named():
    one = compared("diamond", labels=("safedqn",))
    assert one.window == 200 and "last 200 steps" in learning_figure(one, {}).get_suptitle()
    long = one._replace(results=[one.results[0]._replace(steps=25_000)])
    (line,) = [line for line in learning_figure(long, {}).axes[0].lines if line.get_label() == "SafeDQN"]
    expected = window_mean(long.results[0].series["reward"], 1_000)[0]
    np.testing.assert_allclose(np.asarray(line.get_ydata(), float), expected, rtol=1e-6)


def test_every_run_has_a_colour_and_a_marker_of_its_own():
    styles = distinct_styles(f"safedsr-plus (gamma={n})" for n in range(7))
    assert len({style.color for style in styles.values()}) == len({style.marker for style in styles.values()}) == 7
    many = distinct_styles(map(str, range(17)))
    assert len({(style.color, style.dash) for style in many.values()}) == 17
    variants = styles_of(["safedsr", "safedsr (absorb)", "safedsr (pid)"])
    assert len({style.marker for style in variants.values()}) == 3


def test_files_have_true_colours(tmp_path):
    from PIL import Image

    one = compared("diamond")
    drawn = own_figures([one], {(one.title, label): found for label, found in evaluated(one).items()}, tmp_path, {})
    kinds = [path.name.partition("-")[0] for _, path in drawn]
    assert kinds == ["map", "learning", "evaluation"]
    for _, path in drawn:
        with Image.open(path) as image:
            assert image.mode in ("RGB", "RGBA")
        assert path.with_suffix(".pdf").is_file()
