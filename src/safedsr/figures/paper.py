"""All figures of the comparison with baselines (Sec. 5.3) for which there are results."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from safedsr.figures.curves import rates_figure, training_figure
from safedsr.figures.files import save_for_print
from safedsr.figures.heatmaps import counts_figure, outcomes_figure
from safedsr.figures.maps import environments_figure, grid_figure
from safedsr.figures.own import own_figures
from safedsr.figures.scatter import trade_off_figure
from safedsr.figures.select import Group, costless, groups, layouts_of, on_layout, scenes_of, title_of
from safedsr.figures.trajectories import trajectories_figure
from safedsr.runs.compare import comparisons
from safedsr.runs.reference import References, read_references
from safedsr.runs.results import Result

Drawn = tuple[str, str, Figure]  # file name, title, figure
FIRST_NUMBER = {"free reward": 14, "reward": 17, "cost": 20}  # of the paper's figures for one, two, three rooms
ROOMS = ("one-room", "two-rooms", "three-rooms")


def figures_of(
    results: Sequence[Result], folder: str | Path, references: References | None = None
) -> list[tuple[str, Path]]:
    """Draw all figures for which there are results, as PDF and PNG in a folder; return titles and PNGs.

    The oracle is shown if its numbers are in `references`, or in the file oracle.json of the folder.
    """
    folder = Path(folder)
    references = read_references(folder) if references is None else references
    grid, others = ([r for r in results if r.on_grid is wanted] for wanted in (True, False))
    drawn = [(title, save_for_print(figure, folder, name)) for name, title, figure in _all(grid, references)]
    return drawn + own_figures(comparisons(others), {}, folder, {})


def _all(results: Sequence[Result], references: References) -> Iterator[Drawn]:
    if not results:
        return
    scenes = scenes_of(results)
    yield "fig03-grid", "Fig. 3: the grid", grid_figure(next((s for s in scenes if s.layout.walls.any()), scenes[0]))
    yield "fig12-maps", "Fig. 12: the maps", environments_figure(scenes)
    compared = groups(results)
    for group in compared:
        yield from _comparison(results, group, references)
    free = costless(results)
    if free and not compared:
        yield "fig04-counts", "Fig. 4: goal count", counts_figure(results, None, references)
    yield from _training(free, "reward", "free reward", "no costs", references)


def _comparison(results: Sequence[Result], group: Group, references: References) -> Iterator[Drawn]:
    """The figures of one choice of costs and budgets."""
    where, slug = f"({group.title})", group.title
    figure = counts_figure(results, group, references)
    yield f"fig04-counts-{slug}", f"Fig. 4: goals and safe goals {where}", figure
    figure = outcomes_figure(group, references)
    yield f"fig05-outcomes-{slug}", f"Fig. 5: reward and cost of the last episodes {where}", figure
    figure = trade_off_figure(group, references)
    yield f"trade-off-{slug}", f"Reward against cost of the last episodes {where}", figure
    lasting = group._replace(results=_lasting(group.results))
    if lasting.results:
        figure = rates_figure(lasting, references)
        yield f"fig06-rates-{slug}", f"Fig. 6: safe goal rate over training, the best seven {where}", figure
    for layout in layouts_of(group.results):
        here = on_layout(group.results, layout)
        if any(result.positions is not None for result in here):
            title = f"{'Fig. 7' if layout == 'two-rooms' else 'As Fig. 7'}: last paths, {title_of(layout)} {where}"
            yield f"fig07-walks-{layout}-{slug}", title, trajectories_figure(here)
    for name in ("reward", "cost"):
        yield from _training(group.results, name, name, group.title, references, slug)


def _training(
    results: Sequence[Result], name: str, kind: str, where: str, references: References, slug: str = "none"
) -> Iterator[Drawn]:
    """Figs. 14-22: one for each map."""
    results = _lasting(results)
    for layout in layouts_of(results):
        number = f"Fig. {FIRST_NUMBER[kind] + ROOMS.index(layout)}" if layout in ROOMS else "As Figs. 14-22"
        title = f"{number}: {name} over training, {title_of(layout)} ({where})"
        figure = training_figure(on_layout(results, layout), name, references)
        yield f"training-{name}-{layout}-{slug}", title, figure


def _lasting(results: Sequence[Result]) -> list[Result]:
    """The results that are long enough for at least one point of a curve."""
    return [result for result in results if len(result.points)]
