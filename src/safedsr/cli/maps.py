"""The commands for maps: envs, show."""

from pathlib import Path
from typing import Annotated

import tyro

from safedsr.cli.terminal import CostNames, Json, LayoutName, print_json, print_table


def envs(as_json: Json = False) -> None:
    """List the maps and the cost shapes."""
    from safedsr.envs.grid.catalog import COST_SHAPES, ROOM_NAMES, load_scene

    maps = [load_scene(name) for name in ROOM_NAMES]
    if as_json:
        sizes = {m.name: {"height": m.layout.walls.shape[0], "width": m.layout.walls.shape[1]} for m in maps}
        return print_json({"layouts": sizes, "pattern": "rooms-N", "costs": list(COST_SHAPES)})
    print_table(
        ("layout", "rows × columns", ""),
        [
            *(
                (
                    m.name,
                    " × ".join(map(str, m.layout.walls.shape)),
                    "start in the left-most cell, goal in the right-most cell",
                )
                for m in maps
            ),
            ("rooms-N", "11 × 10·N+1", "N rooms"),
            (
                "FILE.txt",
                "as drawn",
                "# wall  . free  S start  G goal  C cost; the file can define more letters and costs",
            ),
        ],
    )
    print(f"costs: {', '.join(COST_SHAPES)}, FILE.txt; separate several costs with commas")


def show(
    layout: tyro.conf.Positional[LayoutName],
    costs: CostNames = None,
    png: Annotated[Path | None, tyro.conf.arg(help="Also draw the map into this picture file.")] = None,
    as_json: Json = False,
) -> None:
    """Print a map, or the timetable of a scenario file. With --png, also draw it."""
    if layout.endswith(".toml") or layout.startswith(("changing-v1/", "paper/")):
        return _show_scenario(layout, png, as_json=as_json)
    from safedsr.envs.grid.catalog import load_scene
    from safedsr.envs.grid.text import format_scene

    scene = load_scene(layout, costs)
    text = format_scene(scene)
    if png:
        from safedsr import figures

        figures.save(figures.map_figure(scene), png)
    if as_json:
        height, width = scene.layout.walls.shape
        print_json(
            {"layout": scene.name, "costs": list(scene.cost_names), "height": height, "width": width, "text": text}
        )
    else:
        print(text, end="")
        if png:
            print(f"\npicture: {png}")


def _show_scenario(name: str, png: Path | None, *, as_json: bool) -> None:
    """Print the timetable of a scenario."""
    from safedsr.scenario.course import make_course
    from safedsr.scenario.sets import find_scenarios

    for scenario in find_scenarios(name):
        course = make_course(scenario)
        if png:
            from safedsr import figures
            from safedsr.figures.scenarios import timetable_figure

            figures.save(timetable_figure(course), png)
        rows = [(p.start, p.end, p.announced, [*p.task.budgets], p.note) for p in course.phases]
        if as_json:
            names = ("start", "end", "announced", "budgets", "change")
            print_json({"scenario": course.name, "phases": [dict(zip(names, row, strict=True)) for row in rows]})
            continue
        shown = [
            (start, end, "announced" if told else "silent", ", ".join(f"{b:g}" for b in budgets), note)
            for start, end, told, budgets, note in rows
        ]
        print_table(("from step", "to", "", "budget", "what changes"), shown, f"{course.name}: {scenario.about}")
        if png:
            print(f"picture: {png}")
