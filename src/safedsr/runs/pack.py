"""Packed run folders: the data of a run that tables and figures need, small enough for version control.

    config.json  manifest.json  summary.parquet  series.parquet  [positions.parquet]

The summary is exact. Series are means over intervals of 2000 steps in half precision, or single if a number is too
large; the IQM over seeds, computed before this mean (Sec. 5.2), is stored as seed -1. Positions are those of the best
seed of each environment, in eighths of a cell, stored as differences.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safedsr.errors import UserError
from safedsr.runs import metrics, storage
from safedsr.runs.folder import PLACE, read_config, read_manifest
from safedsr.runs.labels import label_of
from safedsr.runs.results import COUNTS, Result, read_run
from safedsr.runs.schema import CONFIG, MANIFEST
from safedsr.runs.storage import Columns
from safedsr.runs.tracks import PARTS, pack_track, restore_track
from safedsr.validation import require

PACKED, READABLE = "packed-2", ("packed-1", "packed-2")  # 'format' in the manifest of a packed folder
STRETCH = 2_000  # environment steps per point
POINTS = STRETCH // metrics.SPACING
SERIES = ("reward", "cost", "safe", "goal")
MIDDLE = -1  # seed number under which the IQM over seeds is stored
COLUMNS = {  # and their types
    "summary": {**PLACE, **dict.fromkeys(("goal count", "safe goal count", "last reward"), "iuf")},
    "series": {**PLACE, "step": "iu"},
    "positions": {"environment": "iu", "x": "iu", "y": "iu", "end": "b"},
}


def pack(folder: str | Path, out: str | Path, remarks: list[str] | None = None) -> Path:
    """Write the packed form of a run folder into a new folder; `remarks` receives what the run lacks."""
    folder, out = Path(folder), Path(out)
    manifest = read_manifest(folder)
    if out.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{out} is in the run folder {folder}; choose another folder for the copy")
    if out.exists() and not _unfinished(out):
        raise UserError(f"{out} is not empty; choose another folder")
    results = read_run(folder, [] if remarks is None else remarks)
    if not results:
        raise UserError(f"{folder} has no finished episode in any of its tasks; continue its training")
    storage.make_folder(out)
    about = {"step": str(next(iter(results.values())).steps)}
    storage.write_table(out / "summary", storage.concatenate([_summary(*row) for row in results.items()]), about)
    storage.write_table(out / "series", storage.concatenate([_series(*row) for row in results.items()]), about)
    if tracks := {i: result.positions for i, result in results.items() if result.positions is not None}:
        storage.write_table(out / "positions", _positions(tracks), about)
    storage.write_json(out / CONFIG, read_config(folder), signed=True)
    # The manifest is written last: a folder with a manifest is complete.
    packed = {**manifest, "format": PACKED, "command": names_only(manifest)}
    storage.write_json(out / MANIFEST, packed, signed=True)
    return out


def _unfinished(out: Path) -> bool:
    """Whether a folder is empty, or holds only files of a packing that was killed."""
    files = {CONFIG, *(f"{name}{end}" for name in COLUMNS for end in (".parquet", ".safetensors"))}
    known = (entry.name in files or storage.TEMPORARY.fullmatch(entry.name) for entry in out.iterdir())
    return out.is_dir() and all(known)


def pack_all(folders: Sequence[Path], out: Path, remarks: list[str]) -> list[Path]:
    """Pack several run folders into folders of the same names under `out`."""
    names = [folder.resolve().name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{names.count(name)} folders are named '{name}'; pack them into different --out folders")
    return [pack(folder, out / name, remarks) for folder, name in zip(folders, names, strict=True)]


def names_only(manifest: dict[str, Any]) -> str:
    """The command of a manifest, with paths reduced to file names."""
    words = str(manifest.get("command", "")).split(" ")
    flags = [word.partition("=") for word in words]
    return " ".join(flag + equals + Path(value).name if equals else Path(flag).name for flag, equals, value in flags)


def read_packed(folder: Path) -> dict[int, Result]:
    """The results of a packed folder, by environment."""
    config = read_config(folder)
    summary, series, positions = (storage.read_table(folder / name) for name in COLUMNS)
    if summary is None or series is None:
        raise UserError(f"{folder} lacks its summary or its series; pack the run again")
    steps = storage.whole_number(summary[1], "step", folder / "summary")
    for (name, kinds), found in zip(COLUMNS.items(), (summary, series, positions), strict=True):
        if found:
            storage.check_table(found[0], kinds, str(folder / name))
    if lacking := [name for name in SERIES if name not in series[0]]:
        raise UserError(f"{folder / 'series'} lacks the column '{lacking[0]}'; pack the run again")
    tracks = positions[0] if positions else {}
    return {
        i: _result(folder, config, i, steps, _rows(summary[0], i), _rows(series[0], i), _rows(tracks, i))
        for i in range(len(config["tasks"]))
        if (summary[0]["environment"] == i).any()
    }


def _rows(table: Columns, environment: int) -> Columns:
    here = table["environment"] == environment if table else np.zeros(0, bool)
    return {name: column[here] for name, column in table.items()}


def _result(
    folder: Path, config: dict[str, Any], i: int, steps: int, summary: Columns, series: Columns, track: Columns
) -> Result:
    about = config["tasks"][i]
    budgets, costs, seeds = tuple(about["budgets"]), tuple(about["costs"]), tuple(summary["seed"].tolist())
    counts = {name: summary[name] for name in COUNTS if name in summary}
    if lacking := [f"last cost {j}" for j in range(len(costs)) if f"last cost {j}" not in summary]:
        raise UserError(f"{folder / 'summary'} lacks the column '{lacking[0]}'; pack the run again")
    counts |= {f"last cost {name}": summary[f"last cost {j}"] for j, name in enumerate(costs)}
    grid = series["step"][series["seed"] == MIDDLE]
    rows = series["step"], np.tile(grid, len(seeds) + 1)
    require(np.array_equal(*rows), f"the rows of {folder / 'series'}", len(rows[0]), f"give {len(rows[1])} in order")
    points = {name: series[name].astype(np.float32).reshape(len(seeds) + 1, len(grid)) for name in SERIES}
    return Result(
        path=folder,
        algorithm=config["algorithm"],
        label=label_of(config, budgets, steps),
        layout=about["name"],
        costs=costs,
        budgets=budgets,
        seeds=seeds,
        steps=steps,
        counts=counts,
        points=grid,
        series={name: values[1:] for name, values in points.items()},
        positions=restore_track(track) if len(track.get("x", ())) else None,
        config=config,
        params=about["params"],
        middle={name: values[0] for name, values in points.items()},
    )


def _summary(i: int, result: Result) -> Columns:
    costs = {f"last cost {j}": result.counts[f"last cost {name}"] for j, name in enumerate(result.costs)}
    counts = {name: result.counts[name] for name in COUNTS if name in result.counts}
    return {"environment": np.full(len(result.seeds), i, np.int32), "seed": np.array(result.seeds), **counts, **costs}


def _series(i: int, result: Result) -> Columns:
    ends = np.append(result.points[POINTS - 1 :: POINTS], result.points[len(result.points) // POINTS * POINTS :][-1:])
    seeds = np.array([MIDDLE, *result.seeds])
    middle = result.middle or {name: metrics.over_seeds(result.series[name]) for name in SERIES}
    values = {name: stretches(np.vstack([middle[name], result.series[name]])) for name in SERIES}
    return {
        "environment": np.full(len(seeds) * len(ends), i, np.int32),
        "seed": np.repeat(seeds, len(ends)),
        "step": np.tile(ends, len(seeds)),
        **{name: _smallest(found.ravel()) for name, found in values.items()},
    }


def _smallest(numbers: np.ndarray) -> np.ndarray:
    """The numbers in half precision, or in single precision if one of them is too large for that."""
    fits = not (np.abs(numbers) > np.finfo(np.float16).max).any()
    return numbers.astype(np.float16 if fits else np.float32)


def stretches(series: np.ndarray) -> np.ndarray:
    """Means over ten points each [S, ceil(T / 10)]; NaN is ignored."""
    missing = -series.shape[1] % POINTS
    whole = np.pad(series, ((0, 0), (0, missing)), constant_values=np.nan).reshape(len(series), -1, POINTS)
    known = np.isfinite(whole)
    count = known.sum(-1)
    return np.divide(np.where(known, whole, 0).sum(-1), count, out=np.full(count.shape, np.nan), where=count > 0)


def _positions(tracks: dict[int, np.ndarray]) -> Columns:
    widest = max(np.nanmax(track, initial=0) for track in tracks.values()) * PARTS
    kind = np.uint8 if np.rint(widest) <= np.iinfo(np.uint8).max else np.uint16
    tables = []
    for i, track in tracks.items():
        breaks = np.isnan(track[:, 0])
        packed = pack_track(track[~breaks], np.append(breaks[1:], False)[~breaks], kind)
        tables.append({"environment": np.full(len(packed["end"]), i), **packed})
    return storage.concatenate(tables)
